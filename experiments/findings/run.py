"""What the results say, on one page that is made from their tables.

    python experiments/findings/run.py

writes docs/findings.md, and the figure of each of its claims in docs/figures/.
"""

import math
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from attnlab.ablation import contrasts, over_models
from attnlab.budget import FULL
from attnlab.core import SITES, write_text
from attnlab.figures import save_figure
from attnlab.questions.align.question import CHOSEN
from experiments.aligners.run import most_text
from experiments.alignment.readme import both_directions
from experiments.check.reduced import DEFECT
from experiments.findings.figure import draw_forming, draw_mismatches, draw_models, draw_plans
from experiments.head_costs.run import COST, PREDICTORS, WITHIN
from experiments.head_roles.run import CAPTIONS, LABELS, NONE, shares_of_threshold
from experiments.heads_over_training.readings import INDUCTION_HEAD
from experiments.heads_over_training.run import even_weight
from experiments.plan_ablation.run import CONTRASTS, SEARCHED, gained, gains, tested
from experiments.queries_and_keys.models import BIAS
from experiments.reproductions.run import OTHER, SAME, rows_of
from experiments.shared.readme import RESULTS, estimate, read_table, render, row_of
from experiments.shared.translators import bleu_range
from experiments.static_heads.run import ALL, VARIANCE
from experiments.static_heads.tables import FITTED
from experiments.thesis.run import ALIKE, MODEL, NEARER
from experiments.trained_mechanisms.models import BAND, GAUSSIAN, RARE
from experiments.trained_mechanisms.run import differences, estimated
from experiments.windows_by_language.run import share_of_sentence, view_of

DOCS = RESULTS.parent / "docs"
PAGE, FIGURES = DOCS / "findings.md", "figures"
WINDOW_AND_ENDS = "a window with first or last keys a site"
# The arms of plans that are drawn, and what they are called.
DRAWN = {
    SEARCHED: "a pattern per head",
    CONTRASTS[1]: "the same, of windows, first and last keys",
    WINDOW_AND_ENDS: "one window a site with first or last keys",
    CONTRASTS[0]: "Longformer",
    BAND: "one window",
}
# What is drawn for claims of models: what arms and sites are called.
ENCODERS = {
    GAUSSIAN: "Gaussian", BAND: "window of 5 keys", FULL: "full attention", BIAS: "full with relative bias",
    RARE: "window and rare tokens", "none": "no attention",
}  # fmt: skip
SITE_NAMES = {"encoder": "encoder", "decoder": "decoder", "cross": "cross-attention", ALL: "all"}
# Heads of a pruned model that are compared with as many random ones.
PRUNED = (17, 14)
Row = dict[str, Any]


def main() -> None:
    """Writes the page and its figures."""
    for name, figure in figures(RESULTS).items():
        save_figure(figure, DOCS / FIGURES / f"{name}.svg")
    write_text(PAGE, page(RESULTS))


def page(results: Path) -> str:
    """The page, from the tables of a folder of results."""
    return render(
        __file__, {"versions": {}, "date": ""}, estimate=estimate, bleus=bleu_range,
        reproduced=reproduced(results),
        queries=queries(results), trained=trained(results), static=static(results), checked=checked(results),
        plans=plans(results), forming=forming(results), windows=windows(results),
        thesis=thesis(results), pruning=pruning(results), costs=costs(results),
        labels=labels(results), language=language_model(results), aligned=aligned(results),
        minilm=minilm(results),
    )  # fmt: skip


def figures(results: Path) -> dict[str, Figure]:
    """The figures of the claims, by name."""
    models = read_table(results / "queries_and_keys", "table").replace({"arm": ENCODERS})
    plans = read_table(results / "plan_ablation", "over_models")
    training = results / "heads_over_training"
    heads = read_table(training, "heads")
    strongest = heads[heads["label"] == "alignment"].groupby(["seed", "step"], as_index=False)
    every = every_head_static(results).replace({"scope": SITE_NAMES})
    return {
        "trained_encoders": of_groups(models, "arm", "bleu", "test BLEU"),
        "static_heads": of_groups(every, "scope", "bleu_change", "change of BLEU"),
        "mismatches": draw_mismatches(mismatches(results)),
        "plans": draw_plans(plans, DRAWN),
        "forming": draw_forming(
            strongest[["strength"]].max(), read_table(training, "quality")
        ),
    }  # fmt: skip


def of_groups(table: pd.DataFrame, group: str, measure: str, label: str) -> Figure:
    """A measure of models by group, the largest mean first."""
    found = over_models(table, [group], [measure]).sort_values(measure, ascending=False)
    means = found.set_index(group)[[measure, f"{measure}_low", f"{measure}_high"]]
    points = {name: table.loc[table[group] == name, measure].tolist() for name in means.index}
    return draw_models(points, means.set_axis(["mean", "low", "high"], axis=1), label)


