"""From verdicts to labels: what each head is, or `unknown` or `undecided` where nothing is confirmed."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from attnlab.core import HEAD_COLUMNS, KEYS, Table
from attnlab.labels.counting import in_precedence, known_labels
from attnlab.labels.counts import difference_interval
from attnlab.labels.label_columns import GAIN, LINKS
from attnlab.labels.verdict import (
    BORDERLINE,
    CONFIRMED,
    NOT_COMPARED,
    REJECTED,
    STATUSES,
    UNDECIDED,
    UNKNOWN,
    least_status,
    status_of,
)

SEPARATOR = "; "
# The role of a head whose strength is above 0 for no label.
NO_ROLE = "none"
# From this strength on a head is shown with the name of its closest role.
NAMED_FROM = 0.25
ROLE_LEGEND = f"none below strength {NAMED_FROM} (0 at its control, 1 at its threshold)"
_FIGURES = ("value", "value_low", "value_high", "status")
_OF_RELATIONS = ("accuracy", "accuracy_low", "accuracy_high", "status")
# What an untrained head's own status leaves of a label that a trained head carries.
_BESIDE_UNTRAINED = {
    REJECTED: CONFIRMED,
    BORDERLINE: BORDERLINE,
    UNDECIDED: UNDECIDED,
    CONFIRMED: REJECTED,
}


def label_table(verdicts: pd.DataFrame) -> pd.DataFrame:
    """One row per head: `site, layer, head, labels, label, borderline, undecided`.

    `labels` names all that hold, joined by `; `; `label` is the first of them in the order of
    precedence, for counting and for comparing with one structural label a head. `borderline` and
    `undecided` name the labels of that status. Where none is confirmed, `labels` and `label` are what
    `without_label` says.

    Args:
        verdicts: one row per head and label, with `site` and `layer` beside the columns of `Verdict`.
    """
    rows = []
    for head, mine in verdicts.groupby(HEAD_COLUMNS, sort=False):
        names = {
            status: in_precedence(mine[mine["status"] == status]["label"]) for status in STATUSES
        }
        holding = names[CONFIRMED] or [without_label(mine["status"])]
        others = (SEPARATOR.join(names[status]) for status in (BORDERLINE, UNDECIDED))
        rows.append((*_key(head), SEPARATOR.join(holding), holding[0], *others))
    return pd.DataFrame(rows, columns=[*HEAD_COLUMNS, "labels", "label", BORDERLINE, UNDECIDED])


def without_label(statuses: Iterable[str]) -> str:
    """The label of a head for which no label is confirmed: `unknown` or `undecided`.

    It is `unknown` only where enough was counted for every label that applies at its site: one that
    is undecided may yet hold. A borderline label is no such label, since enough was counted for it.

    Args:
        statuses: of its labels.

    >>> without_label(["rejected", "borderline"]), without_label(["rejected", "undecided"])
    ('unknown', 'undecided')
    """
    return UNDECIDED if UNDECIDED in set(statuses) else UNKNOWN


def _key(head: object) -> tuple[object, ...]:
    return head if isinstance(head, tuple) else (head,)


def compare_controls(
    tables: Mapping[str, pd.DataFrame], relations: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Every verdict of the model beside those of its controls, one row per head and label.

    For each control NAME the columns `NAME_value`, `NAME_value_low`, `NAME_value_high` and `NAME_status` say
    what the same head got there. `significance` says whether the label is significant: it is confirmed, and
    the untrained model's head lies below the threshold. Where either is borderline, so is that.
    `significant` is True where it is confirmed. On shuffled sentences a label may stay (one back is one back
    whatever stands there): what changes shows what the head goes by.

    A label that rests on a relation is held against the same relation of the controls, since a
    control picks one of its own, which says little about this one; it is significant when the relation is.

    Labels whose `against_untrained` is False are `not compared`, and significant nowhere. `strength` is as
    in `with_strength`.

    Args:
        tables: verdicts by name, `model` and `untrained` among them, all with `site` and `layer`.
        relations: from `compare_relations`, where there are gold links; with `shuffled` in `tables`.
    """
    keys = [*HEAD_COLUMNS, "label"]
    result = tables["model"]
    result = result[[*keys, *(name for name in result if name not in keys)]]
    for name, table in tables.items():
        if name != "model":
            other = table[[*keys, *_FIGURES]].rename(
                columns={figure: f"{name}_{figure}" for figure in _FIGURES}
            )
            result = result.merge(other, on=keys, how="left", validate="one_to_one")
    labels = known_labels()
    triples = zip(result["label"], result["status"], result["untrained_status"], strict=True)
    significance = [
        least_status(status, _BESIDE_UNTRAINED[control])
        if labels[label].against_untrained
        else NOT_COMPARED
        for label, status, control in triples
    ]
    result = result.assign(significance=significance)
    if relations is not None and not relations.empty:
        result = _with_relations(result, relations)
    return with_strength(result.assign(significant=result["significance"] == CONFIRMED))


