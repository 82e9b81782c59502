"""The heads of an analysis in words: evidence of roles, the table of heads, and how labels agree."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from attnlab.core import HEAD_COLUMNS, LOSS_CHANGE, Column, Head, counted, read_columns, rounded
from attnlab.labels import (
    BASELINE,
    BORDERLINE,
    CONFIRMED,
    NO_STRUCTURE,
    NO_STRUCTURE_MEANS,
    NOT_COMPARED,
    REJECTED,
    STRUCTURE_SAID,
    TIE_BITS_PER_ROW,
    UNDECIDED,
    UNKNOWN,
    status_of,
)
from attnlab.matrices import NO_FAMILY
from attnlab.questions.analyze.question import GENERATION_CHANGE, SUMMARY
from attnlab.questions.analyze.summary import (
    MARK,
    MARK_WITHOUT_CONTROLS,
    NO_ROLE,
    marked,
    marks_of,
    most_needed,
)
from attnlab.results import columns_named, family_words, head_names

COLUMNS = read_columns(__file__)

TIE = "~"
STRENGTH = "0 at the control ({control}), 1 at the threshold"
# That of the sentences on which the relation of a head is picked.
CHOOSING_HALF = "choosing half"
_SHOWN = (
    "head_name",
    "role",
    "mark",
    "strength",
    "evidence",
    "structure",
    *(column.name for column in LOSS_CHANGE),
    "output",
)
# Shown even where all heads have the same.
_ALWAYS = {"head_name", "role", "strength", "structure", LOSS_CHANGE.name}
# Columns that only pages and terminals have.
SHOWN = (
    Column(
        "mark",
        "mark",
        f"{MARK}: the role is confirmed and significant against controls; {MARK_WITHOUT_CONTROLS}: it is "
        "confirmed, and no control is compared with it, or controls were left out.",
    ),
    Column(
        "evidence",
        "evidence",
        "The figure of the closest role, and what it would be without: that of the half of the sentences on "
        f"which nothing was picked, or of the {CHOOSING_HALF}, where this one decides the strength.",
    ),
    COLUMNS["phrase"],
    Column(
        "structure_phrase",
        "structure",
        "The family of matrices that describes the head's matrices, with the keys of the view, in "
        "the fewest bits; a tie where the next family needs less than "
        f"{TIE_BITS_PER_ROW:g} bits per row more. It says what they look like, not what for; "
        f"{STRUCTURE_SAID}.",
    ),
    COLUMNS["best_head"],
)
NO_LABEL = (UNKNOWN, UNDECIDED, NOT_COMPARED)


def heads_shown(summary: pd.DataFrame) -> tuple[pd.DataFrame, tuple[Column, ...]]:
    """The rows of `analyze(...).summary` with words for what they hold, and the columns to show of them.

    A column that is the same in every row is left out, unless it is one of the few that every reader
    looks for. The mark is there wherever some head has it.
    """
    table = summary.assign(head_name=head_names(summary))
    if "role" in table:
        table = table.assign(
            mark=marks_of(table),
            evidence=[evidence_phrase(row) for row in table.itertuples(index=False)],
        )
    if "structure" in table:
        tie = table["structure_tie"].astype(bool).map({True: f" {TIE}", False: ""})
        table = table.assign(structure=table["structure"].map(family_words) + tie)
    columns = columns_named([name for name in _SHOWN if name in table], (*SUMMARY.columns, *SHOWN))
    kept = {column.name for column in varying(table, columns)} | _ALWAYS
    if "mark" in table and table["mark"].ne("").any():
        kept.add("mark")
    return table, tuple(column for column in columns if column.name in kept)


def varying(table: pd.DataFrame, columns: Sequence[Column]) -> tuple[Column, ...]:
    """The columns that are not the same in every row, behind the first one; all where there is one row."""
    first, *others = columns
    shown = [one for one in others if len(table) < 2 or table[one.name].nunique(dropna=False) > 1]
    return (first, *shown)


def words_of_heads(summary: pd.DataFrame) -> tuple[tuple[str, str], ...]:
    """The words and marks of the table of heads that need a line, each with what it means."""
    words = []
    if "role" in summary:
        compared = "significant" in summary
        control = "baseline, untrained model" if compared else "baseline alone"
        strength = STRENGTH.format(control=control)
        if "strength" in summary and summary["strength"].isna().any():
            strength += ", empty where too little was counted"
        words.append(("strength", strength))
        if compared:
            words.append((MARK, "confirmed, significant against controls"))
        alone = summary.loc[marks_of(summary) == MARK_WITHOUT_CONTROLS, "role"].unique()
        without = f"no control is compared with {' and '.join(alone)}"
        if len(alone) or not compared:
            said = without if compared else "controls were left out"
            words.append((MARK_WITHOUT_CONTROLS, f"confirmed; {said}"))
        words.append(("confirmed", "the whole interval lies beyond the threshold"))
        roles = set(summary["role"])
        words += [(name, meaning) for name, meaning in _EVIDENCE_WORDS if name in roles]
        if roles & {name for name, (_, beside) in _EVIDENCE.items() if beside == BASELINE}:
            words.append((BASELINE, "the most frequent offset of such words, or chance"))
        if "second_statistic" in summary and (summary["second_statistic"] == _OTHER_HALF).any():
            words.append((CHOOSING_HALF, "the sentences on which the relation was picked"))
    if "structure" in summary:
        words += [
            ("structure", "the family that takes fewest bits per row"),
            (TIE, f"the next takes under {TIE_BITS_PER_ROW:g} more"),
        ]
        if (summary["structure"] == NO_FAMILY).any():
            words += [(f"structure {NO_STRUCTURE}", NO_STRUCTURE_MEANS)]
    if LOSS_CHANGE.name in summary:
        words += [("loss", "change without the head, nats per token")]
    return tuple(words)


def describe_heads(summary: pd.DataFrame) -> list[str]:
    """What was found, in sentences: how many heads have a role, and without which one the loss rises most."""
    said = [describe_roles(summary)] if "role" in summary else []
    needed = most_needed(summary)
    if needed is not None:
        head, change = needed
        # Of a model that scores at random changes are below what tables show.
        seen = round(change, LOSS_CHANGE.column.digits or 0) > 0
        by = LOSS_CHANGE.column.shown(change) if seen else f"{change:.1g}"
        said.append(f"The loss rises most without {head}, by {by} nats per token.")
    return said


def describe_roles(summary: pd.DataFrame) -> str:
    """How many heads have a confirmed role, and which, as a sentence; the same numbers as in every map.

    Roles that no control is compared with are counted apart, unless controls were left out.

    >>> describe_roles(pd.DataFrame({"role": ["sink", "sink", "none"], "confirmed": [True, False, False],
    ...     "significant": [True, False, False]}))
    '1 of 3 heads has a role that is confirmed and significant against controls: 1 sink.'
    >>> print(describe_roles(pd.DataFrame({"role": ["broad", "broad"], "confirmed": True,
    ...     "significant": False})))
    0 of 2 heads have a role that is confirmed and significant against controls; 2 broad are confirmed, \
