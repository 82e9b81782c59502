"""Labels from verdicts and controls beside them."""

import itertools
import math

import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from labels.planting import (
    at_offset,
    attend,
    facts_of,
    layer_of,
    make_batch,
    random_attention,
)

from attnlab.labels.counting import (
    OWN_LABELS,
    count_functions,
    decide_functions,
    relations_of_layer,
)
from attnlab.labels.label_tables import (
    compare_controls,
    compare_relations,
    label_table,
    strongest_functions,
    with_strength,
)
from attnlab.labels.verdict import BORDERLINE, CONFIRMED, NOT_COMPARED, REJECTED, UNDECIDED, Verdict
from attnlab.reading.weights import VIEWS


def verdicts_on(weights, batch, ranks) -> pd.DataFrame:
    counts = count_functions(layer_of(weights, batch), facts_of(batch, ranks))
    assert relations_of_layer(counts).empty
    verdicts = decide_functions(counts)
    return verdicts.assign(site="encoder", layer=0)


def test_heads_get_all_labels_that_hold_and_unknown_otherwise() -> None:
    batch = make_batch()
    generator = torch.Generator().manual_seed(0)
    ranks = torch.randint(400, 2000, batch.visible.shape, generator=generator)
    uniform = batch.scope.seen / batch.scope.seen.sum(-1, keepdim=True).clamp_min(1)
    rare = ranks.masked_fill(~batch.ordinary, -1).argmax(1, keepdim=True).expand_as(ranks)
    back = attend(at_offset(batch, -1), batch.scope.seen, 0.8)
    heads = [
        back,
        attend(rare, batch.scope.seen, 0.8),
        uniform,
        random_attention(batch, heads=1)[:, 0],
        attend(torch.zeros_like(rare), batch.scope.seen, 0.8),
    ]
    table = label_table(verdicts_on(torch.stack(heads, 1), batch, ranks))
    assert table["head"].tolist() == [0, 1, 2, 3, 4]
    assert table.labels.tolist() == ["positional", "rare tokens", "broad", "unknown", "sink"]


def verdicts_of(**statuses: list[str]) -> pd.DataFrame:
    rows = [
        ("encoder", 1, head, label, status)
        for label, heads in statuses.items()
        for head, status in enumerate(heads)
    ]
    table = pd.DataFrame(rows, columns=["site", "layer", "head", "label", "status"])
    return _with_one_figure(
        table.assign(detail="", value=0.5, value_low=0.45, value_high=0.55, threshold=0.4)
    )


def _with_one_figure(table: pd.DataFrame) -> pd.DataFrame:
    second = ("second_value", "second_threshold", "second_control")
    return table.assign(control=math.nan, second_statistic="", **dict.fromkeys(second, math.nan))


def test_first_label_is_the_first_of_the_list() -> None:
    table = label_table(
        verdicts_of(
            sink=[CONFIRMED, CONFIRMED, REJECTED], positional=[CONFIRMED, BORDERLINE, BORDERLINE]
        )
    )
    assert table.labels.tolist() == ["positional; sink", "sink", "unknown"]
    assert table.label.tolist() == ["positional", "sink", "unknown"]
    assert table.borderline.tolist() == ["", "positional", "positional"]


def test_a_head_without_a_label_is_undecided_as_long_as_one_of_them_may_yet_hold() -> None:
    table = label_table(
        verdicts_of(
            sink=[UNDECIDED, UNDECIDED, CONFIRMED, REJECTED, UNDECIDED],
            positional=[UNDECIDED, REJECTED, UNDECIDED, REJECTED, BORDERLINE],
        )
    )
    assert table.labels.tolist() == ["undecided", "undecided", "sink", "unknown", "undecided"]
    assert table.undecided.tolist() == ["positional; sink", "sink", "positional", "", "sink"]


