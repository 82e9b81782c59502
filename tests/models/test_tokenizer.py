"""Tokenizers: text comes back, special tokens, frequencies, saving, what is refused."""

import json
import unicodedata
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Regex, normalizers
from transformers import AutoTokenizer

from attnlab.core.errors import AttnlabError, InputError, panics
from attnlab.corpora.corpus import ParallelCorpus, build_corpus
from attnlab.models import tokenizer as tokenizer_module
from attnlab.models.tokenizer import (
    MOST_GROWTH,
    Tokenizers,
    check_growth,
    load_tokenizers,
    read_tokenizer,
    train_tokenizers,
)
from attnlab.models.translating import unknown_texts

ENGLISH = ["the old cat sleeps", "the dog didn't see the cat!", "a dog (old) sleeps, 3 times."]
ITALIAN = ["il vecchio gatto dorme", "l'università è città, perché no?", "il cane «dorme» 3 volte."]
LETTERS = "".join(sorted(set("".join(ENGLISH + ITALIAN))))
KINDS = ("bpe", "word")


def small_corpus() -> ParallelCorpus:
    rows = list(zip(ENGLISH, ITALIAN, strict=True)) * 5
    held_out = [("unseen zebra", "zebra mai vista")]
    return build_corpus(
        "small", ("en", "it"), {"train": rows, "validation": held_out, "test": rows}
    )


def trained(**options: object) -> Tokenizers:
    return train_tokenizers(small_corpus(), **{"vocabulary": 150, **options})


SUBWORDS = trained()
WORDS = trained(kind="word")


@given(st.text(LETTERS + "\u0300\u0301", max_size=40))
def test_subwords_give_the_text_back(text: str) -> None:
    text = unicodedata.normalize("NFC", text)
    if set(text) <= set(LETTERS):
        ids = SUBWORDS.source(text)["input_ids"]
        assert SUBWORDS.source.decode(ids, skip_special_tokens=True) == text


@given(st.text(max_size=30))
@example("the </s> old <s> cat<pad>")
def test_every_text_begins_and_ends_alike(text: str) -> None:
    for tokenizers in (SUBWORDS, WORDS):
        ids = tokenizers.source(text)["input_ids"]
        assert ids[0] == 2
        assert ids[-1] == 3
        assert not {0, 2, 3} & set(ids[1:-1]), "a special token came out of text"


@given(st.text(LETTERS, max_size=40))
def test_offsets_name_the_text_of_each_token(text: str) -> None:
    text = unicodedata.normalize("NFC", text)
    for tokenizers, space in ((SUBWORDS, "▁"), (WORDS, None)):
        coded = tokenizers.source(text, return_offsets_mapping=True)
        tokens = tokenizers.source.convert_ids_to_tokens(coded["input_ids"])
        spans = coded["offset_mapping"]
        for token, (start, end) in list(zip(tokens, spans, strict=True))[1:-1]:
            if token not in {"<unk>", "▁"}:  # the mark alone shares the first letter's position
                piece = token.removeprefix(space) if space else token
                assert text[start:end].removeprefix(" ") == piece.replace("▁", " ")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shared", [True, False])
def test_special_tokens_have_the_same_ids_everywhere(kind: str, shared: bool) -> None:
    tokenizers = trained(kind=kind, shared=shared)
    assert (tokenizers.source is tokenizers.target) == shared
    for tokenizer in (tokenizers.source, tokenizers.target):
        assert tokenizer.convert_ids_to_tokens(range(4)) == ["<pad>", "<unk>", "<s>", "</s>"]
        names = ("pad", "unk", "bos", "eos")
        assert [getattr(tokenizer, f"{name}_token_id") for name in names] == [0, 1, 2, 3]
        assert len(tokenizer) <= 150
        padded = tokenizer(["a", "the old cat sleeps"], padding=True)
        assert padded["input_ids"][0][-1] == 0
        assert padded["attention_mask"][0][-1] == 0


def test_tokens_are_readable() -> None:
    ids = SUBWORDS.source("il vecchio gatto, perché no?")["input_ids"]
    tokens = SUBWORDS.source.convert_ids_to_tokens(ids)
    assert "".join(tokens[1:-1]).replace("▁", " ") == " il vecchio gatto, perché no?"
    ids = WORDS.source("the old cat, perché (3 times)?")["input_ids"]
    expected = ["<s>", "the", "old", "cat", ",", "perché", "(", "3", "times", ")", "?", "</s>"]
    assert WORDS.source.convert_ids_to_tokens(ids) == expected


