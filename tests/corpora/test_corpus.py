"""Corpora as a whole: splits, documents, limits, checksums, saved datasets, the hub, the grammar."""

import json
import socket
import urllib.error
import urllib.request
from contextlib import nullcontext
from dataclasses import dataclass
from email.message import Message
from itertools import chain, combinations
from pathlib import Path
from types import SimpleNamespace

import datasets
import pytest
from huggingface_hub import constants
from hypothesis import given
from hypothesis import strategies as st

from attnlab.core.errors import AttnlabError, InputError
from attnlab.core.hub import hub_answers
from attnlab.corpora import libraries as corpus_datasets
from attnlab.corpora.corpus import ParallelCorpus, load_corpus
from attnlab.corpora.rows import Storage, complete_splits, dataset_of, join_documents, pairs_of

Parts = dict[str, list[tuple[str, str]]]
PARTS = ("train", "validation", "test")


def rows_of(part: datasets.Dataset) -> list[tuple[str, str]]:
    return list(zip(part["source"], part["target"], strict=True))


@pytest.fixture
def table(tmp_path: Path) -> str:
    """A .tsv of 211 rows in which every third source has two translations."""
    path = tmp_path / "all.tsv"
    rows = [(f"S{n - (n % 3 == 1)}", f"T{n}") for n in range(211)]
    path.write_text("".join(f"{source}\t{target}\n" for source, target in rows))
    return str(path)


def sides(corpus: ParallelCorpus, side: str) -> list[set[str]]:
    return [set(getattr(corpus, part)[side]) for part in PARTS]


def assert_disjoint(sentences: list[set[str]]) -> None:
    for one, other in combinations(sentences, 2):
        assert not one & other


def completed(splits: Parts, in_memory: int = 10) -> Parts:
    """All three splits, of which those of more than `in_memory` rows are on the disk."""
    storage = Storage(in_memory)
    given = {name: dataset_of(rows, storage) for name, rows in splits.items()}
    made = complete_splits(given, where="x", storage=storage)
    return {name: list(pairs_of(rows)) for name, rows in made.items()}


small_rows = st.lists(st.tuples(st.text("abcd", min_size=1, max_size=3), st.text("xy")), min_size=1)


@pytest.mark.slow
@given(small_rows)
def test_made_splits_keep_every_row_and_part_no_source(rows: list[tuple[str, str]]) -> None:
    if len({source for source, _ in rows}) < 3:
        with pytest.raises(InputError, match="too few"):
            completed({"train": rows})
        return
    splits = completed({"train": rows})
    assert sorted(chain(*splits.values())) == sorted(rows)
    sources = [{source for source, _ in splits[part]} for part in PARTS]
    assert all(sources)
    assert_disjoint(sources)
    backwards = completed({"train": rows[::-1]})
    assert {part: sorted(of) for part, of in splits.items()} == {
        part: sorted(of) for part, of in backwards.items()
    }


def test_only_missing_parts_are_made() -> None:
    rows = [(f"s{n}", "t") for n in range(101)]
    splits = completed({"train": rows, "validation": [("v", "w")]})
    assert splits["validation"] == [("v", "w")]
    assert len(splits["test"]) == 5
    given_all = {"train": rows, "validation": [("v", "w")], "test": [("a", "b")]}
    assert completed(given_all) == given_all