which no control is compared with.
    """
    chosen = summary.loc[marked(summary), "role"]
    compared = "significant" in summary
    against = " and significant against controls" if compared else ""
    have = "has" if len(chosen) == 1 else "have"
    which = f": {_counted_roles(chosen)}" if len(chosen) else ""
    heads = counted(len(summary), "head")
    said = f"{len(chosen)} of {heads} {have} a role that is confirmed{against}{which}"
    alone = summary.loc[marks_of(summary) == MARK_WITHOUT_CONTROLS, "role"]
    if compared and len(alone):
        are = "is" if len(alone) == 1 else "are"
        said += f"; {_counted_roles(alone)} {are} confirmed, which no control is compared with"
    return f"{said}."


def _counted_roles(roles: "pd.Series[str]") -> str:
    """Such as `2 sink, 1 positional`."""
    ordered = sorted(roles.value_counts().items(), key=lambda pair: (-pair[1], str(pair[0])))
    return ", ".join(f"{count} {role}" for role, count in ordered)


_AGAINST = {CONFIRMED: "above", BORDERLINE: "about", REJECTED: "below", UNDECIDED: "against"}
# The others are shares, and shown in percent.
_NO_SHARES = ("mean_rank_correlation", "mean_slope")
_OTHER_HALF = "argmax_accuracy_choosing"
_SECOND = {
    "argmax_rate_contested": "among more uncommon tokens",
    _OTHER_HALF: f"on the {CHOOSING_HALF}",
    "mean_slope": "slope",
}


def function_phrase(found: Any) -> str:
    """The strongest function of a head with its interval and threshold.

    Args:
        found: a row of `strongest_functions`, with attributes.

    >>> import math
    >>> from types import SimpleNamespace
    >>> print(function_phrase(SimpleNamespace(
    ...     function="positional", detail="offset +1", statistic="argmax_rate",
    ...     value=0.83, value_low=0.812, value_high=0.847, threshold=0.9, second_value=math.nan,
    ...     status="rejected", counted=2000, needed=1000, unit="rows")))
    positional, offset +1: 83 % [81, 85], below 90 %
    """
    name = named_label(found.function, found.detail).replace(">", " to ")
    if found.status == UNDECIDED:
        few = f"only {found.counted:,} {found.unit}, {found.needed:,} needed"
        figures = few if math.isnan(found.value) else f"{_figure(found, '', UNDECIDED)}; {few}"
        return f"{name}: {figures}"
    own = status_of(found.value_low, found.value_high, found.threshold)
    phrase = f"{name}: {_figure(found, '', own)}"
    if own == found.status:
        return phrase
    second = status_of(found.second_value_low, found.second_value_high, found.second_threshold)
    return f"{phrase}; {_SECOND[found.second_statistic]} {_figure(found, 'second_', second)}"


def named_label(label: str, detail: Any) -> str:
    """A label with what was picked, without a word that both have.

    >>> named_label("syntactic", "case head>dependent"), named_label("alignment", "alignment target>source")
    ('syntactic, case head>dependent', 'alignment, target>source')
    """
    picked = _picked(label, detail)
    return f"{label}, {picked}" if picked else label


def _picked(label: str, detail: Any) -> str:
    return str(detail or "").removeprefix(label).strip()


def _figure(found: Any, which: str, status: str) -> str:
    """The value with its interval, and the threshold that it lies above, about or below."""
    share = getattr(found, f"{which}statistic") not in _NO_SHARES
    names = ("value", "value_low", "value_high", "threshold")
    values = [getattr(found, which + name) * (100 if share else 1) for name in names]
    value, low, high, threshold = (rounded(one, 0 if share else 2) for one in values)
    unit = " %" if share else ""
    return f"{value}{unit} [{low}, {high}], {_AGAINST[status]} {threshold}{unit}"


def evidence_phrase(found: Any) -> str:
    """The figure of the role that a head is shown with, or the one that decides its strength.

    Empty where it has no role. Of a relation the half of the sentences counts that gives less strength;
    a second figure of another kind stands there only where it lowers the strength.

    Args:
        found: a row of `analyze(...).summary`, with attributes.

    >>> from types import SimpleNamespace
    >>> print(evidence_phrase(SimpleNamespace(role="positional", detail="offset +1",
    ...     statistic="argmax_rate", value=0.63, control=0.4)))
    offset +1 in 63 %
    >>> print(evidence_phrase(SimpleNamespace(role="syntactic", detail="case head>dependent",
    ...     statistic="argmax_accuracy", value=0.65, control=0.56)))
    case: head to dependent 65 %, baseline 56 %
    >>> print(evidence_phrase(SimpleNamespace(role="syntactic", detail="case head>dependent",
    ...     statistic="argmax_accuracy", value=0.65, control=0.56, second_statistic=_OTHER_HALF,
    ...     second_value=0.6, second_control=0.5)))
    case: head to dependent 60 %, baseline 50 % (choosing half)
    >>> print(evidence_phrase(SimpleNamespace(role="rare tokens", detail="two rarest",
    ...     statistic="argmax_rate", value=0.4, control=0.3)))
    two rarest in 40 %, by chance among more uncommon tokens 30 %
    >>> print(evidence_phrase(SimpleNamespace(role="alignment", detail="alignment target>source",
    ...     statistic="argmax_accuracy", value=0.65, control=0.56)))
    target to source 65 %, baseline 56 %
    """
    if not found.role or found.role == NO_ROLE or pd.isna(found.value):
        return ""
    second = getattr(found, "second_statistic", "")
    value, control = found.value, found.control
    if second == _OTHER_HALF:
        value, control = found.second_value, found.second_control
    subject, beside = _EVIDENCE.get(found.role, (_named, ""))
    picked = _picked(found.role, found.detail)
    text = f"{subject(picked)} {_value(value, found.statistic)}".strip()
    text += _beside(beside, control, found.statistic)
    if second == _OTHER_HALF:
        return f"{text} ({CHOOSING_HALF})"
    if not second or pd.isna(second):
        return text
    other = f"{_SECOND[second]} {_value(found.second_value, second)}"
    return f"{text}; {other}{_beside(beside, found.second_control, second)}"


def _beside(words: str, control: float, statistic: str) -> str:
    """The figure that would come without the role, behind a comma; nothing where there is none."""
    return f", {words} {_value(control, statistic)}" if words and not pd.isna(control) else ""


def _value(value: float, statistic: str) -> str:
    return rounded(value, 2) if statistic in _NO_SHARES else f"{rounded(100 * value, 0)} %"


def _named(detail: str) -> str:
    return detail


def _offset(detail: str) -> str:
    return f"{detail} in"


def _relation(detail: str) -> str:
    """`case: head to dependent` of `case head>dependent`; of a direction alone the direction."""
    return ": ".join(detail.split(" ", maxsplit=1)).replace(">", " to ")


def _always(text: str) -> Callable[[str], str]:
    return lambda _: text


_SINKS = {
    "first": "the first token",
    "opening": "the start token",
    "closing": "end or separator",
    "punctuation": "punctuation",
}
# Of roles whose name does not say what is counted.
_EVIDENCE_WORDS = (
    ("positional", "share of rows whose largest weight is at the offset"),
    ("monotone", "the key moves on with the query"),
)
# How the figure of each role is introduced, and what the figure beside it is.
_EVIDENCE: dict[str, tuple[Callable[[str], str], str]] = {
    "positional": (_offset, ""),
    "syntactic": (_relation, BASELINE),
    "alignment": (_relation, BASELINE),
    "rare tokens": (_always("two rarest in"), "by chance among more uncommon tokens"),
    "sink": (lambda detail: f"weight on {_SINKS.get(detail, detail)}", "equal weights"),
    "broad": (_always("entropy, of the largest,"), ""),
    "monotone": (_always("rank correlation"), ""),
}


def structure_phrase(found: Any) -> str:
    """The family of a head's matrices, or the two that describe them equally well.

    >>> from types import SimpleNamespace
    >>> row = SimpleNamespace(structure="rare_columns", structure_runner_up="band",
    ...     structure_tie=True)
    >>> structure_phrase(row)
    'tie: rare columns, band'
    """
    first, second = map(family_words, (found.structure, found.structure_runner_up))
    return f"tie: {first}, {second}" if found.structure_tie else first


def titled_heads(summary: pd.DataFrame) -> dict[Head, str]:
    """The name of each head and below it its role where that has a mark, else the family of its matrices.

    Such as `encoder.0.3` above `role: positional`; see `marks_of`.

    Args:
        summary: see `analyze(...).summary`.
    """
    rows = summary.assign(mark=marks_of(summary) if "role" in summary else "").to_dict("records")
    return {Head(*(row[name] for name in HEAD_COLUMNS)): _titled(row) for row in rows}


def _titled(row: Mapping[Any, Any]) -> str:
    name = str(Head(*(row[column] for column in HEAD_COLUMNS)))
    structure = family_words(str(row.get("structure", "")))
    said = f"role: {row['role']}" if row["mark"] else structure and f"structure: {structure}"
    return f"{name}\n{said}" if said else name


def describe_generation(generated: pd.DataFrame) -> str:
    """The largest change of each statistic from teacher forcing to own output, as a sentence."""
    largest = generated.loc[
        generated.groupby("statistic", sort=False)["generation_change"].apply(
            lambda change: change.abs().idxmax()
        )
    ]
    changes = [
        f"{row['statistic'].replace('_', ' ')} by {GENERATION_CHANGE.shown(row, signed=True)} "
        f"({Head(row['site'], row['layer'], row['head'])})"
        for row in largest.to_dict("records")
    ]
    sentences = counted(int(generated["sentences"].max()), "sentence")
    return f"While the model writes itself ({sentences}), no head changes more than: {'; '.join(changes)}."


def count_labels(labels: pd.DataFrame) -> str:
    """How many heads carry each label, as a phrase; a head of several labels counts for each.

    >>> count_labels(pd.DataFrame({"labels": ["sink; broad", "unknown", "sink"]}))
    '2 sink, 1 broad, 1 unknown (3 heads)'
    """
    counts = labels["labels"].str.split("; ").explode().value_counts()
    ordered = sorted(counts.items(), key=lambda pair: (pair[0] in NO_LABEL, -pair[1], pair[0]))
    return (
        ", ".join(f"{count} {label}" for label, count in ordered)
        + f" ({counted(len(labels), 'head')})"
    )


def with_phrases(labels: pd.DataFrame) -> pd.DataFrame:
    """The labels with each head's strongest label and its structure in words."""
    rows = list(labels.itertuples(index=False))
    named = ("labels", "significant_labels")
    labels = labels.assign(
        **{name: labels[name].replace(list(NO_LABEL), "") for name in named if name in labels}
    )
    table = labels.assign(phrase=[function_phrase(row) for row in rows])
    if "structure" not in labels:
        return table
    return table.assign(structure_phrase=[structure_phrase(row) for row in rows])
