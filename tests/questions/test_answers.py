"""What pages say of tables in sentences."""

import math
import re

import pandas as pd
import pytest

from attnlab.core.columns import LOSS_CHANGE
from attnlab.questions.importance.view import readable, removable
from attnlab.questions.plan.view import answers as plan_answers
from attnlab.questions.prune.view import answers as prune_answers
from attnlab.results import Result
from experiments.heads_of_minilm.phrases import count_labels


def curve(order: str, lows: list[float]) -> pd.DataFrame:
    lines: dict[str, object] = {"order": order, "heads_removed": range(len(lows))}
    for name, more in (("_low", 0.0), ("", 0.5), ("_high", 1.0)):
        lines[f"loss_change{name}"] = [low + more for low in lows]
    return pd.DataFrame(lines)


@pytest.mark.parametrize(
    ("lows", "said"),
    [
        (
            {"a": [0.0, -0.1, 0.2, 0.3], "b": [0.0, -0.1, -0.2, 0.3]},
            r"2 of 3 heads .* by \+0\.3 \[-0\.2, \+0\.8\] nats, in the best of 2 orders \(b\)",
        ),
        # Behind an interval above 0 nothing goes, though the loss falls again.
        ({"a": [0.0, -0.1, 0.2, -0.3]}, "1 of 3 heads"),
        ({"a": [0.0, 0.1, -0.2, -0.3]}, "The first head removed, "),
        # A model that is better without any head is no lack of sentences.
        (
            {"a": [0.0, -0.1, -0.2, -3.0]},
            r"3 of 3 heads .* by -2\.5 \[-3\.0, -2\.0\] nats",
        ),
    ],
)
def test_heads_go_up_to_the_first_that_is_missed(lows: dict[str, list[float]], said: str) -> None:
    cumulative = pd.concat([curve(order, own) for order, own in lows.items()])
    (sentence,) = removable(cumulative, "nats")
    assert re.search(said, sentence)


def test_sentences_that_would_let_all_heads_go_say_nothing_of_which_can() -> None:
    cumulative = pd.concat([curve("a", [0.0, -0.1, 0.2, 0.3]), curve("b", [0.0, -0.1, -0.3, -0.4])])
    (sentence,) = removable(cumulative, "nats")
    assert sentence == "These sentences are too few to say which heads can be removed."


def planned(
    searched: tuple[float, float],
    band: tuple[float, float],
    *,
    bleu: bool,
    seen: float = 2.97,
    empty: float = 0.0,
    error: float = 0.7,
    kind: str = "next tokens",
) -> list[str]:
    """What is said of a searched plan and a band, each with its changes of BLEU and loss."""
    rows = [{"mechanism": "full", "bleu_change": math.nan, "loss_change": math.nan}]
    for name, (own, loss) in (("searched", searched), ("band", band)):
        rows.append({"mechanism": name, "budget": 3, "bleu_change": own, "loss_change": loss,
                     "setting": "none 8, ends 4", "visible_keys": seen,
                     "error": error if name == "searched" else 0.7})  # fmt: skip
    gain = band[1] - searched[1]
    rows[-1] |= {"loss_gain": gain, "loss_gain_low": gain - 1, "loss_gain_high": gain + 1}
    summary = pd.DataFrame(rows).astype({"budget": "Int64"})
    if not bleu:
        summary = summary.drop(columns="bleu_change")
    heads = pd.DataFrame({"budget": 3, "mechanism_family": ["none"] * 8 + ["ends"] * 4})
    heads["empty_fraction"] = [1.0] * 8 + [empty] * 2 + [0.0] * 2
    tables = {"summary": summary, "mechanisms": heads}
    return plan_answers(Result("plan", "plan", tables, details={"loss": kind}))


def test_a_searched_plan_that_loses_is_said_to_lose() -> None:
    first, second = planned((-9.2, 3.0), (-3.5, 2.9), bleu=True)
    assert first == "At 3 keys per row the searched plan changes the loss by +3.0 nats per token."
    assert second == (
        "The best of the others, band, changes it by +2.9: the loss of the plan is higher by 0.1000 "
        "[-0.9000, 1.1000], an interval that includes 0. Its 12 heads by family: none 8, ends 4 (none: left "
        "out)."
    )


