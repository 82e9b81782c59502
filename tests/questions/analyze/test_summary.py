"""The table of heads that an analysis ends with."""

import math
from collections.abc import Collection

import pandas as pd
import pytest

from attnlab.core.addresses import Head
from attnlab.labels.label_columns import CONTROLS as CONTROLS_TABLE
from attnlab.questions.analyze.figures import draw_heads
from attnlab.questions.analyze.head_table import (
    describe_heads,
    describe_roles,
    first_table,
    head_rows,
    legend,
    titled_heads,
)
from attnlab.questions.analyze.question import SUMMARY
from attnlab.questions.analyze.summary import closest_roles, marked, summarise_heads

HEADS = pd.DataFrame({"site": ["encoder"] * 4, "layer": [0] * 4, "head": [0, 1, 2, 3]})
COUNTED = HEADS.assign(rows=9, empty_rows=[0, 3, 0, 0])
NAN = float("nan")
LABELS = HEADS.assign(
    function=["positional", "sink", "syntactic", "broad"],
    detail=["offset +1", "first token", "case head>dependent", ""],
    statistic=["argmax_rate", "mean_mass_fraction", "argmax_accuracy", "mean_normalised_entropy"],
    value=[0.95, 0.9, 0.4, 0.1],
    status=["confirmed", "confirmed", "borderline", "rejected"],
    significance=["confirmed", "rejected", "borderline", "rejected"],
    strength=[1.2, NAN, 0.4, -0.3],
    significant_labels=["positional", "unknown", "unknown", "unknown"],
)
WITHOUT_CONTROLS = {"significance": "not compared", "significant_labels": "not compared"}
CONTROLS = pd.concat(
    HEADS.assign(
        label=label, control=control, control_kind=kind, untrained_value=0.2, shuffled_value=0.35
    )
    for label, control, kind in (
        ("positional", NAN, ""), ("sink", 0.25, "equal rows"), ("syntactic", 0.3, "best offset"),
        ("broad", NAN, ""),
    )
)  # fmt: skip


def legend_words(rows: pd.DataFrame) -> dict[str, str]:
    return dict(pair for line in legend(rows) for pair in line)


def summary(
    labels: pd.DataFrame = LABELS, heads: pd.DataFrame = COUNTED, closed: Collection[Head] = ()
) -> pd.DataFrame:
    return summarise_heads(
        heads, structure=pd.DataFrame(), labels=labels, controls=CONTROLS, closed=closed
    )


def test_a_head_is_shown_with_its_closest_role_and_how_close_it_is() -> None:
    found = summary(LABELS)
    assert list(found["role"]) == ["positional", "sink", "syntactic", "none"]
    assert list(found["strength"]) == [1, 1, 0.4, 0], "between 0 and 1"
    assert list(found["confirmed"]) == [True, True, False, False]
    assert list(found["significant"]) == [True, False, False, False]
    assert list(found["detail"])[2:] == ["case head>dependent", ""]
    assert list(found["control_kind"]) == ["untrained twin", "equal rows", "best offset", ""]
    assert list(found["control"][:3]) == [0.2, 0.25, 0.3]
    assert list(marked(found)) == [True, False, False, False]


def test_without_controls_nothing_is_said_of_significance_and_what_is_confirmed_is_marked() -> None:
    found = summary(LABELS.assign(**WITHOUT_CONTROLS))
    assert "significant" not in found
    assert list(marked(found)) == [True, True, False, False]
    assert list(head_rows(found)["mark"]) == ["(✓)", "(✓)", "", ""]
    words = legend_words(head_rows(found))
    assert words["(✓)"] == "above threshold, no control"
    assert "✓" not in words
    (key,) = draw_heads(found).legends
    assert (
        key.get_title().get_text() == "pale: not confirmed; controls were left out; bar: strength"
    )


