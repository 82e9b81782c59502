"""Which token belongs to which word, in four families of tokenizers and for tokenizers without offsets."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.words import units_by_letters

from attnlab.labels.gold import align_corpus, align_sentence
from attnlab.labels.treebank import GoldSentence, load_treebank
from attnlab.labels.word_tokens import (
    Alignment,
    Span,
    UnalignedError,
    align_offsets,
    align_separate,
    locate_tokens,
)
from attnlab.reading.text_tokens import tokens_of


def sentence_of(*words: str, tight: tuple[int, ...] = ()) -> GoldSentence:
    """A sentence without a tree; the words numbered in `tight` have no space behind them."""
    text, spans = "", []
    for number, word in enumerate(words):
        spans.append(Span(len(text), len(text) + len(word)))
        text += word + ("" if number in tight or number == len(words) - 1 else " ")
    return GoldSentence("test", text, tuple(spans), ("X",) * len(words), ())


DOGS = sentence_of("The", "dogs", "barked", ".", tight=(2,))


def aligned(tokenizer, sentence, *, target: bool = False):
    (tokens,) = tokens_of(tokenizer, [sentence.text], target=target)
    return align_sentence(tokenizer, sentence, tokens)


def aligned_corpus(tokenizer, sentences):
    return align_corpus(tokenizer, sentences, tokens_of(tokenizer, [s.text for s in sentences]))


def units(tokenizer, sentence):
    return aligned(tokenizer, sentence).unit_of_token


def test_word_piece(tokenizer_of) -> None:
    # [CLS] the dog ##s bark ##ed . [SEP]
    assert units(tokenizer_of("word_piece"), DOGS) == (None, 0, 1, 1, 2, 2, 3, None)


def test_word_piece_splits_at_an_apostrophe_inside_a_written_word(tokenizer_of) -> None:
    # UD writes "don't" as one multi-word token; [CLS] don ' t bark [SEP]
    sentence = sentence_of("Don't", "bark")
    assert units(tokenizer_of("word_piece"), sentence) == (None, 0, 0, 0, 1, None)


def test_unknown_word_is_one_token_of_its_word(tokenizer_of) -> None:
    assert units(tokenizer_of("word_piece"), sentence_of("The", "zebra", ".", tight=(1,))) == (
        None,
        0,
        1,
        2,
        None,
    )


@pytest.mark.parametrize("trim", [False, True])
@pytest.mark.parametrize("prefix_space", [False, True])
def test_byte_level(tokenizer_of, prefix_space: bool, trim: bool) -> None:
    tokenizer = tokenizer_of("byte_level", prefix_space=prefix_space, trim=trim)
    sentence = sentence_of("é", "dog")
    # [CLS] (Ġ) Ã © Ġdog [SEP]: two bytes of one letter, the space is part of the piece behind it
    expected = (None, 0, 0, 0, 1, None) if prefix_space else (None, 0, 0, 1, None)
    assert units(tokenizer, sentence) == expected


def test_byte_level_words_that_share_a_token_are_one_unit(tokenizer_of) -> None:
    sentence = sentence_of("a", "do", ".", '"', "b", tight=(1, 2))
    found = aligned(tokenizer_of("byte_level"), sentence)
    # [CLS] a Ġdo ." Ġ b [SEP]
    assert found == Alignment((None, 0, 1, 2, 3, 3, None), (0, 1, 2, 2, 3))
    assert found.units < len(found.unit_of_word)
    assert found.units == 4


def test_unigram_lone_word_mark_belongs_to_the_word_behind_it(tokenizer_of) -> None:
    tokenizer = tokenizer_of("unigram")
    sentence = sentence_of("The", "dogs", "barked", ".", tight=(2,))
    pieces = tokenizer.convert_ids_to_tokens(tokenizer(sentence.text).input_ids)
    assert pieces == ["[CLS]", "▁the", "▁", "dog", "s", "▁ba", "rk", "ed", ".", "[SEP]"]
    assert units(tokenizer, sentence) == (None, 0, 1, 1, 1, 2, 2, 2, 3, None)


def test_unigram_lone_word_mark_at_the_start(tokenizer_of) -> None:
    tokenizer = tokenizer_of("unigram")
    pieces = tokenizer.convert_ids_to_tokens(tokenizer("dogs .").input_ids)
    assert pieces == ["[CLS]", "▁", "dog", "s", "▁", ".", "[SEP]"]
    assert units(tokenizer, sentence_of("dogs", ".")) == (None, 0, 0, 0, 1, 1, None)


def test_unigram_normalised_text(tokenizer_of) -> None:
    # One character, NFKC makes three: all three pieces stand at the same position.
    tokenizer = tokenizer_of("unigram")
    pieces = tokenizer.convert_ids_to_tokens(tokenizer("dogs…").input_ids)
    assert pieces == ["[CLS]", "▁", "dog", "s", ".", ".", ".", "[SEP]"]
    sentence = sentence_of("dogs", "…", tight=(0,))
    assert units(tokenizer, sentence) == (None, 0, 0, 0, 1, 1, 1, None)


def test_word_level(tokenizer_of) -> None:
    assert units(tokenizer_of("word_level"), DOGS) == (None, 0, 1, 2, 3, None)


def test_sentence_that_cannot_be_aligned_is_reported(tokenizer_of) -> None:
    tokenizer = tokenizer_of("word_piece")
    found = aligned_corpus(
        tokenizer, [sentence_of("The", "\x01", "dog"), sentence_of("The", "dog")]
    )
    assert found.alignments[0] is None
    assert found.alignments[1] is not None
    assert found.coverage == 0.5
    assert found.reasons == {"test": "the word '\x01' has no token"}


def test_word_without_a_token_is_reported(tokenizer_of) -> None:
    # BERT's normaliser drops control characters.
    tokenizer = tokenizer_of("word_piece")
    with pytest.raises(UnalignedError, match="'\\x01' has no token"):
        aligned(tokenizer, sentence_of("The", "\x01", "dog"))


def test_token_over_a_space_is_refused() -> None:
    words = [Span(0, 2), Span(3, 6)]
    with pytest.raises(UnalignedError, match="reaches over the space"):
        align_offsets("of the", words, [Span(0, 6)], [False])


def test_token_outside_all_words_is_refused() -> None:
    with pytest.raises(UnalignedError, match="'!' belongs to no word"):
        align_offsets("ha !", [Span(0, 2)], [Span(0, 2), Span(3, 4)], [False, False])


def test_space_behind_the_last_word_is_no_word() -> None:
    found = align_offsets("ha ", [Span(0, 2)], [Span(0, 2), Span(2, 3)], [False, False])
    assert found.unit_of_token == (0, None)


def test_three_words_in_a_chain_are_one_unit() -> None:
    words = [Span(0, 1), Span(1, 2), Span(2, 3), Span(4, 5)]
    tokens = [Span(0, 2), Span(1, 3), Span(4, 5)]
    found = align_offsets("abc d", words, tokens, [False] * 3)
    assert found == Alignment((0, 0, 1), (0, 0, 0, 1))


@pytest.mark.parametrize(
    ("text", "tokens", "expected"),
    [
        ("The dogs", ["the", "dog", "##s"], ["The", "dog", "s"]),
        ("Un gatto", ["▁Un", "▁gat", "to"], ["Un", "gat", "to"]),
        ("new york", ["new", "yo@@", "rk"], ["new", "yo", "rk"]),
        ("il cane", ["▁", "il", "▁", "cane"], ["", "il", "", "cane"]),
        ("ﬁne …", ["▁fi", "ne", "▁..", "."], ["ﬁ", "ne", "…", "…"]),
        ("banana a", ["<unk>", "▁a"], ["banana", "a"]),
        ("a banana", ["a", "<unk>"], ["a", "banana"]),
        ("x y z", ["<unk>", "<unk>", "z"], ["x y", "x y", "z"]),
    ],
)
def test_tokens_are_found_by_their_letters(text, tokens, expected) -> None:
    spans = locate_tokens(text, tokens, [False] * len(tokens), "<unk>")
    assert [text[span.start : span.end].strip() for span in spans] == expected


@pytest.mark.parametrize("tokens", [["the", "cat"], ["the"], ["the", "dogs", "dogs"]])
def test_tokens_that_do_not_spell_the_text_are_refused(tokens: list[str]) -> None:
    with pytest.raises(UnalignedError, match="do not spell 'the dogs'"):
        locate_tokens("the dogs", tokens, [False] * len(tokens), None)


class WithoutOffsets:
    """A tokenizer as the slow ones of transformers are: it gives ids and no positions."""

    is_fast = False
    unk_token = "[UNK]"

    def __init__(self, fast) -> None:
        self.fast = fast

    def __call__(self, text, *, return_offsets_mapping, **options):
        assert not return_offsets_mapping
        return self.fast(text, **options)

    def convert_ids_to_tokens(self, ids):
        return self.fast.convert_ids_to_tokens(ids)


@pytest.mark.parametrize("family", ["word_piece", "unigram", "word_level"])
def test_letters_and_offsets_agree(tokenizer_of, family: str) -> None:
    tokenizer = tokenizer_of(family)
    for sentence in (DOGS, sentence_of("The", "dogs", "…", tight=(1,)), sentence_of("dogs", ".")):
        if family == "word_level" and "…" in sentence.text:
            continue
        expected = aligned(tokenizer, sentence)
        assert aligned(WithoutOffsets(tokenizer), sentence) == expected


class MarksTargets:
    """A tokenizer that writes a mark before translations, as multilingual ones do."""

    is_fast = True

    def __init__(self, fast) -> None:
        self.fast = fast

    def __call__(self, text=None, *, text_target=None, **options):
        encoded = self.fast(text_target if text is None else text, **options)
        if text is None:
            for special, offsets in zip(
                encoded["special_tokens_mask"], encoded["offset_mapping"], strict=True
            ):
                special.insert(0, 1)
                offsets.insert(0, (0, 0))
        return encoded


def test_translations_are_read_as_translations(tokenizer_of) -> None:
    plain = aligned(tokenizer_of("word_level"), DOGS)
    found = aligned(MarksTargets(tokenizer_of("word_level")), DOGS, target=True)
    assert found.unit_of_token == (None, *plain.unit_of_token)


@given(st.data())
def test_cutting_words_into_pieces_is_undone(data: st.DataObject) -> None:
    words = data.draw(st.lists(st.text("abé.'", min_size=1, max_size=5), min_size=1, max_size=7))
    sentence = sentence_of(*words, tight=tuple(data.draw(st.sets(st.integers(0, 6)))))
    tokens, expected = [], []
    for number, span in enumerate(sentence.spans):
        cuts = data.draw(st.sets(st.integers(span.start + 1, span.end)))
        edges = [span.start, *sorted(cuts - {span.end}), span.end]
        tokens += [Span(*pair) for pair in pairwise(edges)]
        expected += [number] * (len(edges) - 1)
    found = align_offsets(sentence.text, sentence.spans, tokens, [False] * len(tokens))
    assert found == Alignment(tuple(expected), tuple(range(len(words))))


@st.composite
def words_and_tokens(
    draw: st.DrawFn,
) -> tuple[str, list[Span], list[tuple[int, int]], list[bool]]:
    """Words that need not cover the text, tokens in order that need not respect them."""
    text = draw(st.text("ab .", min_size=1, max_size=12))

    def stretches(least: int) -> list[tuple[int, int]]:
        edges = sorted(draw(st.lists(st.integers(0, len(text)), max_size=10)))
        return [(one, other) for one, other in pairwise(edges) if other - one >= least]

    words = [Span(*one) for one in stretches(1) if not any(map(str.isspace, text[slice(*one)]))]
    tokens = stretches(0)
    special = draw(st.lists(st.booleans(), min_size=len(tokens), max_size=len(tokens)))
    return text, words, tokens, special


@given(words_and_tokens())
def test_units_are_those_found_letter_by_letter(given: Any) -> None:
    expected = units_by_letters(*given)
    try:
        found = align_offsets(*given)
    except UnalignedError:
        assert expected is None
        return
    assert expected is not None
    assert (found.unit_of_token, found.unit_of_word) == tuple(map(tuple, expected))


@given(st.lists(words_and_tokens(), max_size=4))
def test_sentences_together_are_aligned_as_each_alone(given: list[Any]) -> None:
    """Where every token is of one word; the others are left to be aligned alone."""
    together = align_separate(*map(list, zip(*given, strict=True))) if given else []
    for found, one in zip(together, given, strict=True):
        try:
            alone = align_offsets(*one)
        except UnalignedError:
            assert found is None
            continue
        separate = alone.unit_of_word == tuple(range(len(one[1])))
        assert found == (alone if separate else None)


@pytest.mark.slow
@pytest.mark.parametrize("language", ["en", "it", "de", "fr", "es"])
def test_parallel_treebanks_are_covered(shared_data, trained_byte_level, language: str) -> None:
    sentences = load_treebank(shared_data / "pud" / f"{language}.conllu.gz")
    tokenizer = trained_byte_level([sentence.text for sentence in sentences], 4000)
    found = aligned_corpus(tokenizer, sentences)
    assert len(found.alignments) == 1000
    assert found.coverage >= 0.995, found.reasons
    for sentence, alignment in zip(sentences, found.alignments, strict=True):
        if alignment is None:
            continue
        ids = tokenizer(sentence.text).input_ids
        assert alignment.unit_of_token[0] is alignment.unit_of_token[-1] is None
        for unit in range(alignment.units):
            mine = [ids[t] for t, owner in enumerate(alignment.unit_of_token) if owner == unit]
            words = [sentence.words[w] for w, u in enumerate(alignment.unit_of_word) if u == unit]
            assert tokenizer.decode(mine).strip() == "".join(words)