def test_label_that_an_untrained_model_has_too_does_not_stand() -> None:
    compared = compare_controls(
        {
            "model": verdicts_of(
                sink=[CONFIRMED, CONFIRMED, REJECTED, CONFIRMED, BORDERLINE, CONFIRMED, UNDECIDED]
            ),
            "untrained": verdicts_of(
                sink=[CONFIRMED, REJECTED, CONFIRMED, BORDERLINE, REJECTED, UNDECIDED, UNDECIDED]
            ),
            "shuffled": verdicts_of(sink=[CONFIRMED] * 7).assign(value=0.1),
        }
    )
    assert compared.significance.tolist() == [
        REJECTED,
        CONFIRMED,
        REJECTED,
        BORDERLINE,
        BORDERLINE,
        UNDECIDED,
        UNDECIDED,
    ]
    assert compared.significant.tolist() == [False, True, False, False, False, False, False]
    assert compared.shuffled_value.tolist() == [0.1] * 7
    assert compared.shuffled_status.tolist() == [CONFIRMED] * 7


def relations_of(
    accuracy: list[float], statuses: list[str], *, width: float = 0.04
) -> pd.DataFrame:
    rows = [("encoder", 2, head, "obj", "dependent>head") for head in range(len(accuracy))]
    table = pd.DataFrame(rows, columns=["site", "layer", "head", "relation", "direction"])
    table = table.assign(accuracy=accuracy, status=statuses, baseline=0.4)
    return table.assign(
        accuracy_low=table["accuracy"] - width, accuracy_high=table["accuracy"] + width
    )


def test_relation_that_the_words_alone_explain_does_not_stand() -> None:
    # Head 1 does as well on shuffled words, head 2 almost; head 3 follows when untrained too.
    compared = compare_relations(
        relations_of(
            [0.7, 0.7, 0.7, 0.7, 0.45], [CONFIRMED, CONFIRMED, CONFIRMED, CONFIRMED, REJECTED]
        ),
        relations_of(
            [0.2, 0.7, 0.61, 0.2, 0.1], [CONFIRMED, CONFIRMED, CONFIRMED, CONFIRMED, REJECTED]
        ),
        relations_of(
            [0.1, 0.1, 0.1, 0.6, 0.1], [REJECTED, REJECTED, REJECTED, CONFIRMED, REJECTED]
        ),
    )
    assert compared.significance.tolist() == [CONFIRMED, REJECTED, BORDERLINE, REJECTED, REJECTED]
    assert compared.significant.tolist() == [True, False, False, False, False]
    # Newcombe: 0.7 - 0.2 and the root of twice 0.04 squared to either side.
    assert compared.gain_over_shuffled_low[0] == pytest.approx(0.5 - 0.04 * math.sqrt(2))
    assert compared.gain_over_shuffled_high[0] == pytest.approx(0.5 + 0.04 * math.sqrt(2))


def test_label_is_held_against_the_relation_it_rests_on() -> None:
    def verdicts(details: list[str], values: list[float], status: list[str]) -> pd.DataFrame:
        rows = [("encoder", 2, head, "syntactic") for head in range(len(details))]
        table = pd.DataFrame(rows, columns=["site", "layer", "head", "label"])
        table = table.assign(detail=details, value=values, threshold=0.5, status=status)
        return _with_one_figure(table.assign(value_low=table["value"], value_high=table["value"]))

    obj, det = "obj dependent>head", "det dependent>head"
    # The controls' best relation is another one; head 2 rests on no relation that was counted.
    tables = {
        "model": verdicts(
            [obj, obj, det, obj], [0.7, 0.7, 0.6, 0.4], [CONFIRMED, CONFIRMED, CONFIRMED, REJECTED]
        ),
        "untrained": verdicts([det] * 4, [0.9] * 4, [CONFIRMED, CONFIRMED, REJECTED, REJECTED]),
        "shuffled": verdicts([det] * 4, [0.8] * 4, [CONFIRMED] * 4),
    }
    relations = relations_of(
        [0.7, 0.7, 0.2, 0.4], [CONFIRMED, CONFIRMED, REJECTED, REJECTED]
    ).assign(
        untrained_accuracy=[0.1, 0.2, 0.3, 0.4],
        shuffled_accuracy=[0.5, 0.6, 0.7, 0.8],
        significance=[CONFIRMED, REJECTED, REJECTED, CONFIRMED],
        **{
            f"{name}_{what}": REJECTED if what == "status" else 0.1
            for name in ("untrained", "shuffled")
            for what in ("accuracy_low", "accuracy_high", "status")
        },
    )
    compared = compare_controls(tables, relations)
    assert compared.untrained_value.tolist() == [0.1, 0.2, 0.9, 0.4]
    assert compared.shuffled_value.tolist() == [0.5, 0.6, 0.8, 0.8]
    assert compared.significant.tolist() == [True, False, True, False], "the last does not hold"
    assert compared.untrained_value_low.tolist() == [0.1, 0.1, 0.9, 0.1]
    # The third is significant, so it has reached its label; the last is where the untrained head is.
    assert compared.strength.tolist() == [1, 1, 1, 0]
    plain = compare_controls(tables)
    assert plain.significant.tolist() == [False, False, True, False]


