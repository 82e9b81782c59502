"""The part of the report that says what each head does, and what speaks against it."""

import pandas as pd

from attnlab.columns import KEYS, rounded
from attnlab.functions.columns import AGREEMENT, CONTROLS, LABELS, RELATIONS
from attnlab.functions.labels.syntactic import best_heads
from attnlab.functions.thresholds import LINKS
from attnlab.functions.verdict import BORDERLINE, HOLDS, NOT_COMPARED, UNDECIDED, UNKNOWN
from attnlab.reporting.columns import columns_named
from attnlab.reporting.function_phrases import function_phrase, structure_phrase
from attnlab.reporting.naming import VIEW_NAMES, head_names
from attnlab.reporting.page.parts import PageTable, Section, page_table
from attnlab.studies.analysis.labelling import Labelling
from attnlab.texts import counted

NO_LABEL = (UNKNOWN, UNDECIDED, NOT_COMPARED)
_MOST_RELATIONS = 40
# What every reader of a label must know; on the terminal and on the page.
STANDING = (
    "A label holds when the 95 % interval of its figure lies above the threshold, and is borderline "
    "when the threshold lies within. It stands when the same head of an untrained model is below the "
    "threshold, and a relation when it is also followed clearly more often than on shuffled words."
)
ABLATION = (
    "loss: how much it changes when the head's output is set to zero, in nats per target token; a "
    "label says where a head looks, this says whether anything rests on it."
)
_BESIDE = (
    "mass_on_special",
    "ablation_loss_change",
    "ablation_low",
    "ablation_high",
    "structure_phrase",
    "structure_margin_bits_per_row",
)
_FIRST_TABLE = ("head_name", "phrase", "stability", "labels", "standing", "borderline", "undecided")
_SECOND_TABLE = (
    "The tables behind them give the figure of each label that holds or is borderline, beside the "
    "same figure of the untrained model and on shuffled words. "
)
VIEWS_SAID = (
    "Special tokens often take the largest weight of a row and hide what a head does among words: "
    "with special tokens left out as keys, a row's largest weight is that on a content token."
)
_EVIDENCE = [
    "head_name",
    "label",
    "detail",
    "statistic",
    "value",
    "low",
    "high",
    "threshold",
    "status",
    "stability",
    "untrained_value",
    "untrained_status",
    "shuffled_value",
    "shuffled_status",
    "denominator",
    "stands_status",
]
_RELATION = [
    "site",
    "relation",
    "direction",
    "best_head",
    "accuracy",
    "low",
    "high",
    "baseline",
    "chance",
    "shuffled_accuracy",
    "untrained_accuracy",
    "links",
    "stability",
    "stands_status",
]


def label_sections(labelling: Labelling | None) -> list[Section]:
    """Sections about labels and relations; none where heads were not labelled."""
    if labelling is None:
        return []
    views = {keys: labelling.view(keys) for keys in labelling.views}
    tables = [
        *(_label_table(view, VIEW_NAMES[keys]) for keys, view in views.items()),
        *(t for keys, view in views.items() for t in _evidence_table(view, VIEW_NAMES[keys])),
    ]
    evidence = len(tables) > len(views)
    beside = f" Beside the labels, {ABLATION}" if "ablation_loss_change" in labelling.labels else ""
    sections = [
        Section(
            "labels",
            "What each head does",
            f"{describe_labels(labelling)} {STANDING} {VIEWS_SAID} A label is measured on one half "
            "of the sentences; what was picked out of many (an offset, a relation) was picked on the "
            f"other half. {_SECOND_TABLE if evidence else ''}All figures, those of labels that "
            f"do not hold too, are in controls.csv.{beside}",
            tuple(tables),
        )
    ]
    return [
        *sections,
        *_agreement_section(labelling),
        *_relation_section(labelling.relations),
    ]


def _label_table(view: Labelling, caption: str) -> PageTable:
    labels = with_phrases(view.labels).assign(head_name=head_names(view.labels))
    shown = [*_FIRST_TABLE, *(name for name in _BESIDE if name in labels)]
    return page_table(labels, columns_named(shown, LABELS.columns), f"Labels: {caption}")


def _evidence_table(view: Labelling, caption: str) -> list[PageTable]:
    holding = view.controls[view.controls["status"].isin([HOLDS, BORDERLINE])]
    if holding.empty:
        return []
    # Words can be wrapped, identifiers cannot.
    statistic = holding["statistic"].str.replace("_", " ")
    named = holding.assign(head_name=head_names(holding), statistic=statistic)
    return [
        page_table(
            named,
            columns_named(_EVIDENCE, CONTROLS.columns),
            f"What the labels rest on: {caption}",
        )
    ]


