"""Claims about heads whose hits are known by construction, or found by loops over what a model returns."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from zoo import random_models
from zoo.random_models import PAIRS, SENTENCES, tokenizer

import attnlab
from attnlab.attention import use
from attnlab.core.errors import InputError
from attnlab.evaluation import EveryRowHits, LeftOut, RareInTheseTexts
from attnlab.labels.pattern_counts import MARGIN, Bars, bars_of
from attnlab.labels.patterns import pattern_of
from attnlab.questions.claim.claiming import _without_a_miss
from attnlab.questions.claim.grading import grade_of, texts_to_decide
from attnlab.questions.claim.question import (
    ALWAYS,
    CLAIMS,
    MORE,
    MOSTLY,
    NO_MORE,
    UNDECIDED,
    Claim,
    ClaimSettings,
    WithoutControls,
    claim_of,
)
from attnlab.questions.claim.view import _each
from attnlab.results import Result


def test_a_claim_that_every_row_meets_says_why_it_is_not_always() -> None:
    head = {"site": "encoder", "layer": 0, "pattern": "first"}
    table = pd.DataFrame(
        [
            head | {"head": 0, "hit": 1.0, "grade": MOSTLY},
            head | {"head": 1, "hit": 1.0, "grade": ALWAYS},
            head | {"head": 2, "hit": 0.99, "grade": MOSTLY},
        ]
    )
    assert _without_a_miss(table) == [EveryRowHits(("encoder.0.0: first",))]
    assert _without_a_miss(table[1:]) == []


TREES = """\
# sent_id = 1
1	the	the	DET	_	_	2	det	_	_
2	cat	cat	NOUN	_	_	3	nsubj	_	_
3	sees	see	VERB	_	_	0	root	_	_
4	the	the	DET	_	_	6	det	_	_
5	red	red	ADJ	_	_	6	amod	_	_
6	bird	bird	NOUN	_	_	3	obj	_	_

# sent_id = 2
1	a	a	DET	_	_	3	det	_	_
2	old	old	ADJ	_	_	3	amod	_	_
3	dog	dog	NOUN	_	_	4	nsubj	_	_
4	runs	run	VERB	_	_	0	root	_	_