@pytest.mark.parametrize("text", ENGLISH + ITALIAN)
def test_words_are_joined_as_they_usually_stand(text: str) -> None:
    ids = WORDS.source(text)["input_ids"]
    assert WORDS.source.decode(ids, skip_special_tokens=True) == text


def test_unknown_characters_and_words() -> None:
    assert 1 in SUBWORDS.source("il 猫 dorme")["input_ids"]
    assert WORDS.source("il zebra dorme")["input_ids"].count(1) == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shared", [True, False])
def test_counts_are_those_of_the_training_rows(kind: str, shared: bool) -> None:
    tokenizers = trained(kind=kind, shared=shared)
    corpus = small_corpus()
    for side in ("source", "target"):
        tokenizer, counts = getattr(tokenizers, side), getattr(tokenizers, f"{side}_counts")
        expected: Counter[str] = Counter()
        for text in corpus.train[side]:
            expected.update(tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"]))
        assert {token: count for token, count in counts.items() if count} == expected
        assert list(counts) == tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
        assert counts["<s>"] == counts["</s>"] == len(corpus.train)


def test_only_the_training_rows_are_seen() -> None:
    assert 1 in WORDS.source("unseen")["input_ids"]
    assert 1 in WORDS.target("mai")["input_ids"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shared", [True, False])
def test_saved_tokenizers_come_back(tmp_path: Path, kind: str, shared: bool) -> None:
    tokenizers = trained(kind=kind, shared=shared)
    trained(shared=not shared).save(tmp_path)
    tokenizers.save(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "attnlab-unknown"}')
    loaded = load_tokenizers(tmp_path)
    assert loaded.shared == shared
    assert loaded.source_counts == tokenizers.source_counts
    assert loaded.target_counts == tokenizers.target_counts
    text = "l'università è </s> città (old)"
    folders = {"source": "." if shared else "source_tokenizer"}
    folders["target"] = "." if shared else "target_tokenizer"
    for side, folder in folders.items():
        original = getattr(tokenizers, side)
        auto = AutoTokenizer.from_pretrained(tmp_path / folder)
        for again in (getattr(loaded, side), auto):
            assert again(text, return_offsets_mapping=True) == original(
                text, return_offsets_mapping=True
            )
            ids = original(text)["input_ids"]
            assert again.decode(ids, skip_special_tokens=True) == original.decode(
                ids, skip_special_tokens=True
            )
            assert again.all_special_ids == original.all_special_ids


def test_training_twice_gives_the_same(untouched_randomness: None) -> None:
    first, second = (trained(vocabulary=60) for _ in range(2))
    assert first.source.get_vocab() == second.source.get_vocab()
    assert first.source_counts == second.source_counts


def test_a_vocabulary_smaller_than_the_alphabet_is_kept_to() -> None:
    tokenizers = trained(vocabulary=17)
    assert len(tokenizers.source) == 17
    assert 1 in tokenizers.source(ITALIAN[1])["input_ids"]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"kind": "letters"}, '"letters" is no kind of tokenizer; choose bpe or word'),
        ({"vocabulary": 4}, "vocabulary of 4 has no room"),
        ({"vocabulary": -1}, "vocabulary of -1 has no room"),
    ],
)
def test_bad_settings(options: dict[str, object], match: str) -> None:
    with pytest.raises(InputError, match=match):
        trained(**options)