def queries(results: Path) -> Row:
    """What Gaussian weights change against full attention with a relative bias."""
    folder = results / "queries_and_keys"
    found, table = read_table(folder, "contrasts"), read_table(folder, "table")
    loss, bleu = (row_of(found, contrast=measure) for measure in ("loss", "bleu"))
    ends = ("difference", "difference_low", "difference_high")
    return {
        "bleu": bleu, "perplexity": {name: percent(loss[name]) for name in ends},
        "of_bias": table.loc[table["arm"] == BIAS, "bleu"],
        "over_full": row_of(
            read_table(folder, "against"), arm=GAUSSIAN, measure="bleu", reference=FULL
        ),
    }  # fmt: skip


def trained(results: Path) -> Row:
    """BLEU against full attention of models trained with other attention in the encoder."""
    table = read_table(results / "trained_mechanisms_long", "table")
    short = read_table(results / "trained_mechanisms", "table")
    bleu = estimated(table, "bleu").set_index("arm").to_dict("index")
    rare = contrasts({RARE: differences(table, RARE, BAND, "bleu")})
    return {
        "gaussian": bleu[GAUSSIAN], "none": bleu["none"], "band": bleu[BAND],
        "rare": row_of(rare, contrast=RARE),
        "band_early": row_of(estimated(short, "bleu"), arm=BAND),
        "bleu": table.loc[table["arm"] == FULL, "bleu"],
        "epochs": int(table["epochs"].max()), "early": int(short["epochs"].max()),
    }  # fmt: skip


def every_head_static(results: Path) -> pd.DataFrame:
    """Rows of models all of whose heads of a site, or of all sites, are static."""
    table = read_table(results / "static_heads", "table")
    return table[(table["share"] == 1) & (table["form"] == FITTED)]


def static(results: Path) -> Row:
    """Change of BLEU by site with all its heads static."""
    every = every_head_static(results)
    found = over_models(every, ["scope"], ["bleu_change"]).set_index("scope").to_dict("index")
    table = read_table(results / "static_heads", "table")
    deep = read_table(results / "static_heads_6_layers", "over_models")
    six = row_of(deep, scope=SITES[0], order=VARIANCE, share=1)
    return {"sites": found, "six_layers": six, "bleu": table.loc[table["share"] == 0, "bleu"]}


def mismatches(results: Path) -> pd.DataFrame:
    """How many architectures have a mismatch, by property and kind of cause, the most frequent first."""
    wrong = read_table(results / "check", "mismatches")
    counts = wrong.groupby(["property", "kind"])["architecture"].nunique().unstack(fill_value=0)
    return counts.loc[counts.sum(axis=1).sort_values(ascending=False, kind="stable").index]


def checked(results: Path) -> Row:
    """How many architectures were checked, and how many attend otherwise than they are configured to."""
    wrong = read_table(results / "check", "mismatches")
    return {
        "architectures": int(read_table(results / "check", "architectures")["checked"].sum()),
        "wrong": wrong["architecture"].nunique(),
        "mismatches": len(wrong),
        "defects": int((wrong["kind"] == DEFECT).sum()),
    }


def plans(results: Path) -> Row:
    """BLEU and loss that a searched plan gains over other arms, means over its budgets."""
    table = read_table(results / "plan_ablation", "table")
    others = read_table(results / "plan_ablation_other_texts", "table")
    bleu = gained(table, "bleu_gain").set_index("contrast").to_dict("index")
    loss = row_of(tested(table), contrast=CONTRASTS[1])["difference"]
    whole = table[table["arm"] == FULL]
    return {
        "band": over(table, BAND), "window_and_ends": over(table, WINDOW_AND_ENDS),
        "longformer": bleu[CONTRASTS[0]], "ends": bleu[CONTRASTS[1]],
        "ends_perplexity": percent(-loss), "other_texts": over(others, BAND),
        "bleu": whole["bleu"], "visible_keys": whole["visible_keys"].mean(),
    }  # fmt: skip


def over(table: pd.DataFrame, arm: str) -> Row:
    """BLEU of the searched plan minus that of another arm."""
    means = gains(table)
    found = contrasts({arm: means.loc[means["arm"] == arm, "bleu_gain"].tolist()})
    return row_of(found, contrast=arm)


def percent(nats: float) -> float:
    """A change of the loss as percent of perplexity."""
    return 100 * math.expm1(nats)


def forming(results: Path) -> Row:
    """When alignment heads and BLEU are halfway."""
    folder = results / "heads_over_training"
    ends = read_table(folder, "quality").groupby("seed").last()
    over = read_table(folder, "over_seeds")
    return {
        "ratio": row_of(
            read_table(folder, "contrasts"), contrast="alignment heads before BLEU"
        ),
        "heads": row_of(over, site="cross", label="alignment")["share"],
        "BLEU": row_of(over, site="model", label="BLEU")["share"],
        "bleu": ends["BLEU"],
    }  # fmt: skip


