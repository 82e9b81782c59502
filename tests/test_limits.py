"""What is beyond a limit is refused at once, with the number found, the limit and how to raise it."""

import gzip
import io
import json
import re
import resource
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as trying
from hypothesis import strategies as st

from attnlab.attention.bridge.installing import PLAN_FILE
from attnlab.attention.bridge.saved import load_with_plan
from attnlab.attention.plan import plan_of, write_plan
from attnlab.core import limits, texts
from attnlab.core.errors import InputError
from attnlab.core.limits import FILE, LINE, WORD, check_memory
from attnlab.corpora.corpus import load_corpus
from attnlab.corpora.readers import read_rows
from attnlab.evaluation.sources import read_texts
from attnlab.models.opening import load_transformers
from attnlab.models.training import train
from attnlab.models.training_settings import settings_from

MEBIBYTE = 2**20


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def write_long_line(path: Path, letters: int) -> None:
    """Two short lines with one of so many letters between them."""
    with path.open("wb") as file:
        file.write(b"uno\n")
        for _ in range(letters // MEBIBYTE):
            file.write(b"a" * MEBIBYTE)
        file.write(b"a" * (letters % MEBIBYTE) + b"\ndue\n")


@pytest.mark.parametrize("ending", [".txt", ".txt.gz"])
def test_a_long_line_is_refused_in_a_moment_and_in_little_memory(
    tmp_path: Path, ending: str
) -> None:
    plain, path = tmp_path / "long.txt", tmp_path / f"long{ending}"
    write_long_line(plain, 30 * MEBIBYTE + 7)
    if path != plain:
        path.write_bytes(gzip.compress(plain.read_bytes(), 1))
    before, start = peak_bytes(), time.perf_counter()
    with pytest.raises(InputError) as refused:
        texts.read_lines(path)
    assert str(refused.value) == (
        f"{path}, line 2, has 31,457,287 letters, beyond the limit of 1,000,000; shorten it, or set "
        "ATTNLAB_LINE_LETTERS=31457287."
    )
    assert time.perf_counter() - start < 2
    assert peak_bytes() - before < 20 * MEBIBYTE


def test_what_the_message_says_lets_the_line_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "all.tsv"
    path.write_text("a\tb\n" + "è " * 20 + "\td\n", encoding="utf-8")
    monkeypatch.setenv("ATTNLAB_LINE_LETTERS", "30")
    with pytest.raises(InputError, match=r"line 2, has 42 letters.*set ATTNLAB_LINE_LETTERS=42\."):
        list(read_rows(path, "tsv", ("en", "it")))
    monkeypatch.setenv("ATTNLAB_LINE_LETTERS", "42")
    assert len(list(read_rows(path, "tsv", ("en", "it")))) == 2


def test_a_file_that_unpacks_to_more_than_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "many.txt.gz"
    path.write_bytes(gzip.compress(b"\n" * 5000))
    monkeypatch.setenv("ATTNLAB_FILE_BYTES", "4999")
    with pytest.raises(InputError, match=r"5,000 bytes, beyond the limit of 4,999"):
        texts.read_lines(path)


def test_long_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "all.tsv"
    path.write_text("a b\tc\n" + "x" * 10_001 + " y\td\n", encoding="utf-8")
    expected = r"line 2, source side, has 10,001 letters in one word, beyond the limit of 10,000"
    with pytest.raises(InputError, match=expected):
        load_corpus(str(path))
    with pytest.raises(InputError, match=r"line 2, has 10,001 letters in one word"):
        read_texts(path)
    monkeypatch.setenv("ATTNLAB_WORD_LETTERS", "10001")
    assert len(read_texts(path)) == 2


def test_a_limit_is_a_number_and_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[1] / "docs" / "limits.md").read_text(encoding="utf-8")
    for limit in (LINE, WORD, FILE):
        row = re.search(rf"\| `{limit.variable}` \|(.*)", page)
        assert row is not None
        assert f"{limit.default:,}" in row[1]
        for bad in ("0", "-3", "many", "1.5"):
            monkeypatch.setenv(limit.variable, bad)
            with pytest.raises(InputError, match=f"{limit.variable} must be a whole number"):
                limit.refuse(1, "x")