def test_damaged_folders(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no tokenizers"):
        load_tokenizers(tmp_path)
    SUBWORDS.save(tmp_path)
    counts = json.loads((tmp_path / "token_counts.json").read_text())
    for name, text in {
        "tokenizer.json": "{}",
        "token_counts.json": json.dumps({**counts, "source": None} | {"shared": False}),
    }.items():
        kept = (tmp_path / name).read_text()
        (tmp_path / name).write_text(text)
        with pytest.raises(InputError, match=rf"{name} is damaged \((model|source) "):
            load_tokenizers(tmp_path)
        (tmp_path / name).write_text(kept)
    assert load_tokenizers(tmp_path).source_counts == SUBWORDS.source_counts


def test_a_full_disk_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SUBWORDS.save(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    for owner, method in ((Path, "write_text"), (type(WORDS.source), "save_pretrained")):
        monkeypatch.setattr(owner, method, full)
        with pytest.raises(AttnlabError, match="No space left on device"):
            WORDS.save(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_unknown_texts_are_named_whole_and_visibly() -> None:
    texts = ["the cafe\u0301 sleeps", "\u200b the zebra", "cafe\u0301"]
    assert unknown_texts(WORDS, texts) == ["cafe\u0301", "\\u200b", "zebra"]
    assert unknown_texts(WORDS, []) == []


class PanicException(BaseException):
    """No `Exception`, so that what waits for one never sees it."""


@pytest.mark.parametrize(
    ("raised", "seen"),
    [
        (PanicException("index out of range"), ValueError),
        (KeyError("unk"), KeyError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
def test_a_panic_of_a_library_is_an_exception_and_all_else_is_as_it_was(
    raised: BaseException, seen: type[BaseException], tmp_path: Path
) -> None:
    class Kind:
        @classmethod
        def from_pretrained(cls, *_: object, **__: object) -> object:
            raise raised

    with pytest.raises(seen) as caught:
        read_tokenizer(Kind, tmp_path)
    assert (caught.value is raised) == (seen is not ValueError)


def replaced(old: str, new: str) -> normalizers.Normalizer:
    return normalizers.Replace(old, new)


def matched(pattern: str, new: str) -> normalizers.Normalizer:
    return normalizers.Replace(Regex(pattern), new)


def stages_of(*stages: normalizers.Normalizer) -> dict[str, Any]:
    return {"normalizer": json.loads(normalizers.Sequence(list(stages)).__getstate__())}


WRITTEN = st.text("ab \ufdfaA\u0130", max_size=4)
EXPRESSIONS = [
    "a", "a+", "$", "(?=b)", ".", "a*", " {2,}", "[ab]", r"\p{L}", r"\p{L}*", "b?", "a|", "(?:)", r"\b",
    "[[:alpha:]]*", "[^a]*", "^", "a{0,2}",
]  # fmt: skip
STAGES = st.one_of(
    st.builds(replaced, WRITTEN.filter(len), WRITTEN),
    st.builds(matched, st.sampled_from(EXPRESSIONS), WRITTEN),
    st.builds(normalizers.Prepend, WRITTEN.filter(len)),
    st.sampled_from([
        normalizers.NFKC(), normalizers.NFD(), normalizers.Lowercase(), normalizers.Strip(),
        normalizers.BertNormalizer(), normalizers.StripAccents(), normalizers.ByteLevel(),
    ]),
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(STAGES, max_size=4), st.text("ab \ufdfaA\u0130", max_size=8))
def test_no_text_grows_more_than_is_computed(stages: list[Any], text: str) -> None:
    found = stages_of(*stages)["normalizer"]
    most = tokenizer_module._growth("normalizer", json.dumps(found))
    try:
        written = normalizers.Sequence(stages).normalize_str(text)
    except panics():  # the library cannot follow some of these chains itself
        return
    # At the end of a text a stage may write once more.
    assert most > MOST_GROWTH or len(written) <= most * (len(text) + 1)


@pytest.mark.parametrize(
    "stages",
    [
        [replaced("a", "a" * 10)] * 3,
        [matched("a|b", "ab")] * 7,
        [normalizers.Prepend("ab"), *[replaced("a", "aaa")] * 4],
        [normalizers.NFKC(), *[normalizers.Lowercase(), replaced("a", "AA")] * 7],
        [replaced("ab", "ab" * 101)],
    ],
)
@pytest.mark.parametrize("part", ["normalizer", "decoder"])
def test_stages_that_multiply_texts_are_refused(
    stages: list[normalizers.Normalizer], part: str, tmp_path: Path
) -> None:
    """Of a file before the library has read it."""
    if part == "decoder" and not all(isinstance(one, normalizers.Replace) for one in stages):
        pytest.skip("decoders have no such stage")
    content = json.dumps({part: stages_of(*stages)["normalizer"]})
    (tmp_path / "tokenizer.json").write_text(content.replace("normalizers", f"{part}s"))
    with pytest.raises(
        InputError, match=f"its {part} can make [0-9,]+ letters of one, and 100 is the limit"
    ):
        read_tokenizer(AutoTokenizer, tmp_path)


def test_usual_normalizers_are_taken() -> None:
    """Of ALBERT, Llama, CLIP, BERT and attnlab, and chains of one letter for one."""
    usual = [
        [replaced("``", '"'), replaced("\'\'", '"'), normalizers.NFKD(), normalizers.StripAccents(),
         normalizers.Lowercase(), matched(" {2,}", " ")],
        [normalizers.Prepend("\u2581"), replaced(" ", "\u2581")],
        [normalizers.NFC(), matched(r"\s+", " "), normalizers.Lowercase()],
        [normalizers.BertNormalizer()],
        [normalizers.NFKC(), *[matched(each, " ") for each in (r"\s+", r"[\n\r]+", " {2,}", r"\p{Zs}")]],
        [matched(f"[{letters}]", "-") for letters in ("ab", "cd", "ef", "gh", "ij", "kl", "mn", "op")],
    ]  # fmt: skip
    for stages in usual:
        check_growth(stages_of(*stages))
