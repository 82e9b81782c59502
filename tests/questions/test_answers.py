"""What pages say of tables in sentences."""

import re

import pandas as pd
import pytest

from attnlab.questions.analyze.head_phrases import count_labels, describe_agreement
from attnlab.questions.importance.view import removable
from attnlab.questions.plan.view import planning_answers


def curve(order: str, lows: list[float]) -> pd.DataFrame:
    return pd.DataFrame(
        {"order": order, "heads_removed": range(len(lows)), "loss_change_low": lows}
    )


@pytest.mark.parametrize(
    ("lows", "said"),
    [
        ({"a": [0.0, -0.1, 0.2, 0.3], "b": [0.0, -0.1, -0.1, 0.3]}, "2 of 3 heads .*order: b"),
        # Behind an interval above 0 nothing goes, though the loss falls again.
        ({"a": [0.0, -0.1, 0.2, -0.3]}, "1 of 3 heads"),
        ({"a": [0.0, 0.1, -0.2, -0.3]}, "Already the first head"),
    ],
)
def test_heads_go_up_to_the_first_that_is_missed(lows: dict[str, list[float]], said: str) -> None:
    cumulative = pd.concat([curve(order, own) for order, own in lows.items()])
    (sentence,) = removable(cumulative)
    assert re.search(said, sentence)
    assert sentence.endswith(", on the half of the sentences that did not choose the order.")


def planned(searched: tuple[float, float], band: tuple[float, float], *, bleu: bool) -> list[str]:
    """What is said of a searched plan and a band, each with its BLEU and its loss."""
    rows = [{"plan": "full", "bleu": 30.0, "loss": 1.0, "error": 0.0}]
    for name, (own, loss), error in (("searched", searched, 0.7), ("band", band, 1.2)):
        rows.append({"plan": name, "budget": 3, "bleu": own, "loss": loss, "error": error,
                     "written": "none 8, ends 4"})  # fmt: skip
    for name, gain in (("bleu", searched[0] - band[0]), ("loss", band[1] - searched[1])):
        ends = {"": gain, "_low": gain - 1, "_high": gain + 1}
        rows[-1] |= {f"{name}_gain{end}": value for end, value in ends.items()}
    scores = pd.DataFrame(rows).astype({"budget": "Int64"})
    if not bleu:
        scores = scores.drop(columns=[name for name in scores if name.startswith("bleu")])
    heads = pd.DataFrame({"budget": 3, "family": ["none"] * 8 + ["ends"] * 4})
    return planning_answers(scores, heads)


def test_a_searched_plan_that_loses_is_said_to_lose() -> None:
    (said,) = planned((0.2, 3.0), (3.5, 2.9), bleu=True)
    assert said == (
        "At 3 keys per row band is best by BLEU on these sentences: 3.5. The searched plan (none 8, ends 4) "
        "has 0.2; it loses 3.3 BLEU to it (95 % interval of its gain [-4.3, -2.3]). Its error is 0.700; the "
        "least of a baseline is 1.200 (band). Of its 12 heads, 8 are left out (none)."
    )


def test_plans_without_bleu_are_ranked_by_loss() -> None:
    (said,) = planned((9.0, 3.0), (3.5, 2.9), bleu=False)
    assert "band is best by loss on these sentences: 2.900." in said
    assert (
        "it loses 0.100 nats per token to it (95 % interval of its gain [-1.100, +0.900], which"
        in said
    )
    (said,) = planned((1.0, 2.0), (3.5, 2.9), bleu=False)
    assert (
        "is best by loss on these sentences: 2.000, the next (band) 2.900; it gains 0.900" in said
    )


def test_a_searched_plan_that_is_best_is_beside_the_next() -> None:
    (said,) = planned((5.0, 3.0), (3.5, 2.9), bleu=True)
    assert (
        "the searched plan (none 8, ends 4) is best by BLEU on these sentences: 5.0, the next"
        in said
    )
    assert "(band) 3.5; it gains 1.5 BLEU over it (95 % interval of its gain [+0.5, +2.5])" in said


def test_nothing_to_count_is_not_counted_and_one_head_is_no_heads() -> None:
    figures = {"kappa": float("nan"), "kappa_low": float("nan"), "kappa_high": float("nan")}
    assert not describe_agreement(pd.DataFrame([figures | {"labelled_heads": 1, "heads": 1}]))
    assert not describe_agreement(pd.DataFrame())
    figures = {
        "kappa": 0.5, "kappa_low": 0.1, "kappa_high": 0.9,
        "labelled_heads": 1, "heads": 1, "undecided_heads": 0,
    }  # fmt: skip
    assert describe_agreement(pd.DataFrame([figures])) == (
        "Function and structure agree with kappa 0.50, 95 % interval 0.10 to 0.90 in the 1 head whose "
        "structure is no tie, 1 of them with a label."
    )
    some = figures | {"labelled_heads": 8, "heads": 15, "undecided_heads": 2}
    assert describe_agreement(pd.DataFrame([some])).endswith(
        "in the 15 heads whose structure is no tie and of which enough was counted, 8 of them with a "
        "label."
    )
    assert count_labels(pd.DataFrame({"labels": ["sink"]})) == "1 sink (1 head)"
