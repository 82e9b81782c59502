"""Gold pairs: syntactic heads against the offset baseline, alignments in cross-attention."""

import pandas as pd
import pytest
import torch
from labels.planting import attend
from oracles.functions import links_by_loops
from torch import Tensor

from attnlab.labels.counts import CHOOSING, GROUPS, REPORTED, RatioCounts, count_ratio, groups_of
from attnlab.labels.label import (
    MAX_LINK_OFFSET,
    TO_DEPENDENT,
    TO_HEAD,
    LinkCounts,
    LinkKind,
    Links,
    count_links,
    make_links,
    possible_links,
    tree_kinds,
    tree_links,
)
from attnlab.labels.syntactic import (
    best_heads,
    decide_links,
    relation_table,
    word_links,
)
from attnlab.labels.treebank import Arc, GoldSentence
from attnlab.labels.verdict import BORDERLINE, CONFIRMED, REJECTED, UNDECIDED
from attnlab.labels.word_tokens import Alignment, Span, gather_units, merge_tokens

WORDS = 11
OBJ = LinkKind("obj", TO_HEAD)
AMOD = LinkKind("amod", TO_HEAD)


def words_of(sentences: int, longest: int = WORDS) -> Tensor:
    lengths = 3 + torch.arange(sentences) % (longest - 2)
    return torch.arange(longest) < lengths[:, None]


def groups(sentences: int) -> Tensor:
    return groups_of(torch.arange(sentences))


def draw_links(words: Tensor, kinds=(OBJ,), seed: int = 0, per_sentence: int = 1) -> Links:
    generator = torch.Generator().manual_seed(seed)
    rows = []
    for sentence, count in enumerate(words.sum(1).tolist()):
        for kind in range(len(kinds)):
            for _ in range(per_sentence):
                query, key = torch.randperm(count, generator=generator)[:2].tolist()
                rows.append((sentence, query, key, kind))
    return make_links(kinds, rows)


def links_at(words: Tensor, offsets: Tensor) -> Links:
    """One link a sentence from its middle word, at the given offset."""
    middle = words.sum(1) // 2
    rows = [
        (s, int(m), int(m + o), 0) for s, (m, o) in enumerate(zip(middle, offsets, strict=True))
    ]
    return make_links((OBJ,), rows)


def following(words: Tensor, links: Links, share: float = 0.6) -> Tensor:
    """A head that follows every link and looks elsewhere in other rows."""
    targets = torch.full(words.shape, -1)
    targets[links.sentence, links.query] = links.key
    seen = words[:, :, None] & words[:, None, :]
    return attend(targets, seen, share)


def at(words: Tensor, offset: int) -> Tensor:
    seen = words[:, :, None] & words[:, None, :]
    targets = torch.arange(words.shape[1]) + offset
    return attend(targets.expand(words.shape), seen, 0.6)