def controls_of(*rows: dict) -> pd.DataFrame:
    """Rows of controls.csv, a head each; what is not given is missing."""
    none = dict.fromkeys([*Verdict.__dataclass_fields__, "untrained_value"], math.nan)
    named = {"site": "encoder", "layer": 0, "detail": "", "second_statistic": ""}
    status = {"status": REJECTED, "significance": REJECTED}
    return pd.DataFrame([none | {"head": n} | named | status | row for n, row in enumerate(rows)])


def positional(value: float, untrained: float, *, significance: str = REJECTED) -> dict:
    return {
        "label": "positional", "value": value, "threshold": 0.9, "untrained_value": untrained,
        "significance": significance,
    }  # fmt: skip


def test_strength_by_hand() -> None:
    rows_and_strengths = [
        (positional(0.85, math.nan), 0.85 / 0.9),
        (positional(0.85, 0.8), 0.5),
        (positional(0.85, 0.85), 0),
        (positional(0.85, 0.88), 0),
        (positional(0.85, 0.95), 0),
        (positional(0.97, 0.8), 1),
        (positional(0.97, 0.9), 0),
        (positional(0.97, 0.95), 0),
        (positional(0.97, 0.95, significance=CONFIRMED), 1),
        (positional(0.85, 0.1) | {"control": 0.8}, 0.5),
        (positional(0.85, 0.8) | {"control": 0.1}, 0.5),
        (positional(math.nan, 0.8), math.nan),
    ]
    rows, strengths = zip(*rows_and_strengths, strict=True)
    found = with_strength(controls_of(*rows))["strength"].tolist()
    assert found == pytest.approx(list(strengths), nan_ok=True)


def head_of(*rows: dict) -> str:
    """The closest role of one head of these labels."""
    controls = with_strength(controls_of(*rows)).assign(head=0)
    return strongest_functions(controls)["function"].item()


def row_of(label: str, value: float, status: str, significance: str, *, control: float = 0) -> dict:
    return {
        "label": label, "value": value, "threshold": 0.5, "control": control,
        "status": status, "significance": significance,
    }  # fmt: skip


@pytest.mark.parametrize("turned", [False, True])
def test_of_equal_strengths_the_first_by_precedence_is_shown(turned: bool) -> None:
    for first, second in itertools.pairwise(sorted(OWN_LABELS, key=lambda one: one.precedence)):
        pair = [row_of(one.name, 0.9, CONFIRMED, CONFIRMED) for one in (first, second)]
        assert head_of(*(pair[::-1] if turned else pair)) == first.name


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("enough", "few", "shown"),
    [
        ((0.3, 20, 20), (1.0, 1, 20), "sink"),
        # A figure that is not beyond its control is no nearer role.
        ((0.0, 20, 20), (1.0, 19, 20), "positional"),
        # What cannot be measured at all is no nearer role.
        ((math.nan, 20, 20), (1.0, 1, 20), "positional"),
        ((0.1, 1, 20), (1.0, 1, 20), "positional"),
    ],
)
def test_a_role_that_enough_was_counted_for_is_shown_before_the_others(
    enough: tuple[float, int, int], few: tuple[float, int, int], shown: str, turned: bool
) -> None:
    rows = [
        row_of(name, 0.5 * strength, REJECTED, REJECTED) | {"counted": counted, "needed": needed}
        for name, (strength, counted, needed) in (("sink", enough), ("positional", few))
    ]
    assert head_of(*(rows[::-1] if turned else rows)) == shown


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("shown", "other"),
    [
        (row_of("sink", 0.6, CONFIRMED, CONFIRMED), row_of("positional", 0.6, CONFIRMED, REJECTED)),
        (
            row_of("sink", 0.6, CONFIRMED, NOT_COMPARED),
            row_of("positional", 0.5, REJECTED, NOT_COMPARED),
        ),
        (row_of("sink", 0.6, CONFIRMED, REJECTED), row_of("positional", 0.6, REJECTED, REJECTED)),
        (
            row_of("sink", 0.48, BORDERLINE, BORDERLINE),
            row_of("positional", 0.49, REJECTED, REJECTED),
        ),
        (row_of("sink", 0.4, REJECTED, REJECTED), row_of("positional", 0.3, REJECTED, REJECTED)),
        (
            row_of("sink", 0.4, REJECTED, REJECTED),
            row_of("positional", 0.48, BORDERLINE, BORDERLINE, control=0.49),
        ),
    ],
)
def test_what_is_significant_confirmed_or_stronger_is_shown_first(
    shown: dict, other: dict, turned: bool
) -> None:
    assert head_of(*((other, shown) if turned else (shown, other))) == "sink"