def test_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "free_bytes", lambda _="cpu": 3 * 10**9)
    check_memory(3e9, "It", "cut it")
    check_memory(3.1e9, "It", "cut it", memory=4)
    for memory, there in ((None, "3.0 GB are free"), (1, "1.0 GB are allowed")):
        expected = f"It needs 3.1 GB of memory, and {there}; cut it."
        with pytest.raises(InputError, match=f"^{re.escape(expected)}$"):
            check_memory(3.1e9, "It", "cut it", memory=memory)


def test_a_model_whose_training_does_not_fit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    chosen = settings_from(
        {"model": {"dim": 64, "feed_forward": 10}, "tokenizer": {"vocabulary": 100}}
    )
    parameters = 100 * 64 + 12 * 64**2 + 2 * 2 * 64 * 10
    monkeypatch.setattr(limits, "free_bytes", lambda _: 16 * parameters - 1)
    with pytest.raises(InputError, match=f"Training a model of {parameters:,} parameters needs"):
        train(tmp_path / "run", chosen)
    assert not (tmp_path / "run").exists()


LAYERS, WIDTH = "a whole number from 0 to 10,000", "a whole number from 1 to 1,000,000"
ABSURD: dict[str, tuple[dict[str, object], str]] = {
    "labels": ({"num_labels": 10**9}, "num_labels must be a whole number from 0 to 1,000,000, not 1000"),
    "layers": ({"num_hidden_layers": 10**6}, f"num_hidden_layers must be {LAYERS}, not 1000000"),
    "inside": (
        {"text_config": {"num_hidden_layers": 10**6}}, f"text_config.num_hidden_layers must be {LAYERS}, not"
    ),
    "width": ({"hidden_size": 10**9}, f"hidden_size must be {WIDTH}, not 1000000000"),
    "nothing": ({"hidden_size": 0}, f"hidden_size must be {WIDTH}, not 0"),
    "negative": ({"num_hidden_layers": -1}, f"num_hidden_layers must be {LAYERS}, not -1"),
    "heads": ({"num_attention_heads": [2, -2]}, f"num_attention_heads must be {LAYERS}, not -2"),
    "text": ({"vocab_size": "many"}, "vocab_size must be a whole number from 0 to 10,000,000, not 'many'"),
    "truth": ({"intermediate_size": True}, f"intermediate_size must be {WIDTH}, not True"),
    "positions": (
        {"max_position_embeddings": 1e30},
        "max_position_embeddings must be a whole number from 0 to 100,000,000, not 1e+30",
    ),
    "all within limits": (
        {"hidden_size": 10**6, "num_attention_heads": 10, "intermediate_size": 10**6, "num_hidden_layers": 1},
        "The model of 7,031,049,000,000 parameters that",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ABSURD)
def test_absurd_sizes_in_a_configuration(case: str, tmp_path: Path) -> None:
    named, told = ABSURD[case]
    config = {"model_type": "bert", "architectures": ["BertModel"], **named}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    write_plan(tmp_path / PLAN_FILE, plan_of({"encoder": "full"}))
    before, start = peak_bytes(), time.perf_counter()
    with pytest.raises(InputError, match=re.escape(told)) as refused:
        load_transformers(tmp_path, scores=False)
    assert f"{tmp_path}/config.json" in str(refused.value)
    with pytest.raises(InputError, match=re.escape(told)):
        load_with_plan(tmp_path)
    assert peak_bytes() - before < 200 * MEBIBYTE
    assert time.perf_counter() - start < 10


def lines_at_once(content: bytes) -> list[str]:
    """What lines are, with the whole file in memory."""
    text = re.sub(r"\r+(\n|\Z)", r"\1", content.decode().lstrip("\ufeff"))
    if "\n" not in text:
        text = text.replace("\r", "\n")
    return text.removesuffix("\n").split("\n")


@given(st.lists(st.text("aè🙂\r", max_size=3), max_size=12), st.sampled_from(["\n", "\r\n", "\r"]))
@trying(max_examples=150, deadline=None)
def test_parts_give_the_lines_of_the_whole(lines: list[str], end: str) -> None:
    content = "".join(line + end for line in lines).encode()
    for whole in (content, content + b"last", b"\xef\xbb\xbf" + content):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(texts, "_PART", 3)
            patched.setenv("ATTNLAB_LINE_LETTERS", "9")
            try:
                found = list(texts.lines_in(io.BytesIO(whole).read, "x"))
            except InputError:
                # Carriage returns in a row are counted as letters until they turn out to be blank lines.
                found = None
        expected = lines_at_once(whole)
        assert found == expected or (found is None and end == "\r")
