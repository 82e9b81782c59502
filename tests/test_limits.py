"""What is beyond a limit is refused at once, with the number found, the limit and how to raise it."""

import gc
import gzip
import io
import json
import re
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import transformers
from hypothesis import given
from hypothesis import settings as trying
from hypothesis import strategies as st
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from attnlab.alignment import read_heads, read_links, read_pairs
from attnlab.attention.bridge.installing import PLAN_FILE
from attnlab.attention.bridge.saved import load_with_plan
from attnlab.attention.plan import plan_of, write_plan
from attnlab.core import limits, texts
from attnlab.core.documents import read_json
from attnlab.core.errors import InputError
from attnlab.core.limits import BLANK, FILE, LINE, WORD, check_memory
from attnlab.core.pretrained import SINUSOIDAL, _check_plausible_values
from attnlab.corpora.corpus import load_corpus
from attnlab.corpora.readers import read_rows
from attnlab.evaluation.sources import read_texts
from attnlab.labels.treebank import load_treebank
from attnlab.models.embeddings import load_embeddings
from attnlab.models.opening import load_transformers
from attnlab.models.training import train
from attnlab.models.training_settings import settings_from
from attnlab.results.csv_tables import read_any_table

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
    for limit in (LINE, WORD, FILE, BLANK):
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
        "max_position_embeddings must be a whole number from 0 to 20,000,000, not 1e+30",
    ),
    "frames": ({"max_source_positions": 10**8}, "max_source_positions must be a whole number from 1 to"),
    "filter": ({"median_filter_width": 4}, "median_filter_width must be an odd number from 1 to 999, not 4"),
    "dropout": ({"text_config": {"attn_pdrop": 1e12}}, "text_config.attn_pdrop must be a number from 0 to 1"),
    "start": ({"decoder_start_token_id": 2**70}, "decoder_start_token_id must be a whole number from"),
    "ends": ({"eos_token_id": [2, "x"]}, "eos_token_id must be a whole number from -1000 to 10,000,000"),
    "positions one by one": (
        {"model_type": "marian", "architectures": ["MarianMTModel"], "max_position_embeddings": 10**7},
        "max_position_embeddings is 10,000,000, of 1,024 numbers each, and 8,388,608 numbers is the limit",
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


def test_no_default_configuration_is_absurd() -> None:
    known = {
        "bert",
        "gpt2",
        "llama",
        "marian",
        "t5",
        "whisper",
        "xlm",
        "gemma3",
        "esm",
        "xlnet",
        "led",
        "mamba2",
    }
    for kind in known:
        values = json.loads(CONFIG_MAPPING[kind]().to_json_string(use_diff=False))
        _check_plausible_values(values, kind)


def test_every_model_whose_positions_are_filled_one_by_one_is_limited() -> None:
    """transformers has the same function wherever it does so; models of time series read no text."""
    folder = Path(transformers.__file__).parent / "models"
    filled = {
        path.parent.name
        for path in folder.glob("*/modeling_*.py")
        if "for pos in range(n_pos)" in path.read_text(encoding="utf-8")
    }
    assert filled - {"autoformer", "informer", "time_series_transformer"} == SINUSOIDAL


GIZA = "# Sentence pair (1) source length 1\nb\nNULL ({{ }}) {}\n"
HEADS = {
    "row": "input", "from_word": "mean", "rule": "target", "layers": 100, "heads_per_layer": 1000,
    "model": "m", "checksum": None, "chosen_by": "gold links", "sentences": 1,
}  # fmt: skip


def write_heads_file(path: Path, count: int) -> None:
    heads = [divmod(number, 1000) for number in range(count)]
    path.write_text(json.dumps({**HEADS, "heads": heads}, indent=0))


# Of each kind of file that is read as a whole: what writes one of so many parts, and what reads it.
GROWING: dict[str, tuple[Callable[[Path, int], object], Callable[[Path], object]]] = {
    "a.A3": (
        lambda path, n: path.write_text(GIZA.format("a ({ }) " * n)),
        lambda path: list(read_links(path)),
    ),
    "heads.json": (write_heads_file, read_heads),
    "twice.json": (
        lambda path, n: path.write_text(json.dumps(dict.fromkeys(range(n), 1))[:-1] + ', "1": 1}'),
        lambda path: read_json(path, dict),
    ),
    "wide.csv": (
        lambda path, n: path.write_text(",".join(map(str, range(n))) + "\n"),
        lambda path: read_any_table(path, advice="make it again"),
    ),
}


@contextmanager
def no_collection() -> Iterator[None]:
    """What the rest of the process holds is looked through by the collector, and costs more."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.slow
@pytest.mark.parametrize("name", GROWING)
def test_reading_takes_time_in_proportion_to_the_file(name: str, tmp_path: Path) -> None:
    write, read = GROWING[name]
    taken = {}
    for count in (2_000, 2_000, 20_000):
        write(tmp_path / name, count)
        with suppress(InputError), no_collection():
            start = time.process_time()
            try:
                read(tmp_path / name)
            finally:
                taken[count] = time.process_time() - start
    assert taken[20_000] < 40 * max(taken[2_000], 0.002)


BLANK_READERS: dict[str, Callable[[Path], object]] = {
    "a.txt": read_texts,
    "a.txt.gz": texts.read_lines,
    "a.json": lambda path: read_json(path, dict),
    "a.tsv": lambda path: list(read_rows(path, "tsv", ("en", "it"))),
    "a.conllu": load_treebank,
    "pairs.tsv": lambda path: list(read_pairs(path)),
    "a.pharaoh": lambda path: list(read_links(path, [(("a",), ("b",))])),
    "a.naacl": lambda path: list(read_links(path, [(("a",), ("b",))])),
    "links.tsv": lambda path: list(read_links(path)),
    "a.A3": lambda path: list(read_links(path)),
    "a.vec": load_embeddings,
}


@pytest.mark.parametrize("name", BLANK_READERS)
@pytest.mark.parametrize("blank", ["", " \t"])
def test_many_blank_lines_are_refused_where_the_limit_is_reached(
    name: str, blank: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATTNLAB_BLANK_LINES", "30")
    content = f"{blank}\n" * 10_000
    open_ = gzip.open if name.endswith(".gz") else open
    with open_(tmp_path / name, "wt", encoding="utf-8") as file:
        file.write(content)
    expected = "has more than 30 blank lines in a row, to line 31; remove them, or raise ATTNLAB_BLANK_LINES"
    with pytest.raises(InputError, match=expected):
        BLANK_READERS[name](tmp_path / name)
    lines = [*[blank] * 30, "a", *[blank] * 30, "b"]
    assert list(texts.lines_in(io.BytesIO("\n".join(lines).encode()).read, "x")) == lines


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