@given(small_rows, st.integers(1, 7))
def test_documents_hold_every_word_once_in_order(rows: list[tuple[str, str]], size: int) -> None:
    documents = list(join_documents(rows, size))
    assert len(documents) == -(-len(rows) // size)
    assert " ".join(source for source, _ in documents) == " ".join(source for source, _ in rows)
    assert " ".join(target for _, target in documents) == " ".join(target for _, target in rows)


def test_documents_hold_neighbours_in_every_part(tmp_path: Path) -> None:
    table = tmp_path / "all.tsv"
    table.write_text("".join(f"S{n} x\tT{n} y\n" for n in range(203)), encoding="utf-8")
    corpus = load_corpus(str(table), document=5, limit=3, lowercase=True)
    assert len(corpus.train) == 3
    for part in PARTS:
        for source, target in rows_of(getattr(corpus, part)):
            first = int(source.split()[0].removeprefix("s"))
            numbers = range(first, min(first + 5, 203))
            assert source == " ".join(f"s{n} x" for n in numbers)
            assert target == " ".join(f"t{n} y" for n in numbers)
            assert first % 5 == 0


def test_rows_beyond_the_limit_are_not_read_where_no_part_is_held_out(tmp_path: Path) -> None:
    for split in PARTS:
        text = "".join(f"{split} {n}\tt{n}\n" for n in range(9))
        (tmp_path / f"en-it.{split}.tsv").write_text(
            text + "no pair\n" * (split == "train"), "utf-8"
        )
    corpus = load_corpus(str(tmp_path), limit=3)
    assert rows_of(corpus.train) == [(f"train {n}", f"t{n}") for n in range(3)]
    assert (len(corpus.validation), len(corpus.test)) == (9, 9)
    with pytest.raises(InputError, match="line 10"):
        load_corpus(str(tmp_path))


def test_sentences_that_differ_in_case_only_do_not_straddle(tmp_path: Path) -> None:
    table = tmp_path / "all.tsv"
    rows = [f"{word}{n}\tt{n}" for n in range(90) for word in ("Word", "word")]
    table.write_text("\n".join(rows) + "\n", encoding="utf-8")
    corpus = load_corpus(str(table), lowercase=True)
    assert_disjoint([{source for source, _ in rows_of(getattr(corpus, part))} for part in PARTS])


def test_the_same_call_gives_the_same_corpus(table: str, untouched_randomness: None) -> None:
    first, second = load_corpus(table), load_corpus(table)
    assert first.checksum == second.checksum
    assert [rows_of(getattr(first, part)) for part in PARTS] == [
        rows_of(getattr(second, part)) for part in PARTS
    ]
    others = [load_corpus(table, limit=50), load_corpus(table, document=2)]
    assert len({first.checksum, *(other.checksum for other in others)}) == 3


def test_the_checksum_sees_where_a_row_stands(tmp_path: Path) -> None:
    checksums = set()
    for number, text in enumerate(("a b\tc\nd\te\n", "a\tb c\nd\te\n", "d\te\na b\tc\n")):
        folder = tmp_path / str(number)
        folder.mkdir()
        for split in ("train", "val", "test"):
            (folder / f"{split}.tsv").write_text(text)
        checksums.add(load_corpus(str(folder)).checksum)
    assert len(checksums) == 3


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"document": 0}, "^document is 0"),
        ({"document": -2}, "^document is -2"),
        ({"limit": 0}, "^limit is 0, which leaves nothing"),
        ({"size": 10}, "^size is for the embedded corpus"),
        ({"pair": "enit"}, '"enit" is no pair of languages'),
        ({"pair": "en-en"}, "no pair of languages"),
        ({"pair": ""}, "no pair of languages"),
    ],
)
def test_bad_options(table: str, options: dict[str, object], match: str) -> None:
    with pytest.raises(InputError, match=match):
        load_corpus(table, **options)


@pytest.mark.parametrize("columns", ["translation", "languages", "sides"])
@pytest.mark.parametrize("split", [True, False])
def test_saved_datasets(tmp_path: Path, columns: str, split: bool) -> None:
    pairs = [(f"s{n}", f"t{n}") for n in range(23)]
    data = {
        "translation": {"translation": [{"en": a, "it": b} for a, b in pairs]},
        "languages": {"en": [a for a, _ in pairs], "it": [b for _, b in pairs]},
        "sides": {"source": [a for a, _ in pairs], "target": [b for _, b in pairs]},
    }[columns]
    saved = datasets.Dataset.from_dict(data)
    if split:
        saved = datasets.DatasetDict(train=saved, dev=saved.select([3]), test=saved.select([5]))
    saved.save_to_disk(tmp_path / "saved")
    corpus = load_corpus(str(tmp_path / "saved"))
    if split:
        assert rows_of(corpus.train) == pairs
        assert rows_of(corpus.validation) == [pairs[3]]
    else:
        assert set(rows_of(corpus.train)) | set(rows_of(corpus.test)) < set(pairs)
    if columns != "sides":
        assert rows_of(load_corpus(str(tmp_path / "saved"), pair="it-en").test)[0][0][0] == "t"
        with pytest.raises(InputError, match="no pair en-fr; its languages are en, it"):
            load_corpus(str(tmp_path / "saved"), pair="en-fr")


