"""The part of the report that says what each head does, and what speaks against it."""

import pandas as pd

from attnlab.heads.functions.syntactic import best_heads
from attnlab.reporting.naming import head_names
from attnlab.reporting.page import PageTable, Section, page_table
from attnlab.studies.labelling import Labelling

_MOST_RELATIONS = 40
_LEAST_LINKS = 100
_EVIDENCE = [
    "head_name",
    "label",
    "detail",
    "statistic",
    "value",
    "low",
    "high",
    "threshold",
    "untrained_value",
    "shuffled_value",
    "denominator",
    "stands",
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
    "stands",
]


def label_sections(labelling: Labelling | None) -> list[Section]:
    """Sections about labels and relations; none where heads were not labelled."""
    if labelling is None:
        return []
    labels = labelling.labels.assign(head_name=head_names(labelling.labels))
    tables = [page_table(labels, ["head_name", "labels", "standing"])]
    holding = labelling.controls[labelling.controls["holds"]]
    if len(holding):
        named = _in_words(holding).assign(head_name=head_names(holding))
        tables.append(page_table(named, _EVIDENCE))
    sections = [
        Section(
            "labels",
            "What each head does",
            f"{count_labels(labelling.labels)}. A label is measured on one half of the sentences; what "
            "was picked out of many (an offset, a relation) was picked on the other half. It stands "
            "when the same head of an untrained model does not carry it too; a relation must also "
            "be followed more often than on shuffled words. The second table gives the figure behind "
            "each label, beside the same figure on shuffled words. All figures, "
            "those of labels that do not hold too, are in controls.csv.",
            tuple(tables),
        )
    ]
    return [*sections, *_relation_section(labelling.relations)]


def count_labels(labels: pd.DataFrame) -> str:
    """How many heads carry each label, as a phrase; a head of several labels counts for each.

    >>> count_labels(pd.DataFrame({"labels": ["sink; broad", "unknown", "sink"]}))
    '2 sink, 1 broad, 1 unknown (3 heads)'
    """
    counts = labels["labels"].str.split("; ").explode().value_counts()
    ordered = sorted(counts.items(), key=lambda pair: (pair[0] == "unknown", -pair[1], pair[0]))
    return ", ".join(f"{count} {label}" for label, count in ordered) + f" ({len(labels)} heads)"


def _relation_section(relations: pd.DataFrame) -> list[Section]:
    if relations.empty:
        return []
    best = pd.concat([best_heads(rows) for _, rows in relations.groupby("site", sort=False)])
    best = best[best["links"] >= _LEAST_LINKS].head(_MOST_RELATIONS)
    if best.empty:
        return []
    named = _in_words(best).assign(best_head=head_names(best))
    table: PageTable = page_table(named, _RELATION)
    return [
        Section(
            "relations",
            "Which head follows which relation",
            "For each relation between two words, and each direction, the head whose largest weight "
            "falls on the other word most often. The head was chosen on one half of the sentences, "
            "the figures are of the other half. The most frequent offset of the relation, picking "
            "a word at random, shuffled words and an untrained model stand beside it. Relations "
            f"with at least {_LEAST_LINKS} pairs; all heads are in relations.csv.",
            (table,),
        )
    ]


def _in_words(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(stands=table["stands"].map({True: "yes", False: "no"}))