def windows(results: Path) -> dict[str, Row]:
    """By text, the window of German as a share of a sentence, and keys that columns save."""
    found = {}
    for text in ("multi30k", "bible"):
        folder = results / f"windows_{text}"
        models, described = read_table(folder, "by_model"), read_table(folder, "models")
        own = view_of(models)
        found[text] = {
            "share": share_of_sentence(models, described),
            "columns": own["num_pos"].mean(), "window_keys": own["window_keys"].mean(),
            "saved": (own["window_keys"] - own["best_keys"]).mean(),
            "models": len(described), "bleu": described["bleu"],
        }  # fmt: skip
    return found


def thesis(results: Path) -> Row:
    """What figures show of encoders, and the published distances."""
    folder = results / "thesis"
    published, heads = read_table(folder, "published"), read_table(folder, "heads")
    encoder = heads[heads["site"] == "encoder"].groupby([*MODEL, "trained"])["rank"].mean()
    start = row_of(read_table(folder, "starts"), init="default")
    nearer, low, high = (-start[f"{NEARER}{end}"] for end in ("", "_high", "_low"))
    return {
        "rank": encoder.groupby("trained").mean(),
        "alike": row_of(read_table(folder, "contrasts"), contrast=ALIKE),
        "uniform": {"nearer": nearer, "nearer_low": low, "nearer_high": high},
        "uniform_models": start["models"], "bleu": read_table(folder, "models")["bleu"],
        "published": len(published),
        "worse": int((published["published"] >= published["zero_matrix"]).sum()),
        "times": published["published"].sum() / published["exact_free"].sum(),
    }  # fmt: skip


def pruning(results: Path) -> list[Row]:
    """Change of test BLEU of a pruned model and of one with as many random heads pruned."""
    table = read_table(results / "heads_of_small_models" / "tatoeba", "pruning")
    test = table[table["split"] == "test"]
    return [
        {
            kind: row_of(test, kind=kind, heads_left=left)
            for kind in ("pruned", "random")
        } | {"left": left, "heads": int(test["head_count"].max()), "bleu": test["bleu"].iloc[0]}
        for left in PRUNED
    ]  # fmt: skip


def costs(results: Path) -> Row:
    """Rank correlations of figures with the cost of a head, and what heads of the encoder cost."""
    folder = results / "head_costs"
    table = read_table(folder, "table")
    encoder = table[table["site"] == "encoder"].groupby("mechanism")[COST].mean()
    (output,) = (
        row
        for row in read_table(folder, "contrasts").to_dict("records")
        if row["contrast"] == f"{PREDICTORS['output']} minus {PREDICTORS['mass']}"
    )
    return {
        "own": row_of(read_table(folder, "over_models"), site=WITHIN),
        "output": output,
        "least": percent(encoder.min()),
        "most": percent(encoder.max()),
        "bleu": read_table(folder, "models")["bleu"],
    }


def labels(results: Path) -> Row:
    """How near encoder heads of models of six layers come to their closest label."""
    folder = results / "head_roles_6_layers"
    table = read_table(folder, "table")
    shares = shares_of_threshold(table)[SITES[0]]
    captions = table[(table["text"] == CAPTIONS) & (table["site"] == SITES[0])]
    return {
        "heads": len(shares), "labelled": int((captions[LABELS] != NONE).sum()),
        "median": shares.median(), "most": shares.max(),
        "bleu": read_table(folder, "models")["bleu"],
    }  # fmt: skip


def language_model(results: Path) -> Row:
    """The weight of the strongest induction head, and that of even attention."""
    folder = results / "heads_over_training_language_model"
    ends = read_table(folder, "quality").groupby("seed").last()
    over = read_table(folder, "over_seeds")
    return {
        "induction": row_of(over, site="decoder", label=INDUCTION_HEAD)["end"],
        "even": even_weight(), "models": len(ends), "perplexity": ends["loss"].map(math.exp),
    }  # fmt: skip


def aligned(results: Path) -> Row:
    """Alignment error rates of heads of both directions, of chosen heads, and of aligners."""
    folder = results / "alignment"
    systems, models = read_table(folder, "systems"), read_table(folder, "models")
    (both,) = both_directions(read_table(folder, "directions"), systems)
    spanish = systems[(systems["system"] == CHOSEN) & (systems["text"] == "en-es")]
    heads = both["heads"]
    model = row_of(models, **{name: heads[name] for name in ("text", "layers", "seed")})
    ends = ("aer", "aer_low", "aer_high")
    return {
        "heads": {name: 100 * heads[name] for name in ends},
        "spanish": [100 * one for one in spanish["aer"]], "bleu": model["validation_bleu"],
        "aligners": most_text(results / "aligners"),
    }  # fmt: skip


def reproduced(results: Path) -> Row:
    """How many claims of papers were judged, agree with our figures, and go the other way."""
    verdicts = [row["verdict"] for row in rows_of(results)]
    return {
        "claims": len(verdicts), "same": verdicts.count(SAME), "other": verdicts.count(OTHER),
    }  # fmt: skip


def minilm(results: Path) -> float:
    """The least p-value of a change with depth in a pretrained encoder."""
    trends = read_table(results / "heads_of_minilm", "trends")
    return float(trends["p_layers_holm"].min())


if __name__ == "__main__":
    main()
