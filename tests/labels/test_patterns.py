"""Patterns as they are written, and as tensors, against loops over single texts."""

import random
from contextlib import suppress
from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles import patterns as loops
from oracles.patterns import Text

from attnlab.core.errors import InputError
from attnlab.labels.counting import TextSide
from attnlab.labels.label import TO_HEAD, count_links, possible_links, tree_kinds, tree_links
from attnlab.labels.pattern_keys import (
    CONTROL_OFFSETS,
    Need,
    PatternTexts,
    count_chance,
    count_offsets,
    count_rows,
    count_transformer_lens,
    pattern_hits,
    pattern_rows,
    unmet_need,
)
from attnlab.labels.patterns import PHRASES, Atom, Joined, Not, pattern_of
from attnlab.labels.treebank import Arc, GoldSentence
from attnlab.labels.word_tokens import Alignment, merge_tokens
from attnlab.reading.vocabulary import Axis
from attnlab.reading.weights import LayerWeights

TOKENS = ["[PAD]", "[CLS]", "[SEP]", "the", "cat", "##s", ",", ".", "sat"]
# Two are as rare as each other.
COUNTS = dict(zip(TOKENS, (0, 9, 9, 8, 3, 3, 7, 6, 2), strict=True))
TAGS, RELATIONS = ("ADJ", "NOUN", "DET"), ("nsubj", "nsubj:pass", "amod")


class Names:
    """A vocabulary that knows how tokens are called."""

    def tokens(self, ids):
        return [TOKENS[number] for number in ids]


@dataclass
class Made:
    """Texts with weights, as tensors and as loops take them."""

    texts: list[Text]
    known: PatternTexts
    layer: LayerWeights


def drawn_text(draw: random.Random, *, causal: bool) -> Text:
    pieces = [draw.choice(TOKENS[3:]) for _ in range(draw.randint(1, 8))]
    tokens = ["[CLS]", *pieces, "[SEP]"]
    special = [token in {"[CLS]", "[SEP]"} for token in tokens]
    word: list[int | None] = []
    for token, mark in zip(tokens, special, strict=True):
        known = [one for one in word if one is not None]
        joined = token.startswith("##") and bool(known)
        word.append(None if mark else (known[-1] + (not joined) if known else 0))
    count = max(one for one in word if one is not None) + 1
    arcs = [
        (
            one,
            draw.choice([other for other in range(count) if other != one]),
            draw.choice(RELATIONS),
        )
        for one in range(1, count)
    ]
    tags = [draw.choice(TAGS) for _ in range(count)]
    entities = [{one for one in range(count) if draw.random() < 0.4} for _ in range(3)]
    second = draw.choice([None, draw.randint(2, len(tokens))])
    return Text(tokens, special, word, tags, arcs, entities, second, COUNTS, causal)


def padded(rows, length, fill):
    return torch.tensor([[*row, *[fill] * (length - len(row))] for row in rows])


def made(seed: int, *, causal: bool = False, text: Text | None = None) -> Made:
    """Random texts; four times `text` if given."""
    draw = random.Random(seed)
    texts = [text or drawn_text(draw, causal=causal) for _ in range(4)]
    length = max(len(text.tokens) for text in texts)
    ids = padded([[TOKENS.index(token) for token in text.tokens] for text in texts], length, 0)
    special = padded([text.special for text in texts], length, fill=False)
    real, first = ids != 0, torch.arange(length) == 0
    punctuation = (ids == TOKENS.index(",")) | (ids == TOKENS.index("."))
    axis = Axis(ids, real, real & ~special, special, special & first, special & ~first, punctuation)
    scores = torch.randn(4, 3, length, length, generator=torch.Generator().manual_seed(seed))
    # Coarse, so that some are equal.
    scores = scores.round()
    shown = real[:, None, None] & (torch.ones(length, length).tril().bool() | (not causal))
    weights = scores.double().masked_fill(~shown, -torch.inf).softmax(-1) * real[:, None, :, None]
    layer = LayerWeights(
        "decoder" if causal else "encoder", 0, weights, axis, axis, causal, (0, 1, 2, 3),
        (Names(), Names()),
    )  # fmt: skip
    trees = [
        GoldSentence(
            "",
            "",
            (),
            tuple(text.tags),
            tuple(Arc(*arc) for arc in text.arcs),
            entities=tuple(map(tuple, text.entities)),
        )
        for text in texts
    ]
    words = [Alignment(tuple(text.word), tuple(range(len(text.tags)))) for text in texts]
    side = TextSide(torch.tensor([*COUNTS.values()]), trees, words)
    known = PatternTexts([""] * 4, replace(side, seconds=[text.second for text in texts]))
    return Made(texts, known, layer)


def always(value):
    return lambda *_: value