def with_strength(controls: pd.DataFrame) -> pd.DataFrame:
    """The table with `strength`, from 0 to 1: how far a head is on its way to each label.

    ::

        least over the figures of the rule of   clip((value - base) / (threshold - base), 0, 1)

    where base is what the figure would be without the function: the largest of 0, the `control` column,
    and the untrained head's figure. Where base reaches the threshold, as chance
    does where it is the threshold, a figure counts 1 above base and 0 elsewhere. NaN where a figure is.

    A label that is significant, or confirmed where controls were left out, has strength 1. Any other has
    0 where the untrained head reaches the threshold, and where its label, such as `broad`, is not compared
    with that of an untrained head: then nothing says what the figure would be without the function.

    Args:
        controls: with `status` and `significance`.
    """
    labels = known_labels()
    compared = controls["label"].map(lambda name: labels[name].against_untrained).astype(bool)
    untrained = controls.get("untrained_value", pd.Series(math.nan, controls.index)).astype(float)
    first = _progress(controls["value"], controls["threshold"], [controls["control"], untrained])
    second = _progress(
        controls["second_value"], controls["second_threshold"], [controls["second_control"]]
    )
    has_second = controls["second_statistic"].fillna("") != ""
    both = pd.concat([first, second], axis="columns").min(axis="columns", skipna=False)
    least = first.where(~has_second, both)
    without_base = ~compared | (untrained >= controls["threshold"])
    strength = least.where(least.isna() | ~without_base, 0.0)
    return controls.assign(strength=strength.mask(_status_shown(controls) == CONFIRMED, 1.0))


def _progress(
    value: "pd.Series[float]", threshold: "pd.Series[float]", bases: Sequence["pd.Series[float]"]
) -> "pd.Series[float]":
    base = pd.concat(bases, axis="columns").max(axis="columns").fillna(0).clip(lower=0)
    distance = threshold - base
    progress = ((value - base) / distance).clip(0, 1)
    return progress.where(distance > 0, (value > base).astype(float)).where(value.notna())


def _status_shown(controls: pd.DataFrame) -> "pd.Series[str]":
    """The status against controls, or the label's own where these were left out."""
    against = controls["significance"]
    return against.where(against != NOT_COMPARED, controls["status"])


def without_controls(table: pd.DataFrame, declared: Table) -> pd.DataFrame:
    """Verdicts or relations of a model whose controls were left out: none of them is significant.

    Every column that is declared is there; those of the controls are empty.
    """
    empty = pd.DataFrame(index=table.index, columns=[n for n in declared if n not in table])
    whole = pd.concat([table, empty], axis="columns").drop(columns=KEYS.name, errors="ignore")
    whole = whole.assign(significance=NOT_COMPARED, significant=False)
    return with_strength(whole) if "strength" in whole else whole


def _with_relations(controls: pd.DataFrame, relations: pd.DataFrame) -> pd.DataFrame:
    """The controls' figures of the relation that each label rests on, instead of their own."""
    of_control = {
        f"{name}_{theirs}": f"{name}_{mine}"
        for name in ("untrained", "shuffled")
        for theirs, mine in zip(_OF_RELATIONS, _FIGURES, strict=True)
    }
    figures = relations.assign(detail=relations["relation"] + " " + relations["direction"])
    figures = figures.set_index([*HEAD_COLUMNS, "detail"])
    index = pd.MultiIndex.from_frame(controls[[*HEAD_COLUMNS, "detail"]])
    resting = index.isin(figures.index)
    matched = figures.reindex(index[resting])
    result = controls.copy()
    for theirs, mine in of_control.items():
        result.loc[resting, mine] = matched[theirs].to_numpy()
    pairs = zip(result.loc[resting, "status"], matched["significance"], strict=True)
    result.loc[resting, "significance"] = [least_status(*pair) for pair in pairs]
    return result