def test_damaged_saved_datasets(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text("{")
    with pytest.raises(InputError, match="cannot be read as a folder saved by datasets"):
        load_corpus(str(tmp_path))
    datasets.DatasetDict(other=datasets.Dataset.from_dict({"en": ["a"], "it": ["b"]})).save_to_disk(
        tmp_path / "saved"
    )
    with pytest.raises(InputError, match="no training rows; its parts are other"):
        load_corpus(str(tmp_path / "saved"))


def test_without_a_network_the_error_is_quick_and_names_the_offline_choices(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def unknown_host(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown_host)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)
    monkeypatch.setattr(datasets, "load_dataset", lambda *_: pytest.fail("must not be tried"))
    for name in ("opus_books", "nosuch"):
        with pytest.raises(
            InputError, match=r'cannot be reached; .*"embedded" or the path'
        ) as found:
            load_corpus(name)
        assert found.value.exit_status == 2
    for name, near in {"embeded": "embedded", "opus_book": "opus_books"}.items():
        with pytest.raises(InputError, match=rf'cannot be reached; did you mean "{near}"\?$'):
            load_corpus(name)


def test_an_earlier_download_is_read_without_a_network(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = [{"translation": {"en": f"s{n}", "it": f"t{n}"}} for n in range(43)]
    source = tmp_path / "rows.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    cache = tmp_path / "cache"
    datasets.load_dataset("json", "en-it", data_files=str(source), cache_dir=str(cache))
    [made] = (path.parent for path in cache.glob("json/*/*/*/dataset_info.json"))
    kept = cache / "Helsinki-NLP___opus_books" / "en-it" / "0.0.0" / "0123abcd"
    kept.parent.mkdir(parents=True)
    made.rename(kept)
    (kept / "json-train.arrow").rename(kept / "opus_books-train.arrow")
    about = json.loads((kept / "dataset_info.json").read_text())
    about |= {"dataset_name": "opus_books", "config_name": "en-it"}
    (kept / "dataset_info.json").write_text(json.dumps(about))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", cache)
    monkeypatch.setattr(corpus_datasets, "hub_answers", lambda: False)
    corpus = load_corpus("opus_books", pair="it-en")
    found = [row for part in PARTS for row in rows_of(getattr(corpus, part))]
    assert sorted(found) == sorted((f"t{n}", f"s{n}") for n in range(43))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (None, True),
        (urllib.error.HTTPError("", 503, "busy", Message(), None), True),
        (urllib.error.URLError("no route"), False),
        (TimeoutError(), False),
    ],
)
def test_whether_the_hub_answers(
    monkeypatch: pytest.MonkeyPatch, answer: Exception | None, expected: bool
) -> None:
    def urlopen(*_: object, timeout: float) -> nullcontext[None]:
        assert 0 < timeout <= 10
        if answer:
            raise answer
        return nullcontext()

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    assert hub_answers() == expected
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert not hub_answers()