TOKEN_RULES = {
    "offset -1": loops.between(-1, -1),
    "offset -3..-1": loops.between(-3, -1),
    "offset +2": loops.between(2, 2),
    "first": lambda text, query, key: key == 0,
    "last": lambda text, query, key: key == len(text.tokens) - 1,
    "special": lambda text, query, key: text.special[key],
    "special [SEP]": lambda text, query, key: text.tokens[key] == "[SEP]",
    "special separator": lambda text, query, key: text.tokens[key] == "[SEP]",
    "punctuation": lambda text, query, key: text.tokens[key] in {",", "."},
    'token "the"': lambda text, query, key: text.tokens[key] == "the",
    'token "s"': lambda text, query, key: text.tokens[key] == "##s",
    "same token": loops.same_token,
    "after same token": loops.after_same_token,
    "rarest": loops.rarest(1),
    "rarest 2": loops.rarest(2),
    "same word": loops.same_word,
    "other segment": loops.other_segment,
}
WORD_RULES = {
    "word offset -1": loops.between(-1, -1),
    "word offset 1..2": loops.between(1, 2),
    "pos ADJ -> NOUN": loops.pos("ADJ", "NOUN"),
    "pos DET -> DET nearest": loops.nearest(loops.pos("DET", "DET")),
    "dep nsubj": loops.dependent("nsubj"),
    "dep nsubj reversed": loops.head("nsubj"),
    "dep amod": loops.dependent("amod"),
    "coref": loops.coreferent,
}
# Written, and as loops; the last of them mix words and tokens.
OPERATIONS = {
    "not offset -3..3": lambda *at: not loops.between(-3, 3)(*at),
    "offset -1 | same token & not punctuation": lambda text, query, key: (
        key - query == -1
        or (loops.same_token(text, query, key) and text.tokens[key] not in {",", "."})
    ),
    "(offset -1 | same token) & not punctuation": lambda text, query, key: (
        (key - query == -1 or loops.same_token(text, query, key))
        and text.tokens[key] not in {",", "."}
    ),
    "not special": lambda text, query, key: not text.special[key],
    "dep nsubj | offset -1": lambda *at: (
        loops.as_tokens(loops.dependent("nsubj"))(*at) or loops.between(-1, -1)(*at)
    ),
}
RULES = {**TOKEN_RULES, **WORD_RULES, **OPERATIONS, "pos ADJ -> NOUN | dep amod": lambda *at: (
    loops.pos("ADJ", "NOUN")(*at) or loops.dependent("amod")(*at)
)}  # fmt: skip
OF_SPECIAL = {"first", "last", "special", "special [SEP]", "special separator", "not special"}


def expected(made: Made, written: str):
    words = written in WORD_RULES or written == "pos ADJ -> NOUN | dep amod"
    special, itself = written in OF_SPECIAL, not words or written.startswith("word offset")
    return [
        loops.rows_of(text, RULES[written], words=words, special=special, itself=itself)
        for text in made.texts
    ], words


@pytest.mark.parametrize("causal", [False, True], ids=["both ways", "causal"])
@pytest.mark.parametrize("written", RULES)
def test_patterns_are_those_of_loops(written: str, *, causal: bool) -> None:
    for seed in range(6):
        one = made(seed, causal=causal)
        pattern, batch = pattern_of(written), one.known.batch(one.layer)
        found, (rows, words) = pattern_rows(pattern, batch), expected(one, written)
        assert pattern.of_words == words
        hits = pattern_hits(pattern, batch, found, one.layer)
        for text, (own, own_rows) in enumerate(zip(one.texts, rows, strict=True)):
            assert found.rows[text].nonzero().flatten().tolist() == sorted(own_rows)
            for query, (keys, among) in own_rows.items():
                assert set(found.keys[text, query].nonzero().flatten().tolist()) == keys
                assert set(found.among[text, query].nonzero().flatten().tolist()) == among
            for head in range(3):
                weights = one.layer.weights[text, head].tolist()
                if words:
                    weights = loops.between_words(weights, own.word, len(own.tags))
                both = loops.hit_and_mass(weights, own_rows)
                for values, plain in zip((hits.hit, hits.mass), both, strict=True):
                    mine = values[text, head][found.rows[text]]
                    torch.testing.assert_close(mine, torch.tensor(plain, dtype=torch.float64))