def random_heads(words: Tensor, heads: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    shape = (len(words), heads, words.shape[1], words.shape[1])
    scores = 2 * torch.randn(shape, generator=generator, dtype=torch.float64)
    seen = (words[:, :, None] & words[:, None, :])[:, None]
    return scores.masked_fill(~seen, -1e9).softmax(-1) * seen


def counted(weights: Tensor, words: Tensor, links: Links, **options: bool):
    possible = possible_links(
        links, words, groups(len(words)), **{"self_attention": True, **options}
    )
    return count_links(weights, possible)


def test_head_that_follows_gold_arcs_is_syntactic() -> None:
    words = words_of(500)
    links = draw_links(words)
    weights = torch.stack([following(words, links), random_heads(words, 1)[:, 0]], 1)
    found, other = decide_links(relation_table(counted(weights, words, links)), "syntactic")
    assert found.status == CONFIRMED
    assert (found.detail, found.value, found.denominator) == ("obj dependent>head", 1.0, 250)
    assert found.threshold == pytest.approx(found.control + 0.10)
    assert other.status == REJECTED


def test_positional_head_at_the_most_frequent_offset_is_not_syntactic() -> None:
    words = words_of(500)
    generator = torch.Generator().manual_seed(1)
    offsets = torch.where(torch.rand(500, generator=generator) < 0.7, 1, -1)
    links = links_at(words, offsets)
    table = relation_table(counted(at(words, 1)[:, None], words, links))
    row = table.iloc[0]
    assert row.baseline_offset == 1
    assert row.accuracy == row.baseline > 0.6
    assert decide_links(table, "syntactic")[0].status == REJECTED


@pytest.mark.parametrize(
    ("right", "status"), [(0.74, REJECTED), (0.8, BORDERLINE), (0.86, CONFIRMED)]
)
def test_ten_absolute_points(right: float, status: str) -> None:
    # The baseline is at 0.7; following 74 % of arcs is not enough, 86 % is.
    words = words_of(2000)
    generator = torch.Generator().manual_seed(1)
    pick = torch.rand(2000, generator=generator)
    links = links_at(words, torch.where(pick < 0.7, 1, -1))
    wrong = links_at(words, torch.where(pick < right, torch.where(pick < 0.7, 1, -1), 1))
    weights = following(words, wrong)[:, None]
    verdict = decide_links(relation_table(counted(weights, words, links)), "syntactic")[0]
    assert verdict.value == pytest.approx(right, abs=0.02)
    assert verdict.status == status


def in_groups(of_half: Tensor) -> Tensor:
    """All that each half has in its first group."""
    empty = of_half.new_zeros(GROUPS - 2, *of_half.shape[1:])
    return torch.cat([of_half, empty])


def links_followed(hits: list[int], links: int) -> RatioCounts:
    """So many of the links of each kind, one link a sentence, followed by the one head in both halves."""
    number = torch.arange(links)
    followed = (number[:, None] < torch.tensor(hits))[:, :, None].double()
    one = torch.ones(links, len(hits))
    return sum_in_halves(followed, one)


def sum_in_halves(numerator: Tensor, denominator: Tensor) -> RatioCounts:
    halves = [
        count_ratio(numerator, denominator, torch.full((len(numerator),), half)) for half in (0, 1)
    ]
    return halves[0] + halves[1]


def counts_of(*kinds: tuple[int, int, float]) -> LinkCounts:
    """200 links of each kind a half: how many the one head follows, how many lie at +1, chance."""
    offsets = torch.zeros(2, len(kinds), 2 * MAX_LINK_OFFSET + 1, dtype=torch.long)
    offsets[:, :, MAX_LINK_OFFSET + 1] = torch.tensor([at_offset for _, at_offset, _ in kinds])
    return LinkCounts(
        (OBJ, AMOD)[: len(kinds)],
        in_groups(torch.full((2, len(kinds)), 200)),
        in_groups(torch.tensor([chance for *_, chance in kinds]).double().expand(2, -1)),
        links_followed([hits for hits, *_ in kinds], 200),
        in_groups(offsets),
    )


@pytest.mark.parametrize("at_offset", range(20, 160, 4))
def test_the_interval_must_clear_ten_points(at_offset: int) -> None:
    # 200 links: no interval of 95 % is wider than 14 links to either side.
    for more, status in ((35, CONFIRMED), (20, BORDERLINE), (5, REJECTED)):
        table = relation_table(counts_of((at_offset + more, at_offset, 0.0)))
        assert table.status.tolist() == [status]


def test_a_relation_is_chosen_by_what_it_gains_over_chance_too() -> None:
    # amod gains most over its offset, but no more than a head that picks at random.
    table = relation_table(counts_of((140, 60, 40.0), (120, 20, 120.0)))
    (verdict,) = decide_links(table, "syntactic")
    assert (verdict.detail, verdict.status) == ("obj dependent>head", CONFIRMED)


def test_offset_baseline_is_fitted_on_the_other_half() -> None:
    words = words_of(500)
    offsets = torch.where(groups(500) % 2 == CHOOSING, 1, -1)
    table = relation_table(counted(at(words, -1)[:, None], words, links_at(words, offsets)))
    row = table.iloc[0]
    assert (row.baseline_offset, row.choosing_baseline, row.baseline) == (1, 1.0, 0.0)
    assert (row.choosing_accuracy, row.accuracy) == (0.0, 1.0)
    assert row.status == REJECTED


def test_best_of_many_is_reported_on_the_half_it_was_not_chosen_on() -> None:
    words = words_of(400)
    links = draw_links(words)
    table = relation_table(counted(random_heads(words, 97), words, links))
    best = best_heads(table).iloc[0]
    everywhere = table.accuracy.mean()
    assert best.choosing_accuracy == table.choosing_accuracy.max()
    assert best.choosing_accuracy > everywhere + 0.05
    assert abs(best.accuracy - everywhere) < 0.06
    assert best.accuracy_low < everywhere < best.accuracy_high


def test_a_link_that_one_half_has_none_of_has_no_best_head() -> None:
    words = words_of(400)
    one = relation_table(counted(random_heads(words, 5), words, draw_links(words)))
    for column in ("links", "choosing_links"):
        found = best_heads(
            pd.concat([one, one.assign(relation="none", **{column: 0})], ignore_index=True)
        )
        assert set(found["relation"]) == set(one["relation"])


def test_few_arcs_give_no_label() -> None:
    words = words_of(180)
    links = draw_links(words)
    table = relation_table(counted(following(words, links)[:, None], words, links))
    verdict = decide_links(table, "syntactic")[0]
    assert (verdict.status, verdict.counted, verdict.value) == (UNDECIDED, 90, 1.0)
    assert (verdict.needed, verdict.unit) == (100, "links")


def test_own_word_is_no_candidate_in_self_attention() -> None:
    words = words_of(300)
    links = draw_links(words)
    identity = torch.eye(WORDS, dtype=torch.float64) * words[:, None, :]
    weights = (0.7 * identity + 0.3 * following(words, links))[:, None]
    assert relation_table(counted(weights, words, links)).accuracy.item() == 1
    across = counted(weights, words, links, self_attention=False)
    assert relation_table(across).accuracy.item() == 0


def test_special_tokens_are_no_candidates() -> None:
    # Tokens: [CLS] a b c [SEP]; every row has 0.9 on [SEP], the rest on the head word.
    alignment = Alignment((None, 0, 1, 2, None), (0, 1, 2))
    units = gather_units([alignment] * 300, torch.ones(300, 5, dtype=torch.bool))
    links = make_links((OBJ,), [(s, 0, 2, 0) for s in range(300)])
    weights = torch.zeros(300, 1, 5, 5)
    weights[..., 4] = 0.9
    weights[..., 3] = 0.1
    merged = merge_tokens(weights, units, units)
    counts = count_links(
        merged, possible_links(links, units.words, groups(300), self_attention=True)
    )
    assert counts.followed.numerator.sum() == 300


def test_arcs_ahead_cannot_be_followed_in_a_causal_decoder() -> None:
    words = words_of(300)
    links = draw_links(words)
    causal = counted(random_heads(words, 2), words, links, causal=True)
    # The second word has but one candidate: nothing to choose.
    assert causal.links.sum() == ((links.key < links.query) & (links.query >= 2)).sum()
    middle = MAX_LINK_OFFSET
    assert causal.offsets[..., middle:].sum() == 0


@pytest.mark.parametrize("causal", [False, True])
def test_few_candidates_make_no_syntactic_head(causal: bool) -> None:
    # Verbs third in short sentences, subjects at random before them: half of the picks are right.
    words = words_of(600, 4)
    rows = [(s, 2, s // 2 % 2, 0) for s in range(600)]
    links = make_links((OBJ,), rows)
    weights = random_heads(words, 5)
    counts = counted(weights.tril() if causal else weights, words, links, causal=causal)
    table = relation_table(counts)
    candidates = torch.full((600,), 2.0) if causal else words.sum(1) - 1.0
    chance = (1 / candidates)[groups(600) % 2 == REPORTED].mean().item()
    assert table.chance.tolist() == pytest.approx([chance] * 5)
    assert table.accuracy.mean() == pytest.approx(chance, abs=0.05)
    for found in decide_links(table, "syntactic"):
        assert found.status == REJECTED
        assert found.threshold >= chance + 0.10


@pytest.mark.parametrize(("hits", "status"), [(560, REJECTED), (590, BORDERLINE), (640, CONFIRMED)])
def test_accuracy_must_exceed_chance_too(hits: int, status: str) -> None:
    # Offset baseline 0.3, chance 0.5.
    offsets = torch.zeros(2, 1, 2 * MAX_LINK_OFFSET + 1, dtype=torch.long)
    offsets[..., MAX_LINK_OFFSET - 2] = 300
    counts = LinkCounts(
        (OBJ,),
        in_groups(torch.full((2, 1), 1000)),
        in_groups(torch.full((2, 1), 500.0, dtype=torch.float64)),
        links_followed([hits], 1000),
        in_groups(offsets),
    )
    found = decide_links(relation_table(counts), "syntactic")[0]
    assert found.status == status
    assert found.threshold == pytest.approx(0.6)


def test_all_relations_together_give_no_label() -> None:
    words = words_of(500)
    links = draw_links(words, kinds=(LinkKind("all", TO_HEAD), OBJ))
    mine = links.kind == 0
    everything = Links(
        links.kinds, links.sentence[mine], links.query[mine], links.key[mine], links.kind[mine]
    )
    table = relation_table(counted(following(words, everything)[:, None], words, links))
    assert table[table.relation == "all"].status.item() == CONFIRMED
    assert decide_links(table, "syntactic")[0].status == REJECTED


def tree(*arcs: Arc, words: int = 4) -> GoldSentence:
    spans = tuple(Span(2 * n, 2 * n + 1) for n in range(words))
    return GoldSentence("t", " ".join("abcdefg"[:words]), spans, ("X",) * words, arcs)


def as_set(links: Links) -> set[tuple[int, int, int, LinkKind]]:
    rows = zip(links.sentence, links.query, links.key, links.kind, strict=True)
    return {(int(s), int(q), int(k), links.kinds[int(kind)]) for s, q, k, kind in rows}


def test_arcs_become_links_between_units_in_both_directions() -> None:
    # Words b and c share a token: one unit. Its inner arc goes, subtypes are folded.
    sentence = tree(
        Arc(0, 1, "nsubj:pass"), Arc(1, 2, "aux"), Arc(3, 2, "punct"), Arc(0, 2, "nsubj")
    )
    joined = Alignment((0, 1, 2), (0, 1, 1, 2))
    kinds = tree_kinds([sentence])
    links = tree_links([sentence, sentence, sentence], [None, joined, joined], kinds)
    expected = set()
    for number in (1, 2):
        expected |= {
            (number, 0, 1, LinkKind("nsubj", TO_HEAD)),
            (number, 1, 0, LinkKind("nsubj", TO_DEPENDENT)),
            (number, 2, 1, LinkKind("punct", TO_HEAD)),
            (number, 1, 2, LinkKind("punct", TO_DEPENDENT)),
            (number, 0, 1, LinkKind("all", TO_HEAD)),
        }
    assert as_set(links) == expected
    assert len(links.kind) == len(expected)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("self_attention", [False, True])
def test_equals_loops(causal: bool, self_attention: bool) -> None:
    words = words_of(23)
    links = draw_links(words, kinds=(OBJ, AMOD), per_sentence=2)
    weights = random_heads(words, 3)
    weights = weights.tril() if causal else weights
    counts = counted(weights, words, links, self_attention=self_attention, causal=causal).by_half()
    for half in (0, 1):
        for kind in (0, 1):
            for head in range(3):
                possible = hits = 0
                for sentence in range(half, 23, 2):
                    mine = (links.sentence == sentence) & (links.kind == kind)
                    pairs = list(
                        zip(links.query[mine].tolist(), links.key[mine].tolist(), strict=True)
                    )
                    found = links_by_loops(
                        weights[sentence, head].tolist(),
                        int(words[sentence].sum()),
                        pairs,
                        self_attention,
                        causal,
                    )
                    possible, hits = possible + found[0], hits + found[1]
                assert counts.links[half, kind] == possible
                assert counts.followed.numerator[half, kind, head] == hits


def test_links_of_different_treebanks_do_not_add_up() -> None:
    words = words_of(7)
    one, other = (
        counted(random_heads(words, 2), words, draw_links(words, (k,))) for k in (OBJ, AMOD)
    )
    assert (one + one).links.sum() == 2 * one.links.sum()
    with pytest.raises(ValueError, match="Counts with different kinds do not add up"):
        one + other


def plain(words: Tensor) -> list[Alignment]:
    """Alignments of sentences whose every word is one token."""
    return [Alignment(tuple(range(n)), tuple(range(n))) for n in words.sum(1).tolist()]


def test_head_that_follows_gold_alignments() -> None:
    # Source and target have different lengths; the alignment is a random permutation of words.
    target, source = words_of(400, 7), words_of(400, 11)
    generator = torch.Generator().manual_seed(0)
    pairs, goal = [], torch.full(target.shape, -1)
    for sentence in range(400):
        t, s = int(target[sentence].sum()), int(source[sentence].sum())
        keys = torch.randint(0, s, (t,), generator=generator).tolist()
        pairs.append(list(enumerate(keys)))
        goal[sentence, :t] = torch.tensor(keys)
    seen = target[:, :, None] & source[:, None, :]
    weights = attend(goal, seen, 0.6)[:, None]
    links = word_links(pairs, plain(target), plain(source))
    possible = possible_links(links, source, groups(400), self_attention=False)
    counts = count_links(weights, possible)
    verdict = decide_links(relation_table(counts), "alignment")[0]
    assert verdict.status == CONFIRMED
    assert (verdict.label, verdict.detail, verdict.value) == (
        "alignment",
        "alignment target>source",
        1,
    )


def test_alignment_error_rate_agrees_with_a_bootstrap_over_groups() -> None:
    # Some words have no gold link, some have two, and all give one link.
    target, source = words_of(600, 7), words_of(600, 11)
    generator = torch.Generator().manual_seed(0)
    pairs = [
        [
            (t, s)
            for t in range(wide)
            for s in torch.randperm(high, generator=generator).tolist()[: t % 3]
        ]
        for wide, high in zip(target.sum(1).tolist(), source.sum(1).tolist(), strict=True)
    ]
    weights = torch.rand(600, 1, 7, 11, generator=generator) * source[:, None, None]
    possible = possible_links(
        word_links(pairs, plain(target), plain(source)),
        source, groups(600), self_attention=False, queries=target,
    )  # fmt: skip
    row = relation_table(count_links(weights, possible)).iloc[0]
    best = weights[:, 0].argmax(-1).tolist()
    sums = torch.zeros(GROUPS, 2, dtype=torch.float64)
    for number, group in enumerate(groups(600)):
        hits = sum(best[number][t] == s for t, s in pairs[number])
        sums[group] += torch.tensor([hits, int(target[number].sum()) + len(pairs[number])])
    of_half = sums[REPORTED::2]
    drawn = of_half[torch.randint(len(of_half), (4000, len(of_half)), generator=generator)].sum(1)
    ends = torch.tensor([0.025, 0.975], dtype=torch.float64)
    low, high = (1 - 2 * drawn[:, 0] / drawn[:, 1]).quantile(ends).tolist()
    assert row.aer == pytest.approx(float(1 - 2 * of_half[:, 0].sum() / of_half[:, 1].sum()))
    assert (row.aer_low, row.aer_high) == pytest.approx((low, high), abs=0.1 * (high - low))


def test_alignments_become_links_between_units() -> None:
    # Target words 1 and 2 share a token; the third sentence has no alignment of its source.
    target, source = Alignment((0, 1, 2), (0, 1, 1, 2)), Alignment((0, 1), (0, 1))
    pairs = [[(0, 0), (1, 1), (2, 1), (3, 0)], [(3, 1)], [(0, 0)]]
    links = word_links(pairs, [target] * 3, [source, source, None])
    kind = LinkKind("alignment", "target>source")
    assert as_set(links) == {(0, 0, 0, kind), (0, 1, 1, kind), (0, 2, 0, kind), (1, 2, 1, kind)}


def test_decoder_row_is_aligned_by_the_token_it_predicts() -> None:
    # Decoder reads <s> a b c, predicts a b c </s>; row t looks at the source of token t + 1.
    read = Alignment((None, 0, 1, 2), (0, 1, 2))
    predicting = Alignment((0, 1, 2, None), (0, 1, 2))
    source = Alignment((0, 1, 2, None), (0, 1, 2))
    seen = torch.ones(300, 4, dtype=torch.bool)
    goal = torch.tensor([2, 0, 1, 3]).expand(300, 4)
    weights = attend(goal, seen[:, :, None] & seen[:, None, :], 0.8)[:, None]
    pairs = [(0, 2), (1, 0), (2, 1)]
    links = word_links([pairs] * 300, [read] * 300, [source] * 300)

    def accuracy(rows: Alignment) -> float:
        queries, keys = gather_units([rows] * 300, seen), gather_units([source] * 300, seen)
        merged = merge_tokens(weights, queries, keys)
        counts = count_links(
            merged, possible_links(links, keys.words, groups(300), self_attention=False)
        )
        of_half = counts.by_half()
        return float(of_half.followed.numerator[REPORTED].sum() / of_half.links[REPORTED].sum())

    assert accuracy(predicting) == 1
    assert accuracy(read) == 0
