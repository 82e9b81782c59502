"""The part of the report that says what each head does, and what speaks against it."""

import pandas as pd

from attnlab.core.columns import KEYS, rounded
from attnlab.core.texts import counted
from attnlab.labels.label_columns import AGREEMENT, CONTROLS, LABELS, LINKS, RELATIONS
from attnlab.labels.syntactic import best_heads
from attnlab.labels.verdict import BELOW, BORDERLINE, HOLDS, NOT_COMPARED, UNDECIDED, UNKNOWN
from attnlab.reporting.columns import columns_named
from attnlab.reporting.function_phrases import function_phrase, structure_phrase
from attnlab.reporting.heads_shown import describe_roles, varying
from attnlab.reporting.naming import VIEW_NAMES, head_names
from attnlab.reporting.page.parts import PageTable, Section, page_table
from attnlab.studies.analysis.labelling import Labelling
from attnlab.studies.analysis.roles import closest_roles

NO_LABEL = (UNKNOWN, UNDECIDED, NOT_COMPARED)
STATUS_WORDS = {HOLDS: "confirmed", BELOW: "rejected"}
_MOST_RELATIONS = 40
# What every reader of a label must know; on the terminal and on the page.
CONFIRMED = (
    "A label is confirmed when the 95 % interval of its figure lies above the threshold, rejected when "
    "it lies below, and borderline when the threshold lies within. It is significant against controls "
    "when it is rejected for the same head of an untrained model, and a relation when it is also "
    "followed clearly more often than on shuffled words."
)
ABLATION = (
    "loss: how much it changes when the head's output is set to zero, in nats per target token; a "
    "label says where a head attends, this says whether the model needs it."
)
_FIRST_TABLE = (
    "head_name",
    "phrase",
    "labels",
    "standing",
    "borderline",
    "undecided",
    "stability",
    "mass_on_special",
)
_SECOND_TABLE = (
    "The tables behind them give the figure of each label that is confirmed or borderline, beside the "
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
    "stands_status",
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
            f"{_roles_said(labelling)} {CONFIRMED} {VIEWS_SAID} A label is measured on one half "
            "of the sentences; what was picked out of many (an offset, a relation) was picked on the "
            f"other half. {_SECOND_TABLE if evidence else ''}All figures, those of labels that "
            f"are rejected too, are in controls.csv.{beside}",
            tuple(tables),
        )
    ]
    return [
        *sections,
        *_agreement_section(labelling),
        *_relation_section(labelling.relations),
    ]


def _roles_said(labelling: Labelling) -> str:
    """How many heads have a confirmed role, a sentence per view."""
    said = {}
    for keys in labelling.views:
        view = labelling.view(keys)
        said[keys] = describe_roles(closest_roles(view.labels, view.controls))
    if len(said) > 1 and len(set(said.values())) == 1:
        return f"In both views of the keys: {next(iter(said.values()))}"
    return " ".join(f"With {VIEW_NAMES[keys]}: {what}" for keys, what in said.items())


def _label_table(view: Labelling, caption: str) -> PageTable:
    labels = with_phrases(view.labels).assign(head_name=head_names(view.labels))
    columns = columns_named([name for name in _FIRST_TABLE if name in labels], LABELS.columns)
    return page_table(labels, varying(labels, columns), f"Labels: {caption}")


def _evidence_table(view: Labelling, caption: str) -> list[PageTable]:
    holding = view.controls[view.controls["status"].isin([HOLDS, BORDERLINE])]
    if holding.empty:
        return []
    # Words can be wrapped, identifiers cannot.
    statistic = holding["statistic"].str.replace("_", " ")
    named = in_words(holding.assign(head_name=head_names(holding), statistic=statistic))
    columns = columns_named([name for name in _EVIDENCE if name in named], CONTROLS.columns)
    return [
        page_table(
            named,
            varying(named, columns),
            f"What the labels rest on: {caption}",
        )
    ]


def describe_agreement(agreement: pd.DataFrame) -> str:
    """Kappa in all heads of the first view with its interval, as a sentence; empty where it has none."""
    if agreement.empty:
        return ""
    found = agreement.iloc[0]
    if pd.isna(found["kappa"]):
        return ""
    labelled, heads = int(found["labelled_heads"]), int(found["heads"])
    enough = " and of which enough was counted" if found["undecided_heads"] else ""
    said = (
        f" in the {counted(heads, 'head')} whose structure is no tie{enough}, {labelled} of them "
        "with a label"
    )
    kappa, low, high = (rounded(found[name], 2) for name in ("kappa", "low", "high"))
    interval = f", 95 % interval {low} to {high}" if low and high else ""
    return f"Function and structure agree with kappa {kappa}{interval}{said}."


def _agreement_section(labelling: Labelling) -> list[Section]:
    agreement = labelling.agreement
    if agreement.empty or agreement["kappa"].isna().all():
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
    named = in_words(best.assign(best_head=head_names(best)))
    columns = columns_named([name for name in _RELATION if name in named], RELATIONS.columns)
    table = page_table(named, varying(named, columns))
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


def in_words(table: pd.DataFrame) -> pd.DataFrame:
    """The table with its statuses as they are called in the field."""
    words = {
        str(name): table[name].map(lambda status: STATUS_WORDS.get(status, status))
        for name in table
        if str(name).endswith("status")
    }
    return table.assign(**words)


def with_phrases(labels: pd.DataFrame) -> pd.DataFrame:
    """The labels with each head's strongest label and its structure in words."""
    rows = list(labels.itertuples(index=False))
    named = ("labels", "standing")
    labels = labels.assign(
        **{name: labels[name].replace(list(NO_LABEL), "") for name in named if name in labels}
    )
    table = labels.assign(phrase=[function_phrase(row) for row in rows])
    if "structure" not in labels:
        return table
    return table.assign(structure_phrase=[structure_phrase(row) for row in rows])