@pytest.mark.parametrize("causal", [False, True], ids=["both ways", "causal"])
def test_relations_are_counted_as_the_label_counts_them(*, causal: bool) -> None:
    followed = 0
    for seed in range(6):
        one = made(seed, causal=causal)
        scores = torch.randn(one.layer.weights.shape, generator=torch.Generator().manual_seed(seed))
        hidden = one.layer.weights == 0
        weights = scores.double().exp().masked_fill(hidden, 0)
        # Of equal weights the label takes the first.
        layer = replace(one.layer, weights=weights / weights.sum(-1, keepdim=True).clamp_min(1e-9))
        batch = one.known.batch(layer)
        kinds = tree_kinds(batch.trees)
        possible = possible_links(
            tree_links(batch.trees, batch.alignments[0], kinds), batch.units[1].words,
            batch.scope.groups, self_attention=True, causal=causal,
        )  # fmt: skip
        label = count_links(merge_tokens(layer.wide, *batch.units), possible)
        for index, kind in enumerate(kinds):
            if kind.direction != TO_HEAD or kind.relation not in {"nsubj", "amod"}:
                continue
            pattern = pattern_of(f"dep {kind.relation}")
            rows = pattern_rows(pattern, batch)
            hits = count_rows(pattern_hits(pattern, batch, rows, layer).hit, rows, batch.scope)
            assert torch.equal(hits.numerator.sum(0), label.followed.numerator[:, index].sum(0))
            assert hits.denominator.sum(0).tolist() == [int(label.links[:, index].sum())] * 3
            followed += int(hits.numerator.sum())
    assert followed


def test_coreference_does_not_run_through_words_of_two_entities() -> None:
    # "[[John]1 and [Mary]2]3 came, [he]1 saw [them]3": John is the head of 1 and of 3.
    words = list(range(8))
    entities = [{0, 5}, {2}, {0, 7}]
    john = Text(["cat"] * 8, [False] * 8, words, ["NOUN"] * 8, [], entities, None, COUNTS, False)
    one = made(0, text=john)
    found = pattern_rows(pattern_of("coref"), one.known.batch(one.layer))
    keys = {query: found.keys[0, query].nonzero().flatten().tolist() for query in words}
    assert {query: own for query, own in keys.items() if own} == {0: [5, 7], 5: [0], 7: [0]}


def test_rows_in_which_every_key_is_of_the_pattern_do_not_count() -> None:
    one = made(0)
    found = pattern_rows(pattern_of("offset -99..99"), one.known.batch(one.layer))
    assert not found.rows.any()


@pytest.mark.parametrize("written", ["dep nsubj | offset -1", "same word", "word offset -1"])
def test_texts_whose_words_are_not_aligned_have_no_rows(written: str) -> None:
    text = Text(
        ["cat", "##s", "sat", "the"], [False] * 4, [0, 0, 1, 2], ["NOUN"] * 3, [(0, 1, "nsubj")],
        [], None, COUNTS, False,
    )  # fmt: skip
    one = made(0, text=text)
    one.known.source.alignments[1] = None
    found = pattern_rows(pattern_of(written), one.known.batch(one.layer))
    assert found.eligible.any(-1).tolist() == found.rows.any(-1).tolist()
    assert found.rows.any(-1).tolist() == [True, False, True, True]


def test_controls_are_those_of_loops() -> None:
    one = made(1)
    for written in ("same token", "dep nsubj"):
        pattern, batch = pattern_of(written), one.known.batch(one.layer)
        found, (rows, _) = pattern_rows(pattern, batch), expected(one, written)
        every = [both for own in rows for both in own.values()]
        chance = sum(len(keys) / len(among) for keys, among in every) / len(every)
        counts = count_chance(found, batch.scope)
        assert counts.numerator.sum() / counts.denominator.sum() == pytest.approx(chance)
        offsets = count_offsets(pattern, batch, found)
        for index, offset in enumerate(CONTROL_OFFSETS):
            hits = sum(query + offset in keys for own in rows for query, (keys, _) in own.items())
            assert offsets.numerator[:, index].sum() == hits
        assert offsets.denominator[:, 0].sum() == len(every)
        hits = pattern_hits(pattern, batch, found, one.layer)
        whole = count_rows(hits.hit, found, batch.scope)
        assert whole.denominator.sum(0).tolist() == [len(every)] * 3


def test_a_function_of_a_text_is_a_pattern() -> None:
    one = made(2)

    def commas(text):
        return [[key == "," for key in text.keys] for _ in text.queries]

    batch = one.known.batch(one.layer)
    found, same = (pattern_rows(pattern_of(p), batch) for p in (commas, 'token ","'))
    assert torch.equal(found.keys & found.rows[..., None], same.keys & same.rows[..., None])
    assert pattern_of(commas).text == "commas"
    for wrong in (
        lambda text: [[True]],
        lambda text: torch.ones(len(text.queries), len(text.keys)),
        lambda text: None,
        lambda text: "abc",
        lambda text: [[True], [True, False]],
    ):
        with pytest.raises(InputError, match=r"a pattern is booleans of shape \(\d+, \d+\)"):
            pattern_rows(pattern_of(wrong), batch)