def test_the_change_of_a_distance_is_not_in_nats() -> None:
    result = planned((-1.0, 0.2), (-3.5, 0.3), bleu=False, kind="cosine")
    assert result[0].endswith("changes the loss by +0.20 cosine distance.")


def test_a_searched_plan_that_is_best_without_doubt_is_said_to_gain() -> None:
    _, second = planned((-1.0, 1.0), (-3.5, 2.9), bleu=False)
    assert "the loss of the plan is lower by 1.9000 [0.9000, 2.9000]. Its" in second


def test_heads_of_other_families_with_mostly_empty_rows_are_told() -> None:
    *_, said = planned((-1.0, 1.0), (-3.5, 2.9), bleu=True, empty=0.51)
    assert said.endswith(
        "2 more have no key in more than half of the rows (empty_fraction in mechanisms.csv)."
    )
    *_, said = planned((-1.0, 1.0), (-3.5, 2.9), bleu=True, empty=0.5)
    assert said.endswith("(none: left out).")


def test_a_plan_that_is_a_baseline_is_said_to_be_the_same() -> None:
    *_, said = planned((-1.0, 1.0), (-1.0, 1.0), bleu=False)
    assert said.startswith("It comes to the same figures as band. Its 12 heads")
    *_, said = planned((-1.0, 1.0), (-1.0, 1.0), bleu=False, error=0.71)
    assert "the same" not in said


def test_keys_that_a_searched_plan_leaves_are_explained() -> None:
    *_, said = planned((-1.0, 1.0), (-3.5, 2.9), bleu=True, seen=2.6)
    assert said.endswith(
        "It does not use the whole budget, since no other mechanism that was tried for a head and fits "
        "lowers the criterion on the validation sentences."
    )
    *_, used = planned((-1.0, 1.0), (-3.5, 2.9), bleu=True, seen=2.71)
    assert "whole budget" not in used


def pruning(measure: str, pruned: list[float], random: list[float | None]) -> pd.DataFrame:
    """A curve whose pruned models and random ones have these scores, at the penalties 0.1, 0.3 and so on."""
    rows = [("unpruned", None, 9.0)]
    for penalty, one, other in zip((0.1, 0.3, 1.0), pruned, random, strict=True):
        rows += [("pruned", penalty, one), ("random", penalty, other)]
    curve = pd.DataFrame(rows, columns=["kind", "penalty", measure]).dropna(subset=[measure])
    both = pd.concat(
        [curve.assign(split="test"), curve.assign(split="validation", **{measure: 0.0})]
    )
    blank = {"bleu": math.nan, "loss": 1.0, "loss_change": 9.0, "bleu_change": -9.0}
    return both.assign(
        head_count=6, heads_left=3, **{k: v for k, v in blank.items() if k != measure}
    )


@pytest.mark.parametrize(
    ("measure", "random", "named"),
    [
        ("bleu", [4.0, 6.0, 7.0], "penalty 1"),
        ("bleu", [5.0, 7.0, 7.0], "penalties 0.1, 0.3, 1"),
        ("bleu", [4.0, 5.0, None], None),
        # A loss is better where it is less.
        ("loss", [6.0, 5.0, 7.0], "penalty 0.3"),
    ],
)
def test_a_pruning_says_where_random_heads_do_as_well(
    measure: str, random: list[float | None], named: str | None
) -> None:
    curve = pruning(measure, [5.0, 6.5 if measure == "bleu" else 6.0, 6.0], random)
    _, *said = prune_answers(Result("prune", "pruning", {"curve": curve}))
    sentence = (
        f"At {named} the heads that the gates closed cost no less on the test part than as many random ones "
        "(one draw)."
    )
    assert said == ([] if named is None else [sentence])


def test_one_head_is_no_heads() -> None:
    assert count_labels(pd.DataFrame({"labels": ["sink"]})) == "1 sink (1 head)"


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ([0.5, 0.0004], ["0.50", "0.00"]),
        ([3e-5, -1.2e-6], ["0.000030", "-0.000001"]),
        ([0.0, 0.0], ["0.0000", "0.0000"]),
        ([math.nan, math.nan], ["", ""]),
    ],
)
def test_small_changes_are_shown_with_digits_of_their_own(
    changes: list[float], shown: list[str]
) -> None:
    column = readable(LOSS_CHANGE.column, pd.DataFrame({LOSS_CHANGE.name: changes}))
    assert [column.shown(value) for value in changes] == shown