@pytest.mark.parametrize("name", ["two words", "wmt16?", ""])
def test_impossible_names(name: str) -> None:
    with pytest.raises(InputError):
        load_corpus(name)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A hub with one corpus, `Helsinki-NLP/opus_books`, of which one row has an empty side."""
    asked = SimpleNamespace(loaded=[], configurations=["de-it", "en-it", "en-sv"])
    translations = [{"en": f"s{n}", "it": f"t{n}" if n != 7 else " "} for n in range(41)]

    def names(name: str) -> list[str]:
        if name != "Helsinki-NLP/opus_books":
            msg = f"Dataset '{name}' doesn't exist"
            raise datasets.exceptions.DatasetNotFoundError(msg)
        return asked.configurations

    def load(name: str, configuration: str) -> datasets.DatasetDict:
        asked.loaded.append((name, configuration))
        rows = {"id": list(range(41)), "translation": translations}
        return datasets.DatasetDict(train=datasets.Dataset.from_dict(rows))

    monkeypatch.setattr(datasets, "get_dataset_config_names", names)
    monkeypatch.setattr(datasets, "load_dataset", load)
    monkeypatch.setattr(corpus_datasets, "hub_answers", lambda: True)
    return asked


@pytest.mark.parametrize("pair", ["en-it", "it-en"])
def test_hub_corpus(hub: SimpleNamespace, pair: str) -> None:
    corpus = load_corpus("opus_books", pair=pair)
    assert hub.loaded == [("Helsinki-NLP/opus_books", "en-it")]
    rows = [row for part in PARTS for row in rows_of(getattr(corpus, part))]
    expected = [(f"s{n}", f"t{n}") for n in range(41) if n != 7]
    turned = [(b, a) for a, b in expected]
    assert sorted(rows) == sorted(expected if pair == "en-it" else turned)


def test_hub_refusals(hub: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="no pair en-ja; it has de-it, en-it, en-sv"):
        load_corpus("opus_books", pair="en-ja")
    with pytest.raises(InputError, match='There is no corpus "nosuch"'):
        load_corpus("nosuch")
    hub.configurations = ["default"]
    with pytest.raises(InputError, match="no pair en-ja; its languages are en, it"):
        load_corpus("opus_books", pair="en-ja")

    def broken(*_: object) -> None:
        msg = "the connection broke\nsecond line"
        raise ConnectionError(msg)

    monkeypatch.setattr(datasets, "load_dataset", broken)
    with pytest.raises(
        AttnlabError, match=r"could not be loaded \(the connection broke\); without"
    ):
        load_corpus("opus_books")


@dataclass(frozen=True)
class Drawn:
    source: str
    target: str


@pytest.fixture
def grammar(monkeypatch: pytest.MonkeyPatch) -> None:
    """A grammar whose targets repeat, as Italian sentences without their subject do."""

    def draw(count: int, *, seed: int, languages: tuple[str, str], **_: object) -> list[Drawn]:
        texts = [{"en": f"s{seed} {n}", "it": f"t{n // 2}"} for n in range(count)]
        return [Drawn(*(text[language] for language in languages)) for text in texts]

    monkeypatch.setattr("attnlab.grammar.draw_pairs", draw)


def test_no_sentence_of_the_embedded_corpus_is_in_two_parts(grammar: None) -> None:
    corpus = load_corpus(size=307, seed=5)
    assert sum(len(getattr(corpus, part)) for part in PARTS) == 307
    for side in ("source", "target"):
        assert_disjoint(sides(corpus, side))
    turned = load_corpus(size=307, seed=5, pair="it-en")
    assert rows_of(turned.test) == [(b, a) for a, b in rows_of(corpus.test)]
    assert corpus.checksum != load_corpus(size=307, seed=6).checksum
    with pytest.raises(InputError, match="no pair en-de; it has en-it and it-en"):
        load_corpus(pair="en-de")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "pair", "sizes"),
    [
        ("multi30k", "en-de", (29000, 1014, 1000)),
        ("tatoeba", "it-en", (15795, 1000, 1000)),
        ("tatoeba/en-it", "en-it", (15795, 1000, 1000)),
        ("bible", "fr-it", (25639, 1000, 1000)),
        ("europarl", "en-sv", (53935, 1000, 1000)),
    ],
)
def test_real_corpora(shared_data: Path, name: str, pair: str, sizes: tuple[int, int, int]) -> None:
    corpus = load_corpus(str(shared_data / name), pair=pair)
    assert tuple(len(getattr(corpus, part)) for part in PARTS) == sizes
    source = pair[:2]
    article = {"en": "the", "it": "il", "fr": "le"}[source]
    words = " ".join(corpus.train["source"][:500]).lower().split()
    assert article in words, "the sides are exchanged"


def test_a_real_table_without_splits(shared_data: Path) -> None:
    corpus = load_corpus(str(shared_data / "tatoeba" / "en-it.pivot.tsv.gz"))
    assert sum(len(getattr(corpus, part)) for part in PARTS) == 5865
    assert_disjoint(sides(corpus, "source"))


def test_a_hub_corpus_whose_columns_are_no_text_is_refused() -> None:
    part = datasets.Dataset.from_dict({"en": [1, 2], "it": ["uno", "due"]})
    splits = corpus_datasets.read_parts(part, ("en", "it"), "x", empty_sides=True)
    with pytest.raises(InputError, match="row 0, has an empty source side"):
        list(splits["train"])
