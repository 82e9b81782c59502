"""The table of heads that an analysis ends with."""

import math
from collections.abc import Collection

import pandas as pd
import pytest

from attnlab.core.addresses import Head
from attnlab.labels.label_columns import CONTROLS as CONTROLS_TABLE
from attnlab.labels.label_tables import with_strength
from attnlab.questions.analyze.figures import draw_heads
from attnlab.questions.analyze.head_phrases import (
    describe_heads,
    describe_roles,
    evidence_phrase,
    heads_shown,
    titled_heads,
    words_of_heads,
)
from attnlab.questions.analyze.question import SUMMARY
from attnlab.questions.analyze.summary import closest_roles, marked, summarise_heads
from attnlab.questions.analyze.view import legend

HEADS = pd.DataFrame({"site": ["encoder"] * 4, "layer": [0] * 4, "head": [0, 1, 2, 3]})
COUNTED = HEADS.assign(rows=9, empty_rows=[0, 3, 0, 0])
NAN = float("nan")
LABELS = HEADS.assign(
    function=["positional", "sink", "syntactic", "broad"],
    detail=["offset +1", "opening", "case head>dependent", ""],
    statistic=["argmax_rate", "mean_mass_fraction", "argmax_accuracy", "mean_normalised_entropy"],
    value=[0.95, 0.9, 0.4, 0.1],
    status=["confirmed", "confirmed", "borderline", "rejected"],
    significance=["confirmed", "rejected", "borderline", "rejected"],
    strength=[1.2, NAN, 0.4, -0.3],
    significant_labels=["positional", "unknown", "unknown", "unknown"],
)
WITHOUT_CONTROLS = {"significance": "not compared", "significant_labels": "not compared"}
CONTROLS = pd.concat(
    HEADS.assign(label=label, control=control)
    for label, control in (("positional", NAN), ("sink", NAN), ("syntactic", 0.3), ("broad", NAN))
)


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
    assert found["control"][2] == 0.3
    assert list(marked(found)) == [True, False, False, False]


def test_without_controls_nothing_is_said_of_significance_and_what_is_confirmed_is_marked() -> None:
    found = summary(LABELS.assign(**WITHOUT_CONTROLS))
    assert "significant" not in found
    assert list(marked(found)) == [True, True, False, False]
    shown, _ = heads_shown(found)
    assert list(shown["mark"]) == ["(✓)", "(✓)", "", ""]
    words = dict(words_of_heads(found))
    assert words["(✓)"] == "confirmed; controls were left out"
    assert "untrained" not in words["strength"]
    assert "untrained" in dict(words_of_heads(summary(LABELS)))["strength"]
    assert "✓" not in words
    texts = [text.get_text() for text in draw_heads(found).texts]
    assert "pale: not confirmed; controls were left out" in texts


def test_a_strength_that_could_not_be_measured_is_not_shown_as_0() -> None:
    too_few = LABELS.assign(
        status="undecided", significance="undecided", strength=[0.4, NAN, 0.0, NAN]
    )
    found = summary(too_few)
    assert list(found["role"]) == ["positional", "none", "none", "none"]
    assert list(found["strength"].fillna(-1)) == [0.4, -1, 0, -1]
    assert dict(words_of_heads(found))["strength"].endswith(", empty where too little was counted")
    assert "empty" not in dict(words_of_heads(summary(LABELS)))["strength"]


def test_the_baseline_is_explained_where_a_role_has_one() -> None:
    found = summary(LABELS)
    relation = found["role"] == "syntactic"
    assert "baseline" in dict(words_of_heads(found[relation]))
    assert "baseline" not in dict(words_of_heads(found[~relation]))


@pytest.mark.parametrize("deciding", [True, False])
def test_the_figure_that_decides_the_strength_is_shown(*, deciding: bool) -> None:
    """A rule of two figures has the strength of the lesser one; else the first figure says it all."""
    second = 0.62 if deciding else 0.9
    verdict = HEADS.iloc[:1].assign(
        label="syntactic", detail="case head>dependent", statistic="argmax_accuracy", value=0.71,
        threshold=0.66, control=0.56, second_statistic="argmax_accuracy_choosing",
        second_value=second, second_threshold=0.66, second_control=0.56,
        status="borderline", significance="borderline",
    )  # fmt: skip
    controls = with_strength(verdict)
    labels = controls.drop(columns=["control", "second_control"]).rename(
        columns={"label": "function"}
    )
    labels = labels.assign(significant_labels="unknown")
    (row,) = closest_roles(labels, controls).itertuples(index=False)
    if deciding:
        assert row.strength == pytest.approx(0.6)
    share, half = (62, " (choosing half)") if deciding else (71, "")
    assert evidence_phrase(row) == f"case: head to dependent {share} %, baseline 56 %{half}"
    assert ("choosing half" in dict(words_of_heads(closest_roles(labels, controls)))) is deciding
    assert pd.notna(row.second_value) == deciding