def strongest_functions(controls: pd.DataFrame) -> pd.DataFrame:
    """One row per head: the strongest label, with the figures that it rests on.

    First comes what is significant, then what is borderline and has any strength, then what enough was
    counted for, then the rest; among these the largest `strength`, of equals what is confirmed, then the
    first by precedence. Without controls what is confirmed comes first. Columns `function` and those of
    `Verdict`, `strength`, `significance`.

    Args:
        controls: from `compare_controls`.
    """
    labels = known_labels()
    status = _status_shown(controls)
    near = (status == BORDERLINE) & (controls["strength"] > 0)
    order: dict[str, pd.Series[Any]] = {
        "order": (2 * (status == CONFIRMED) + near).astype(int),
        # One row that fits makes a strength of 1.
        "enough": ~(controls["counted"] < controls["needed"]) & (controls["strength"] > 0),
        "strength": controls["strength"],
        "confirmed": controls["status"] == CONFIRMED,
        "precedence": -controls["label"].map(lambda name: labels[name].precedence),
    }
    ranked = controls.assign(**order).sort_values([*order], ascending=False, na_position="last")
    best = ranked.drop_duplicates(HEAD_COLUMNS).sort_index()
    columns = ["detail", *_SHOWN, "strength", "significance"]
    return best[[*HEAD_COLUMNS, "label", *columns]].rename(columns={"label": "function"})


_SHOWN = (
    "statistic",
    "value",
    "value_low",
    "value_high",
    "threshold",
    "second_statistic",
    "second_value",
    "second_value_low",
    "second_value_high",
    "second_threshold",
    "unit",
    "counted",
    "needed",
    "status",
    "stability",
)


def compare_relations(
    model: pd.DataFrame, shuffled: pd.DataFrame, untrained: pd.DataFrame
) -> pd.DataFrame:
    """Every relation of the model beside its controls, one row per head and kind of gold link.

    The offset baseline says what position alone would give; on shuffled words it falls to almost
    nothing and any preference for a kind of word exceeds it, so the rule itself says little there.
    What counts is the head's own accuracy on shuffled words, which it owes to the words alone:
    `significance` is confirmed where the head follows the relation, the interval of what accuracy exceeds
    that one by (`gain_over_shuffled`) lies above `LINKS.threshold`, and the untrained model's head does not
    follow it.

    Args:
        model: relations with `site` and `layer`, from `HeadFunctions.relations`.
        shuffled: the same on sentences whose words are shuffled.
        untrained: the same of the untrained model.
    """
    keys = [*HEAD_COLUMNS, "relation", "direction"]
    result = model
    for name, table in (("shuffled", shuffled), ("untrained", untrained)):
        other = table[[*keys, *_OF_RELATIONS]].rename(
            columns={figure: f"{name}_{figure}" for figure in _OF_RELATIONS}
        )
        result = result.merge(other, on=keys, how="left", validate="one_to_one")
    both = (
        (result["accuracy"], result["accuracy_low"], result["accuracy_high"]),
        (
            result["shuffled_accuracy"],
            result["shuffled_accuracy_low"],
            result["shuffled_accuracy_high"],
        ),
    )
    low, high = difference_interval(*both)
    gain = {GAIN.name: both[0][0] - both[1][0], GAIN.low: low, GAIN.high: high}
    result = result.assign(**gain)
    beyond_words = [status_of(*ends, LINKS.threshold) for ends in zip(low, high, strict=True)]
    columns = result["status"], beyond_words, result["untrained_status"]
    significance = [
        least_status(status, beyond, _BESIDE_UNTRAINED[control])
        for status, beyond, control in zip(*columns, strict=True)
    ]
    return result.assign(
        significance=significance, significant=[status == CONFIRMED for status in significance]
    )