def test_a_strength_that_could_not_be_measured_is_not_shown_as_0() -> None:
    too_few = LABELS.assign(
        status="undecided", significance="undecided", strength=[0.4, NAN, 0.0, NAN]
    )
    found = summary(too_few)
    assert list(found["role"]) == ["positional", "none", "none", "none"]
    assert list(found["strength"].fillna(-1)) == [0.4, -1, 0, -1]
    shown = head_rows(found)
    assert list(shown["role_figure"]) == ["offset +1 95%", "none", "none", "none"]


@pytest.mark.parametrize(("strength", "name"), [(0.24, "none"), (0.25, "case head>dependent 40%")])
def test_a_role_is_named_from_a_quarter_of_the_way_on(strength: float, name: str) -> None:
    found = summary(LABELS.assign(strength=strength))
    assert head_rows(found)["role_figure"][2] == name
    assert found["role"][2] == "syntactic", "the file keeps the closest role"
    assert found["strength"][2] == strength


def test_a_relation_alone_is_compared_with_shuffled_words() -> None:
    found = summary(LABELS.assign(unit=["sentences", "sentences", "links", "sentences"]))
    assert list(found["control_kind"]) == ["untrained twin", "equal rows", "shuffled words", ""]
    assert list(head_rows(found)["control_figure"]) == [
        "untrained twin 20%", "equal rows 25%", "shuffled words 35%", "",
    ]  # fmt: skip


def test_a_legend_of_five_short_lines_says_what_the_table_means() -> None:
    loss = dict.fromkeys(
        ("ablation_loss_change", "ablation_loss_change_low", "ablation_loss_change_high"), 0.5
    )
    found = summary(BROAD).assign(**loss, structure="diffuse", structure_tie=True)
    rows, _ = first_table(found)
    lines = legend(rows)
    assert len(lines) == 5
    assert all(len("; ".join(map(": ".join, line))) <= 80 for line in lines)
    assert {"✓", "(✓)"} < legend_words(rows).keys()
    assert SUMMARY["role"].narrow == "closest role"
    assert SUMMARY["control"].heading == CONTROLS_TABLE["control"].heading == "control"


@pytest.mark.parametrize(("half", "digits"), [(0.5, 1), (0.02, 3), (0.0006, 4), (3.0, 1)])
def test_a_loss_has_the_decimals_that_its_interval_can_carry(half: float, digits: int) -> None:
    loss = {
        "ablation_loss_change": 1.0,
        "ablation_loss_change_low": 1 - half,
        "ablation_loss_change_high": 1 + half,
    }
    *_, column = first_table(summary(LABELS).assign(**loss))[1]
    assert (column.name, column.digits) == ("ablation_loss_change", digits)


def test_what_was_not_measured_has_no_columns() -> None:
    assert list(summary(pd.DataFrame())) == ["site", "layer", "head"]


def test_heads_without_output_are_marked_and_have_no_role_without_weight() -> None:
    found = summary(LABELS, COUNTED.assign(empty_rows=[9, 3, 0, 0]), closed=[Head("encoder", 0, 2)])
    assert list(found["output"]) == ["none", "", "pruned", ""]
    assert list(found["role"]) == ["none", "sink", "syntactic", "none"]
    assert not found["confirmed"][0]
    assert math.isnan(found["strength"][0])
    assert "output" not in summary(LABELS), "all heads are whole"


def test_terminal_page_map_and_sentence_count_alike() -> None:
    found = summary(LABELS)
    shown, columns = first_table(found)
    assert list(shown["mark"]) == ["✓", "", "", ""]
    assert list(shown["role_figure"]) == [
        "offset +1 95% ✓", "first token 90%", "case head>dependent 40%", "none",
    ]  # fmt: skip
    assert "output" not in [column.name for column in columns]
    assert describe_roles(found) == (
        "1 of 4 heads has a role that is confirmed against controls: 1 positional."
    )


BROAD = LABELS.assign(
    function=["broad", "sink", "broad", "sink"],
    status=["confirmed", "confirmed", "confirmed", "rejected"],
    significance=["not compared", "confirmed", "not compared", "rejected"],
    strength=[1, 1, 1, 0.5],
)


