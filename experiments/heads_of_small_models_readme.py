"""The README and the figure of experiments/heads_of_small_models.py, from the tables it wrote."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
from heads_of_small_models_summary import SITES, in_short
from matplotlib.figure import Figure
from readme_parts import markdown, provenance

from attnlab.functions.agreement import agreement_table
from attnlab.functions.thresholds import LINKS
from attnlab.functions.verdict import BORDERLINE, HOLDS
from attnlab.reporting.canvas import INK, blank, panel, style

HEAD = ["site", "layer", "head"]
UNKNOWN = "unknown"
LEVEL = 0.05
SHOWN = 4

Models = dict[str, Path]


def report(models: Models) -> str:
    """The whole README."""
    about = {name: _about(folder) for name, folder in models.items()}
    first = next(iter(about.values()))
    minutes = ", ".join(f"{name} {one['processor_minutes']:g}" for name, one in about.items())
    checksums = ", ".join(f"{name} `{one['checksum'][:12]}`" for name, one in about.items())
    return f"""# What the heads of small translation models do, and what they are worth

Models of one and of three layers, 8 heads in every attention, trained by attnlab on captions
(multi30k, English to German) and on everyday sentences (tatoeba, English to Italian). Each model is
one training with one seed: intervals are over sentences, not over trainings.

In short:

{in_short(models)}

{markdown(models_table(models, about))}

BLEU is greedy, on test sentences, of the run as it was trained.

## What heads do

Labels on {first["labelled_sentences"]} test sentences of the corpus (all where it has fewer), chosen on
one half and reported on the other. A cell says for how many heads the label holds (the 95 % interval of
its figure lies above the threshold), for how many it is borderline (the threshold lies within), and for
how many it stands: the same head of the untrained model lies below the threshold, and a relation is
followed 10 points more often than on shuffled words. A head may carry several labels.

{markdown(label_counts(models, ""))}