def test_a_function_may_mark_special_tokens() -> None:
    one = made(3)
    found, same = (
        pattern_rows(pattern_of(p), one.known.batch(one.layer))
        for p in (lambda t: [[key == "[CLS]" for key in t.keys]] * len(t.queries), "first")
    )
    assert torch.equal(found.keys[found.rows], same.keys[same.rows])


@pytest.mark.parametrize(
    ("written", "place"),
    [
        ("offset", "it ends|'offset' stands at character 1"),
        ("offset -1 |", "it ends where a set of keys"),
        ("offset x", "'offset x' stands at character 1"),
        ("first first", r"'first' stands at character 7 where \| or & or the end"),
        ("(first | last", r"it ends where \| or & or \) must"),
        ("first & (last | frist)", "'frist\\)' stands at character 17"),
        ("token the", "'token the' stands at character 1"),
        ("pos ADJ NOUN", "'pos ADJ NOUN' stands at character 1"),
        ("", "it ends"),
        ("not", "it ends"),
        ("firstly", "'firstly' stands at character 1"),
    ],
)
def test_what_is_no_pattern_is_refused_with_its_place(written: str, place: str) -> None:
    with pytest.raises(InputError, match=place) as refused:
        pattern_of(written)
    assert str(refused.value).startswith(f"The pattern '{written}' cannot be read: ")


@pytest.mark.parametrize(
    ("most", "longer"),
    [
        ("not " * 100 + "first", "not " * 1500 + "first"),
        ("first" + " | first" * 100, "first" + " | first" * 900),
        ("(" * 50 + "first" + ")" * 50, "(" * 900),
    ],
)
def test_patterns_of_very_many_parts_are_refused(most: str, longer: str) -> None:
    assert len({pattern_of(most), pattern_of(most)}) == 1
    with pytest.raises(InputError, match=r"of \|, &, not and brackets, of which it may have 100"):
        pattern_of(longer)


def test_not_binds_before_and_before_or() -> None:
    first, last = Atom("first"), Atom("last")
    assert pattern_of("not first & last | first").tree == Joined(
        "|", (Joined("&", (Not(first), last)), first)
    )
    assert pattern_of("not(first|last)").tree == Not(Joined("|", (first, last)))


@pytest.mark.parametrize("phrase", PHRASES)
def test_phrases_stand_for_patterns(phrase: str) -> None:
    found = pattern_of(f"  {phrase.capitalize()} ")
    assert found == pattern_of(PHRASES[phrase])
    assert found.text == PHRASES[phrase]


@given(st.text(alphabet='offset first&|()not -1."[]>'))
def test_any_text_is_a_pattern_or_refused(written: str) -> None:
    with suppress(InputError):
        assert pattern_of(written).leaves


@pytest.mark.parametrize(
    ("written", "site", "unmet"),
    [
        ("aligned", "encoder", (Need.CROSS, "aligned")),
        ("aligned", "cross", (Need.LINKS, "aligned")),
        ("first | same token", "cross", (Need.ONE_TEXT, "same token")),
        ("dep nsubj", "encoder", (Need.TREES, "dep")),
        ("coref", "encoder", (Need.MENTIONS, "coref")),
        ("other segment", "encoder", (Need.PAIRS, "other segment")),
        ("special [MASK]", "encoder", (Need.SPECIAL_TOKEN, "[MASK]")),
        ("offset -1", "cross", None),
        ("special separator", "encoder", None),
    ],
)
def test_why_a_pattern_cannot_be_met(
    written: str, site: str, unmet: tuple[Need, str] | None
) -> None:
    known = PatternTexts([""], TextSide(torch.ones(3, dtype=torch.long), seconds=[None]))
    assert unmet_need(pattern_of(written), site, known, {"[SEP]"}) == unmet
    without = unmet_need(pattern_of("special"), site, known, ())
    assert without == (Need.SPECIAL_TOKENS, "special")


@pytest.mark.parametrize("causal", [False, True], ids=["both ways", "causal"])
@pytest.mark.parametrize("written", loops.TRANSFORMER_LENS)
def test_figures_of_transformer_lens_are_those_of_loops(written: str, *, causal: bool) -> None:
    one = made(4, causal=causal)
    found = count_transformer_lens(pattern_of(written), one.known.batch(one.layer), one.layer)
    assert found is not None
    for head in range(3):
        scores = [
            loops.transformer_lens(written, text, one.layer.weights[number, head].tolist())
            for number, text in enumerate(one.texts)
        ]
        assert found.whole().ratio[0, head] == pytest.approx(sum(scores) / len(scores))
    others = ("offset -2", "offset -1 | first", "not same token")
    batch = one.known.batch(one.layer)
    assert not any(count_transformer_lens(pattern_of(o), batch, one.layer) for o in others)