def test_a_role_that_no_control_is_compared_with_is_not_significant_and_is_counted_apart() -> None:
    found = summary(BROAD)
    assert list(found["confirmed"]) == [True, True, True, False]
    assert list(found["significant"]) == [False, True, False, False]
    assert list(head_rows(found)["mark"]) == ["(✓)", "✓", "(✓)", ""]
    assert describe_roles(found) == (
        "1 of 4 heads has a role that is confirmed against controls: 1 sink; "
        "2 broad are confirmed without a control."
    )
    one = describe_roles(found.iloc[:1])
    assert one.endswith("controls; 1 broad is confirmed without a control.")
    assert "(✓)" not in legend_words(head_rows(found.iloc[1:2]))
    assert describe_roles(found.iloc[1:2]).endswith("controls: 1 sink.")


def test_heads_of_an_untrained_model_that_are_broad_are_no_finding() -> None:
    found = summary(BROAD.assign(function="broad", status="confirmed", significance="not compared"))
    assert not found["significant"].any()
    assert describe_roles(found) == (
        "0 of 4 heads have a role that is confirmed against controls; "
        "4 broad are confirmed without a control."
    )
    (key,) = draw_heads(found).legends
    assert key.get_title().get_text() == "pale: not confirmed against controls; bar: strength"
    quick = summary(BROAD.assign(function="broad", status="confirmed", **WITHOUT_CONTROLS))
    assert describe_roles(quick) == "4 of 4 heads have a role that is confirmed: 4 broad."


@pytest.mark.parametrize("control", [NAN, 0.3, 0.2])
@pytest.mark.parametrize("structure", ["diffuse", "column"])
@pytest.mark.parametrize("controls", [True, False])
def test_without_controls_a_diffuse_head_has_no_role_that_is_not_above_a_control_of_its_own(
    control: float, structure: str, controls: bool
) -> None:
    labels = LABELS.assign(function="sink", value=0.25, status="rejected", strength=0.4)
    labels = labels.assign(significance="rejected", structure=structure)
    labels = labels if controls else labels.assign(**WITHOUT_CONTROLS)
    of_sink = HEADS.assign(label="sink", control=control)
    found = closest_roles(labels, of_sink)
    none = structure == "diffuse" and not controls and control != 0.2
    assert set(found["role"]) == {"none" if none else "sink"}
    assert set(found["strength"]) == {0 if none else 0.4}


def test_heads_are_titled_by_a_role_that_has_a_mark() -> None:
    titles = titled_heads(summary(BROAD).assign(structure="band"))
    assert list(titles.values()) == [
        "encoder.0.0\nrole: broad", "encoder.0.1\nrole: sink", "encoder.0.2\nrole: broad",
        "encoder.0.3\nshape: band",
    ]  # fmt: skip


def test_the_head_that_is_needed_most_is_said_where_an_interval_lies_above_0() -> None:
    change = {"ablation_loss_change": [0.3, 0.2, 0.1, 0.0], "ablation_loss_change_high": 0.5}
    found = summary(LABELS).assign(**change, ablation_loss_change_low=[-0.1, 0.1, 0.05, -0.2])
    *_, said = describe_heads(found)
    assert said == "The loss rises most without encoder.0.1, by 0.20 nats per token."
    assert len(describe_heads(found.assign(ablation_loss_change_low=-0.1))) == 1
    small = found.assign(ablation_loss_change=found["ablation_loss_change"] / 10_000)
    assert describe_heads(small)[-1].endswith("without encoder.0.1, by 2e-05 nats per token.")


def test_the_first_table_has_the_same_columns_whatever_the_heads_are() -> None:
    for statuses in ("rejected", "confirmed"):
        found = summary(LABELS.assign(status=statuses, significance=statuses, strength=0.2))
        names = [column.name for column in first_table(found)[1]]
        assert names == ["head_name", "role_figure", "control_figure"]