def test_the_legend_of_the_terminal_says_what_strength_and_marks_mean() -> None:
    loss = dict.fromkeys(("loss_change", "loss_change_low", "loss_change_high"), 0.5)
    table = summary(LABELS).assign(**loss, structure="diffuse", structure_tie=True)
    lines = legend(table).splitlines()
    assert lines[0] == (
        "strength: 0 at the control (baseline, untrained model), 1 at the threshold"
    )
    assert "†: 95 % interval without 0, not corrected for 4 heads" in "; ".join(lines)
    assert "*" not in "".join(lines), "in importance it stands for a corrected test"
    assert max(map(len, lines[1:])) <= 80
    assert SUMMARY["role"].narrow == "closest role"
    assert SUMMARY["control"].heading == CONTROLS_TABLE["control"].heading == "baseline"


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
    shown, columns = heads_shown(found)
    assert list(shown["mark"]) == ["✓", "", "", ""]
    assert list(shown["evidence"]) == [
        "offset +1 in 95 %", "weight on the start token 90 %",
        "case: head to dependent 40 %, baseline 30 %", "",
    ]  # fmt: skip
    assert "output" not in [column.name for column in columns]
    assert describe_roles(found) == (
        "1 of 4 heads has a role that is confirmed and significant against controls: 1 positional."
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
    assert list(heads_shown(found)[0]["mark"]) == ["(✓)", "✓", "(✓)", ""]
    assert describe_roles(found) == (
        "1 of 4 heads has a role that is confirmed and significant against controls: 1 sink; "
        "2 broad are confirmed, which no control is compared with."
    )
    words = dict(words_of_heads(found))
    assert words["✓"] == "confirmed, significant against controls"
    assert words["(✓)"] == "confirmed; no control is compared with broad"
    one = describe_roles(found.iloc[:1])
    assert "controls; 1 broad is confirmed, which no control" in one
    assert "(✓)" not in dict(words_of_heads(found.iloc[1:2]))
    assert describe_roles(found.iloc[1:2]).endswith("controls: 1 sink.")


def test_heads_of_an_untrained_model_that_are_broad_are_no_finding() -> None:
    found = summary(BROAD.assign(function="broad", status="confirmed", significance="not compared"))
    assert not found["significant"].any()
    assert describe_roles(found) == (
        "0 of 4 heads have a role that is confirmed and significant against controls; "
        "4 broad are confirmed, which no control is compared with."
    )
    texts = [text.get_text() for text in draw_heads(found).texts]
    assert "pale: not confirmed and significant" in texts
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
        "encoder.0.3\nstructure: band",
    ]  # fmt: skip


def test_the_head_that_is_needed_most_is_said_where_an_interval_lies_above_0() -> None:
    change = {"loss_change": [0.3, 0.2, 0.1, 0.0], "loss_change_high": 0.5}
    found = summary(LABELS).assign(**change, loss_change_low=[-0.1, 0.1, 0.05, -0.2])
    *_, said = describe_heads(found)
    assert said == "The loss rises most without encoder.0.1, by 0.2000 nats per token."
    assert len(describe_heads(found.assign(loss_change_low=-0.1))) == 1
    small = found.assign(loss_change=found["loss_change"] / 10_000)
    assert describe_heads(small)[-1].endswith("without encoder.0.1, by 2e-05 nats per token.")


def test_columns_that_never_vary_are_left_out() -> None:
    nothing = LABELS.assign(status="rejected", significance="rejected", strength=0.2)
    names = [column.name for column in heads_shown(summary(nothing))[1]]
    assert names == ["head_name", "role", "strength", "evidence"]


def test_the_mark_is_shown_where_every_head_has_it_and_controls_were_left_out() -> None:
    """Of an analysis with --quick, whose mark is another one."""
    found = summary(LABELS).assign(confirmed=True).drop(columns="significant")
    shown, columns = heads_shown(found)
    assert set(shown["mark"]) == {"(✓)"}
    assert "mark" in [column.name for column in columns]


def test_the_mark_is_shown_wherever_some_head_has_it() -> None:
    for number in range(5):
        status = ["confirmed"] * number + ["rejected"] * (4 - number)
        found = summary(LABELS.assign(status=status, significance=status, strength=0.2))
        shown, columns = heads_shown(found)
        marks = ["✓", "✓", "✓", "(✓)"]
        assert list(shown["mark"]) == marks[:number] + [""] * (4 - number)
        assert ("mark" in [column.name for column in columns]) == (number > 0)