These sentences have no gold trees, so nothing can be called syntactic there. On the first
{first["labelled_sentences"]} sentences of UD English-PUD (news and Wikipedia, another domain than the
training texts; the captions' models read them in lower case) the encoders' heads carry:

{markdown(label_counts(models, "_treebank"))}

{relations_in_words(models)}

## Do the labels agree with the shape of the matrices?

Cohen's kappa between a head's functional label and its structural one, the family of matrices that
describes it in fewest bits (corpus's own test sentences, all sites). Heads that two families describe
equally well (`tied`) are left out:

{markdown(kappas(models))}

## What heads are worth

Each head ablated alone (its output before the output projection replaced by zero) on
{first["weighed_sentences"]} test sentences: how many heads change the loss beyond chance at {LEVEL:.0%} after
Holm's correction, and how many change BLEU, downwards and upwards. Beside it the head that the loss
needs most.

{markdown(worth(models))}

Rank correlation (Spearman) of the measures over all heads of a model:

{markdown(measures(models))}

Is a head that carries a label worth more? Mean change of the loss, in nats a token, when the head is
zeroed, by label on the corpus's own sentences (labels that stand; a head of several counts for each):

{markdown(worth_by_label(models))}

## Pruning

Gates learned on training sentences together with the model, {first["pruning_steps"]} steps a penalty,
heads closed for good where the gate is likelier 0 than 1; test BLEU with the 95 % interval of the
change against the unpruned run. `fine-tuned` is the run trained as many steps further with every head,
`random` has as many heads of each site closed by chance and the rest trained as many steps.
Random heads are closed from the first step, so their models have longer to get used to it than pruned
ones, whose gates close on the way. Each point is one draw of random heads and one seed of gates: the
intervals, over sentences, do not hold what another draw would change.

![pruning curves](pruning.svg)

{markdown(pruning(models))}

`pruning.csv` has validation and loss too, `gates.csv` the gates.
{_warnings(about)}
Command: `python experiments/heads_of_small_models.py ../shared/data`. Processor minutes: {minutes}.
Corpora: {checksums}. Seed {first["seed"]}. {provenance("torch", "transformers", "sacrebleu")}
"""


def _about(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "about.json").read_text(encoding="utf-8"))


def _warnings(about: dict[str, dict[str, Any]]) -> str:
    found = [f"* {name}: {note}" for name, one in about.items() for note in one["warnings"]]
    return "\n".join(["\nNotes of the commands:\n", *found, ""]) if found else ""


def _table(folder: Path, name: str) -> pd.DataFrame:
    return pd.read_csv(folder / f"{name}.csv", keep_default_na=True)


def models_table(models: Models, about: dict[str, dict[str, Any]]) -> pd.DataFrame:
    """Size and quality of each model."""
    rows = []
    for name, folder in models.items():
        one, curve = about[name], _table(folder, "pruning")
        unpruned = curve[(curve["kind"] == "unpruned") & (curve["split"] == "test")].iloc[0]
        rows.append(
            {
                "model": name,
                "pair": one["pair"],
                "layers": f"{one['encoder_layers']} + {one['decoder_layers']}",
                "heads in all": int(unpruned["heads"]),
                "size": one["dim"],
                "parameters": f"{one['parameters']:,}",
                "epochs": one["epochs"],
                "test BLEU": f"{unpruned['bleu']:.1f}",
            }
        )
    return pd.DataFrame(rows)


def label_counts(models: Models, ending: str) -> pd.DataFrame:
    """For how many heads of each site each label holds, is borderline, and stands."""
    rows = []
    for name, folder in models.items():
        controls, labels = _table(folder, f"controls{ending}"), _table(folder, f"labels{ending}")
        for site in SITES:
            own = controls[controls["site"] == site]
            if own.empty:
                continue
            row: dict[str, Any] = {"model": name, "site": site}
            row["heads"] = int((labels["site"] == site).sum())
            for label, table in own.groupby("label", sort=False):
                near = [int((table["status"] == status).sum()) for status in (HOLDS, BORDERLINE)]
                row[str(label)] = f"{near[0]}, {near[1]}, {int(table['stands'].sum())}"
            of_site = labels[labels["site"] == site]
            unknown = [int((of_site[c] == UNKNOWN).sum()) for c in ("labels", "standing")]
            row[UNKNOWN] = f"{unknown[0]}, -, {unknown[1]}"
            rows.append(row)
    return pd.DataFrame(rows).fillna("-")


def relations_in_words(models: Models) -> str:
    """The table of relations with what it shows; a sentence where no head follows any."""
    table = relations(models)
    if table.empty:
        return "No head follows a relation, in either direction, by the rule."
    return f"""The best head of each relation and direction was chosen on one half of the sentences; the
figures are of the other half. Shown are the {SHOWN} relations of each model that gain most over
their most frequent offset in the choosing half; one stands when, by its interval, it gains 10 points
over that offset, over chance and over the same head on shuffled words, and the untrained model's head
does not. Stability is the share of bootstrap draws of the sentences in which offset and chance are
exceeded by as much
(`relations_treebank.csv` has all with {LINKS.needed} arcs or more in both halves).

{markdown(table)}"""


def relations(models: Models) -> pd.DataFrame:
    """The relations whose best head gains most over the offset baseline where it was chosen."""
    rows = []
    for name, folder in models.items():
        best = _table(folder, "relations_treebank")
        gain = (best["choosing_accuracy"] - best["choosing_baseline"]).astype(float)
        best = best.assign(gain=gain)
        rows += [
            {
                "model": name,
                "relation": f"{row['relation']} {row['direction']}",
                "head": f"{row['site']}.{row['layer']}.{row['head']}",
                "accuracy": f"{row['accuracy']:.2f} [{row['low']:.2f}, {row['high']:.2f}]",
                "offset alone": f"{row['baseline']:.2f}",
                "shuffled words": f"{row['shuffled_accuracy']:.2f}",
                "untrained": f"{row['untrained_accuracy']:.2f}",
                "arcs": int(row["links"]),
                "stability": f"{row['stability']:.2f}",
                "stands": row["stands_status"],
            }
            for row in best.nlargest(SHOWN, "gain").to_dict("records")
        ]
    return pd.DataFrame(rows)


def kappas(models: Models) -> pd.DataFrame:
    """Kappa of each model, all sites together."""
    rows = []
    for name, folder in models.items():
        row = agreement_table(_table(folder, "labels")).iloc[0]
        rows.append(
            {
                "model": name,
                "heads": int(row["heads"]),
                "tied": int(row["tied_heads"]),
                "with a label": int(row["labelled_heads"]),
                "agree": f"{row['observed_fraction']:.2f}",
                "by chance": f"{row['expected_fraction']:.2f}",
                "kappa": f"{row['kappa']:.2f} [{row['low']:.2f}, {row['high']:.2f}]",
            }
        )
    return pd.DataFrame(rows)


def worth(models: Models) -> pd.DataFrame:
    """How many heads of each site matter, and the one that matters most."""
    rows = []
    for name, folder in models.items():
        heads = _table(folder, "importance")
        for site in SITES:
            own = heads[heads["site"] == site]
            top = own.loc[own["zero_loss_change_nats"].idxmax()]
            changed = own["zero_loss_significant"].astype(bool)
            bleu = own[own["zero_bleu_significant"].astype(bool)]["zero_bleu_change"]
            rows.append(
                {
                    "model": name,
                    "site": site,
                    "heads": len(own),
                    "loss up": int((changed & (own["zero_loss_change_nats"] > 0)).sum()),
                    "loss down": int((changed & (own["zero_loss_change_nats"] < 0)).sum()),
                    "BLEU down": int((bleu < 0).sum()),
                    "BLEU up": int((bleu > 0).sum()),
                    "most needed": f"{site}.{top['layer']}.{top['head']}",
                    "its loss change": f"{top['zero_loss_change_nats']:+.3f}",
                    "its BLEU change": f"{top['zero_bleu_change']:+.1f}",
                }
            )
    return pd.DataFrame(rows)


def measures(models: Models) -> pd.DataFrame:
    """The rank agreement of each model's measures of importance."""
    tables = [
        _table(folder, "agreement_of_measures").assign(model=name)
        for name, folder in models.items()
    ]
    table = pd.concat(tables, ignore_index=True)
    return table[["model", *(name for name in table if name != "model")]].round(2)


def worth_by_label(models: Models) -> pd.DataFrame:
    """Mean loss change of the heads of each label, and how many they are."""
    rows = []
    for name, folder in models.items():
        heads = _table(folder, "importance").merge(
            _table(folder, "labels")[[*HEAD, "standing"]], on=HEAD
        )
        each = heads.assign(label=heads["standing"].str.split("; ")).explode("label")
        row: dict[str, Any] = {"model": name}
        for label, table in each.groupby("label"):
            row[str(label)] = f"{table['zero_loss_change_nats'].mean():+.3f} ({len(table)})"
        rows.append(row)
    table = pd.DataFrame(rows).fillna("-")
    return table[[name for name in table if name != UNKNOWN] + [UNKNOWN]]


def pruning(models: Models) -> pd.DataFrame:
    """Test rows of every curve."""
    rows = []
    for name, folder in models.items():
        curve = _table(folder, "pruning")
        for row in curve[curve["split"] == "test"].to_dict("records"):
            interval = f"[{row['bleu_change_low']:+.1f}, {row['bleu_change_high']:+.1f}]"
            rows.append(
                {
                    "model": name,
                    "kind": row["kind"],
                    "penalty": f"{row['penalty']:g}" if pd.notna(row["penalty"]) else "",
                    "heads left": f"{row['heads_left']} of {row['heads']}",
                    "encoder/decoder/cross": "/".join(str(row[f"{s}_left"]) for s in SITES),
                    "BLEU": f"{row['bleu']:.1f}",
                    "change": f"{row['bleu_change']:+.1f} {interval}",
                }
            )
    return pd.DataFrame(rows)


def draw_curves(curves: dict[str, pd.DataFrame]) -> Figure:
    """A panel a model: share of heads left against test BLEU, pruned and random, unpruned dashed."""
    width, height = 2.6, 2.0
    with style():
        figure = blank(0.6 + len(curves) * (width + 0.45), height + 1.15)
        for place, (name, curve) in enumerate(curves.items()):
            axes = panel(figure, 0.6 + place * (width + 0.45), 0.35, width, height)
            test = curve[curve["split"] == "test"]
            whole = test[test["kind"] == "unpruned"]["bleu"].iloc[0]
            axes.axhline(whole, color=INK, linewidth=0.8, linestyle="--", label="unpruned")
            for kind, colour in (("random", "#9aa3ad"), ("pruned", "#2178d9")):
                own = test[test["kind"] == kind].sort_values("heads_left")
                axes.plot(
                    own["heads_left"], own["bleu"], "o-", color=colour, markersize=4, label=kind
                )
            axes.set_title(name, loc="left")
            axes.set(xlabel="heads left", ylim=(0, None))
            axes.spines[["top", "right"]].set_visible(False)
        figure.axes[0].set_ylabel("test BLEU (greedy)")
        handles, names = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="lower center", ncols=3, frameon=False)
    return figure