@pytest.mark.parametrize("untrained", [math.nan, 0.2, 0.997])
@pytest.mark.parametrize("status", [REJECTED, BORDERLINE])
@pytest.mark.parametrize("significance", [None, NOT_COMPARED])
def test_an_unconfirmed_broad_head_is_shown_with_the_role_that_it_is_closer_to(
    untrained: float, status: str, significance: str | None
) -> None:
    broad = {
        "label": "broad", "value": 0.899, "threshold": 0.9, "untrained_value": untrained,
        "status": status, "significance": significance or status,
    }  # fmt: skip
    weak = row_of("sink", 0.01, REJECTED, significance or REJECTED)
    found = with_strength(controls_of(broad, weak, broad | {"value": math.nan}))["strength"]
    assert found.tolist() == pytest.approx([0, 0.02, math.nan], nan_ok=True)
    assert head_of(broad, weak) == "sink"
    confirmed = broad | {
        "value": 0.95,
        "status": CONFIRMED,
        "significance": significance or CONFIRMED,
    }
    assert with_strength(controls_of(confirmed))["strength"].tolist() == [1]
    assert head_of(weak, confirmed) == "broad"


SHARES = st.floats(0, 1)


@given(
    value=SHARES,
    controls=st.tuples(SHARES, SHARES),
    name=st.sampled_from(["control", "untrained_value", "second_control"]),
    second=st.tuples(SHARES, SHARES),
    significance=st.sampled_from([CONFIRMED, BORDERLINE, REJECTED, UNDECIDED]),
)
def test_a_stronger_control_never_raises_the_strength(
    value: float, controls: tuple, name: str, second: tuple, significance: str
) -> None:
    reached, asked = second
    row = positional(value, math.nan, significance=significance) | {
        "second_statistic": "another", "second_value": reached, "second_threshold": asked,
    }  # fmt: skip
    found = with_strength(controls_of(*(row | {name: control} for control in sorted(controls))))
    weak, strong = found["strength"]
    assert 0 <= strong <= weak <= 1
    mine, theirs = (reached, asked) if name == "second_control" else (value, 0.9)
    highest = max(controls)
    if significance != CONFIRMED and (
        highest >= mine or (name == "untrained_value" and highest >= theirs)
    ):
        assert strong == 0


def test_counts_of_a_layer_add_up_with_and_without_links() -> None:
    batch = make_batch()
    weights = random_attention(batch)
    ranks = torch.zeros_like(batch.visible).long()
    counts = count_functions(layer_of(weights, batch), facts_of(batch, ranks))
    total = counts + counts
    assert not {"syntactic", "alignment"} & {label for label, _ in total}
    for keys in VIEWS:
        one, other = counts["positional", keys], total["positional", keys]
        assert torch.equal(other.at_offset.numerator, 2 * one.at_offset.numerator)
        one, other = counts["broad", keys], total["broad", keys]
        assert torch.equal(other.entropy.ratio, one.entropy.ratio)