def describe_labels(labelling: Labelling) -> str:
    """How many heads carry each label, and for how many it stands, a sentence per view."""
    said = {keys: _labels_said(labelling.view(keys).labels) for keys in labelling.views}
    if len(said) > 1 and len(set(said.values())) == 1:
        return f"In both views of the keys, {next(iter(said.values()))}."
    return " ".join(f"With {VIEW_NAMES[keys]}, {what}." for keys, what in said.items())


def _labels_said(labels: pd.DataFrame) -> str:
    """Labels that hold, labels that stand, and heads without any, as a clause."""
    without = labels["label"].value_counts()
    rest = [f"{without[name]} {name}" for name in sorted(NO_LABEL) if name in without]
    several = "; a head may carry several" if labels["labels"].str.contains("; ").any() else ""
    heads = len(labels) - int(without.reindex(sorted(NO_LABEL)).fillna(0).sum())
    have = "has" if heads == 1 else "have"
    return (
        f"{heads} of {counted(len(labels), 'head')} {have} labels that hold "
        f"({_named(labels['labels'])}{several}), "
        f"labels that stand: {_named(labels['standing'])}"
        + (f"; the others are {' and '.join(rest)}" if rest else "")
    )


def _named(labels: "pd.Series[str]") -> str:
    """How many heads carry each label that has a name."""
    counts = labels.str.split("; ").explode().value_counts()
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    named = [f"{count} {label}" for label, count in ordered if label not in NO_LABEL]
    return ", ".join(named) or "none"


def describe_agreement(agreement: pd.DataFrame) -> str:
    """Kappa in all heads of the first view with its interval, as a sentence."""
    found = agreement.iloc[0]
    labelled, heads = int(found["labelled_heads"]), int(found["heads"])
    carry = "carries" if labelled == 1 else "carry"
    said = f" ({labelled} of {counted(heads, 'head')} {carry} a label)" if heads else ""
    if pd.isna(found["kappa"]):
        why = (
            "all heads that are neither undecided nor a tie have one function or one structure"
            if found["labelled_heads"]
            else "no head carries a label"
        )
        why = why if found["heads"] else "every head is a tie of two families or undecided"
        return f"Function and structure cannot be compared by kappa, since {why}{said}."
    kappa, low, high = (rounded(found[name], 2) for name in ("kappa", "low", "high"))
    interval = f", 95 % interval {low} to {high}" if low and high else ""
    return f"Function and structure agree with kappa {kappa}{interval}{said}."


def _agreement_section(labelling: Labelling) -> list[Section]:
    agreement = labelling.agreement
    if agreement.empty:
        return []
    return [
        Section(
            "agreement",
            "Does what a head does show in what it looks like?",
            f"{describe_agreement(agreement)} A positional head should leave a diagonal, a "
            "syntactic, aligning or monotone one a band, one for rare tokens columns of them, a sink one "
            "column, a broad one nothing. Of several labels the first counts; heads that do nothing "
            "with a name agree with no family. The structure is decided by the bits of all sampled sentences "
            "together; what each family costs is in structure.csv. Intervals are asymptotic and "
            "rough for few heads.",
            tuple(
                page_table(
                    rows,
                    [AGREEMENT[str(name)] for name in rows if name != KEYS.name],
                    VIEW_NAMES[keys],
                )
                for keys in labelling.views
                for rows in [labelling.view(keys).agreement]
            ),
        )
    ]


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


def _relation_section(relations: pd.DataFrame) -> list[Section]:
    if relations.empty:
        return []
    best = pd.concat([best_heads(rows) for _, rows in relations.groupby("site", sort=False)])
    best = best[best["links"] >= LINKS.needed]
    if best.empty:
        return []
    more = len(best) - _MOST_RELATIONS
    cut = f" {more} more of them are not shown." if more > 0 else ""
    best = best.head(_MOST_RELATIONS)
    named = best.assign(best_head=head_names(best))
    table: PageTable = page_table(named, columns_named(_RELATION, RELATIONS.columns))
    return [
        Section(
            "relations",
            "Which head follows which relation",
            "For each relation between two words, and each direction, the head whose largest weight "
            "falls on the other word most often. The head was chosen on one half of the sentences, "
            "the figures are of the other half. The most frequent offset of the relation, picking "
            "a word at random, shuffled words and an untrained model stand beside it. Relations "
            f"with at least {LINKS.needed} pairs; all heads are in relations.csv.{cut}",
            (table,),
        )
    ]


def with_phrases(labels: pd.DataFrame) -> pd.DataFrame:
    """The labels with each head's strongest function and its structure in words."""
    rows = list(labels.itertuples(index=False))
    table = labels.assign(phrase=[function_phrase(row) for row in rows])
    if "structure" not in labels:
        return table
    return table.assign(structure_phrase=[structure_phrase(row) for row in rows])