"""


@pytest.fixture(scope="module")
def bert() -> tuple[Any, Any]:
    return random_models.bert(), tokenizer()


@pytest.fixture(scope="module")
def planted(bert: tuple[Any, Any], tmp_path_factory: pytest.TempPathFactory) -> Result:
    """Claims about a head that looks at the token before, in a model of random heads."""
    trees = tmp_path_factory.mktemp("trees") / "two.conllu"
    trees.write_text(TREES * 50, encoding="utf-8")
    claims = [
        "0.1: offset -1", "0.1: offset 1", "0.1: word offset -1", "0.1: dep amod reversed",
        "0.1: dep amod", "1.0: dep amod", "1.0: offset -1", "0.1: pos NOUN -> ADJ nearest",
    ]  # fmt: skip
    with use(bert[0], {"encoder.0.1": "fixed(pattern='previous')"}):
        return attnlab.claim(bert, claims, treebank=trees)


def row_of(result: Result, claimed: str) -> Any:
    head, pattern = claimed.split(": ")
    layer, number = map(int, head.split("."))
    table = result.claims
    return table[
        (table.layer == layer) & (table["head"] == number) & (table.pattern == pattern)
    ].iloc[0]


def test_a_head_that_looks_at_the_token_before_always_does(planted: Result) -> None:
    for pattern in ("offset -1", "word offset -1"):
        found = row_of(planted, f"0.1: {pattern}")
        assert (found.hit, found.mass, found.grade) == (1, 1, ALWAYS)
        assert (found.rows_counted, found.rows_without) == (50 * (5 + 3), 50 * 2)
        assert np.isnan(found.offset_hit)
        assert found.best_head == "encoder.0.1"
    # The noun behind its adjective: all but never by chance, and in shuffled words rarely.
    relation = row_of(planted, "0.1: dep amod reversed")
    assert (relation.hit, relation.rows_counted, relation.sentences) == (1, 100, 100)
    assert (relation.offset_hit, relation.best_offset) == (1, -1)
    assert relation.shuffled_hit < 0.7
    # The cat's nearest adjective is the bird's.
    assert row_of(planted, "0.1: pos NOUN -> ADJ nearest").hit == pytest.approx(2 / 3)


def test_what_it_does_not_do_is_no_more_than_controls(planted: Result) -> None:
    for claimed in ("0.1: offset 1", "0.1: dep amod"):
        found = row_of(planted, claimed)
        assert (found.hit, found.grade) == (0, NO_MORE)
        assert found.hit_high < found.bar


def test_equal_weights_hit_by_chance(planted: Result) -> None:
    # Five or three other words to choose from, one of them the adjective's noun.
    assert row_of(planted, "0.1: dep amod").chance_hit == pytest.approx((1 / 5 + 1 / 3) / 2)


def test_heads_that_satisfy_a_claim_better_are_listed(planted: Result) -> None:
    better = planted.better_heads
    mine = better[(better.layer == 1) & (better.pattern == "offset -1")]
    assert mine.better_head.iloc[0] == "encoder.0.1"
    assert (mine.better_hit.iloc[0], mine.better_mass.iloc[0]) == (1, 1)
    assert better[(better.layer == 0) & (better.pattern == "offset -1")].empty


def test_sentences_for_and_against(planted: Result) -> None:
    told = planted.sentences.groupby(["layer", "pattern", "speaks"]).size()
    assert told[0, "offset -1", "for"] == 5
    assert (0, "offset -1", "against") not in told
    assert told[0, "offset 1", "against"] == 5
    looks = planted.sentences.query("layer == 0 and pattern == 'offset -1'").looks
    assert set(looks) <= {
        "cat > the, sees > cat, the > sees, red > the, bird > red",
        "old > a, dog > old, runs > dog",
    }
    refuted = planted.sentences.query("layer == 0 and pattern == 'offset 1'").looks
    assert all(one.startswith("[") for one in refuted)


def test_intervals_are_wider_for_several_claims(bert: tuple[Any, Any]) -> None:
    one, several = (
        attnlab.claim(bert, claims, sentences=SENTENCES, controls=False).claims.iloc[0]
        for claims in (["0.0: offset -1"], ["0.0: offset -1", "0.1: offset -1", "0.2: offset 1"])
    )
    assert one.hit == several.hit
    assert several.hit_low < one.hit_low < one.hit < one.hit_high < several.hit_high


def test_hits_are_those_of_loops_over_what_the_model_returns(bert: tuple[Any, Any]) -> None:
    model, words = bert
    eager = type(model)._from_config(model.config, attn_implementation="eager")
    eager.load_state_dict(model.state_dict())
    hits = []
    for text in SENTENCES:
        with torch.no_grad():
            returned = eager.eval()(**words(text, return_tensors="pt"), output_attentions=True)
        weights = returned.attentions[1][0, 2].tolist()
        content = range(1, len(weights) - 1)
        if len(content) > 1:
            hits += [
                max(content, key=lambda key: weights[query][key]) == query - 1
                for query in content[1:]
            ]
    found = attnlab.claim(bert, ["1.2: offset -1"], sentences=SENTENCES, controls=False)
    assert found.claims.rows_counted.item() == len(hits)
    assert found.claims.hit.item() == pytest.approx(sum(hits) / len(hits))
    assert np.isnan(found.claims.texts_needed.item()) == (found.claims.grade.item() != UNDECIDED)


def test_the_untrained_twin_is_the_same_head_of_new_weights(bert: tuple[Any, Any]) -> None:
    from attnlab.labels import untrained_twin

    twin = untrained_twin(bert[0], 3)
    found = attnlab.claim(bert, ["1.2: offset -1"], sentences=SENTENCES, seed=3).claims.iloc[0]
    same = [
        attnlab.claim((twin, bert[1]), [f"{layer}.{head}: offset -1"], sentences=SENTENCES, controls=False)
        for layer in range(2)
        for head in range(3)
    ]  # fmt: skip
    hits = [one.claims.hit.item() for one in same]
    assert (found.untrained_hit, found.untrained_most) == (hits[5], max(hits))


def test_a_function_and_pairs_of_one_stack(bert: tuple[Any, Any]) -> None:
    def points(text: Any) -> Any:
        return np.array([[key == "." for key in text.keys] for _ in text.queries])

    found = attnlab.claim(
        bert, [("0.0", points), ("0.0", 'token "."')], sentences=SENTENCES, controls=False
    ).claims
    assert list(found.pattern) == ["points", 'token "."']
    figures = found[["hit", "mass", "rows_counted", "chance_hit"]]
    pd.testing.assert_series_equal(figures.iloc[0], figures.iloc[1], check_names=False)


def test_grades_go_by_whole_intervals() -> None:
    bars = Bars(0.35, 0.3)
    assert grade_of(0.91, 0.99, Bars(0.95, 0.95)) == ALWAYS
    assert grade_of(0.51, 0.99, Bars(0.95, 0.95)) == MOSTLY
    assert grade_of(0.36, 0.6, bars) == MORE
    assert grade_of(0.1, 0.29, bars) == NO_MORE
    for low, high in ((0.32, 0.4), (0.1, 0.34), (np.nan, np.nan)):
        assert grade_of(low, high, bars) == UNDECIDED
    # It may be more than half, which says nothing of controls.
    assert grade_of(0.4, 0.6, Bars(0.8, 0.8)) == UNDECIDED
    assert bars_of([(0.2, 0.25), (0.1, np.nan)]) == pytest.approx((0.2 + MARGIN, 0.2 + MARGIN))
    assert bars_of([(0.96, 0.98)]) == pytest.approx((1.0, 0.96 + MARGIN))


def test_how_many_texts_would_decide() -> None:
    # Half the distance to the bar is four times the texts; the interval's own side counts.
    assert texts_to_decide(0.4, 0.2, 0.5, Bars(0.3, 0.3), 10) == 40
    assert texts_to_decide(0.2, 0.1, 0.4, Bars(0.35, 0.3), 10) == 40
    # Above a half before above the bar, and below a half before below it.
    assert texts_to_decide(0.7, 0.3, 0.8, Bars(0.6, 0.6), 10) == 40
    assert texts_to_decide(0.4, 0.1, 0.6, Bars(0.9, 0.9), 10) == 40
    assert texts_to_decide(0.3, 0.1, 0.5, Bars(0.3, 0.3), 10) is None
    assert texts_to_decide(0.3, np.nan, np.nan, Bars(0.2, 0.2), 1) is None


def test_one_text_cannot_choose_an_offset_or_a_head_and_show_its_hit(
    bert: tuple[Any, Any], tmp_path: Path, no_page: None
) -> None:
    found = attnlab.claim(bert, ["0.0: rarest"], sentences=SENTENCES[:1], controls=False)
    empty = ["offset_hit", "best_offset", "best_head", "best_hit"]
    assert found.claims[empty].isna().all(axis=None)
    assert found.better_heads.empty
    assert Result.load(found.save(tmp_path / "one")).claims[empty].isna().all(axis=None)


def test_what_controls_reach_is_said_beside_a_hit_that_is_not_above_them() -> None:
    row = {
        "site": "encoder", "layer": 0, "head": 1, "pattern": "first", "hit": 0.7, "hit_low": 0.6,
        "hit_high": 0.8, "chance_hit": 0.4, "offset_hit": np.nan, "untrained_most": 0.75, "bar": 0.85,
        "grade": MOSTLY, "texts_needed": np.nan,
    }  # fmt: skip
    below, above = _each(pd.DataFrame([row, row | {"bar": 0.5}]))
    assert below == "'encoder.0.1: first': mostly, hit 0.70 [0.60, 0.80], controls reach 0.75."
    assert above == "'encoder.0.1: first': mostly, hit 0.70 [0.60, 0.80]."


def test_two_functions_of_one_name_are_refused() -> None:
    with pytest.raises(InputError, match="Two patterns are called <lambda>; give each function"):
        ClaimSettings([("0.0", lambda text: text), ("0.1", lambda text: [])])


def test_what_is_neither_pattern_nor_function_is_refused() -> None:
    with pytest.raises(InputError, match="is no claim; give a head with a pattern or a function"):
        ClaimSettings([("2.4", [1])])


def test_claims_as_they_are_written() -> None:
    plain = Claim("", 2, 4, pattern_of("offset -1"))
    assert claim_of("2.4: offset -1") == claim_of(" 2.4 attends to the previous token") == plain
    assert claim_of(("2.4", "offset -1")) == claim_of("3.5:offset -1", first=1) == plain
    assert claim_of(((3, 5), "offset -1"), first=1) == plain
    assert ClaimSettings([(("cross", 2, 4), "offset -1")]).read[0] == (
        replace(plain, site="cross"),
    )
    assert claim_of("cross.2.4: first").site == "cross"
    in_words = claim_of("Head 2.4 attends to the previous token")
    assert (in_words.layer, in_words.head, in_words.pattern.text) == (2, 4, "offset -1")


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("offset -1", "'offset -1' is no claim; write a head and a pattern"),
        ("2.4", "'2.4' is no claim"),
        ("2.4 first", "'2.4 first' is no claim"),
        ("middle.2.4: first", "There is no site 'middle'"),
        ("2.4: frist", r"cannot be read: 'frist' stands at character 1 .* must follow\.$"),
        ("2.4: [CLS]", r"must follow; did you mean 'special \[CLS\]'\?$"),
        ("2.4: first self", r"where \| or & .* must follow\.$"),
        ("2.4: first | self", r"'self' stands at character 9 .*; did you mean 'offset 0'\?$"),
        ("2.4 attends to [CLS]", r"behind a colon, as in '2\.4: special \[CLS\]', or one of"),
        ("2.4 attends to the moon", "What 'the moon' means is not known.*the previous word, "),
    ],
)
def test_what_is_no_claim_is_refused(written: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        ClaimSettings([written])


def test_claims_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "claims.csv"
    file.write_text('head,pattern,who\n2.10,"offset -1","a, b"\n2.10,the previous token,c\n')
    assert ClaimSettings(file=file).read == ((Claim("", 2, 10, pattern_of("offset -1")),), ())
    assert len(ClaimSettings(["1.1: first"], file=file).read[0]) == 2
    file.write_text("head,what\n1.2,first\n")
    with pytest.raises(InputError, match="lacks the columns head and pattern"):
        ClaimSettings(file=file)
    file.write_text("head,pattern\n1.2,\n")
    with pytest.raises(InputError, match=r"claims.csv, line 2: The pattern '' cannot be read"):
        ClaimSettings(file=file)
    file.write_text(f"head,pattern\n1.2,{'x' * 140_000}\n")
    with pytest.raises(InputError, match="csv, line 2 cannot be read as CSV: "):
        ClaimSettings(file=file)
    with pytest.raises(InputError, match="Give a claim, such as"):
        ClaimSettings()
    with pytest.raises(InputError, match="names number 0"):
        ClaimSettings(["0.1: first"], from_1=True)


@pytest.mark.parametrize(
    ("claimed", "told"),
    [
        ("7.0: first", "There is no head encoder.7.0; choose from encoder.0.0 to encoder.1.2."),
        ("0.3: first", "There is no head encoder.0.3; choose from encoder.0.0 to encoder.1.2."),
        ("cross.0.0: first", "There is no head cross.0.0; choose from encoder.0.0 to encoder.1.2."),
        ("0.0: aligned", "aligned is for cross-attention"),
        ("0.0: pos ADJ -> NOUN", "pos needs gold trees; give a treebank"),
        ("0.0: special [SEP]", r"\[SEP\] is no special token of the texts, which have </s>, <s>"),
        ('0.0: token "moon"', "there is no such key"),
        ("0.0: other segment", "needs pairs of texts"),
        ("0.0: offset -99..99", "and one outside the pattern beside it"),
    ],
)
def test_what_cannot_be_met_is_refused(bert: tuple[Any, Any], claimed: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        attnlab.claim(bert, [claimed], sentences=SENTENCES, controls=False)


def test_bad_claims_are_left_out_with_their_places_and_the_others_checked(
    bert: tuple[Any, Any], tmp_path: Path
) -> None:
    file = tmp_path / "claims.csv"
    file.write_text("head,pattern\n0.1,offset -1\n0.1,frist\n0.9,first\n,first\n")
    bad = ["0.0: aligned", '0.0: token "moon"', "0.0 first"]
    found = attnlab.claim(bert, bad, file=file, sentences=SENTENCES, controls=False)
    alone = attnlab.claim(bert, "0.1: offset -1", sentences=SENTENCES, controls=False)
    pd.testing.assert_frame_equal(found.claims, alone.claims)
    left_out = {note.what: note.reason for note in found.notes if isinstance(note, LeftOut)}
    assert set(left_out) == {
        "'0.0: aligned'", "'0.0: token \"moon\"'", "'0.0 first'", "'0.1: frist'",
        "'0.9: first' (claims.csv, line 4)", "': first'",
    }  # fmt: skip
    assert left_out["'0.1: frist'"].startswith("claims.csv, line 3: The pattern 'frist' cannot be")
    assert "There is no head encoder.0.9" in left_out["'0.9: first' (claims.csv, line 4)"]
    assert not any(isinstance(note, LeftOut) for note in alone.notes)


@pytest.mark.parametrize(
    "bad", [["7.0: first", "0.0: aligned"], ["0.0: aligned", '0.0: token "m"']]
)
def test_where_no_claim_is_left_all_are_named(bert: tuple[Any, Any], bad: list[str]) -> None:
    with pytest.raises(InputError, match="^None of the 2 can be counted") as refused:
        attnlab.claim(bert, bad, sentences=SENTENCES, controls=False)
    assert all(f"'{one}': " in str(refused.value) for one in bad)
    with pytest.raises(InputError, match="'a': 'a' is no claim.* 'b': 'b' is no claim"):
        ClaimSettings(["a", "b"])


def test_heads_of_several_sites_need_one() -> None:
    model = (random_models.small_marian(), tokenizer())
    with pytest.raises(InputError, match=r"write one of: encoder.0.0, decoder.0.0, cross.0.0"):
        attnlab.claim(model, ["0.0: first"], sentences=PAIRS)
    found = attnlab.claim(model, ["0.0: rarest"], sentences=PAIRS, sites=["cross"], controls=False)
    assert found.claims.site.item() == "cross"
    assert found.notes.count(RareInTheseTexts()) == found.notes.count(WithoutControls()) == 1


def test_the_figure_is_drawn_of_its_table(planted: Result) -> None:
    assert set(planted.figures) == {"claims"}
    assert planted.answers[0] == (
        "8 claims: "
        + ", ".join(
            f"{count} {grade}"
            for grade in (ALWAYS, MOSTLY, MORE, NO_MORE, UNDECIDED)
            if (count := int((planted.claims.grade == grade).sum()))
        )
        + "."
    )
    assert set(CLAIMS) == set(planted.claims)
