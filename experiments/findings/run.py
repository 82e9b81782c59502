"""What the results say, on one page that is made from their tables.

    python experiments/findings/run.py

writes docs/findings.md. Results whose folders are not there yet are named as not measured.
"""

from pathlib import Path
from typing import Any

import pandas as pd

from attnlab.ablation import over_models
from attnlab.budget import FULL
from attnlab.core import SITES, write_text
from attnlab.questions.align.question import CHOSEN
from experiments.alignment.figure import KIND, kind_name
from experiments.alignment.readme import both_directions
from experiments.head_costs.run import PREDICTORS, WITHIN
from experiments.head_roles.run import CAPTIONS, NONE, by_width, carried
from experiments.heads_of_small_models.readme import test_bleu
from experiments.heads_of_small_models.summary import models_with, sites_in_short
from experiments.heads_over_training.curves import ABOVE
from experiments.heads_over_training.readings import INDUCTION_HEAD, PREVIOUS_TOKEN
from experiments.shared.readme import RESULTS, read_table, render
from experiments.shared.sinks import sink_counts
from experiments.shared.translators import bleu_range
from experiments.static_heads.run import ALL, TESTED, VARIANCE
from experiments.thesis.run import ALIKE, EFFECTIVE_RANK, MODEL, NEARER
from experiments.trained_mechanisms.models import NO_DECODER

PAGE = RESULTS.parent / "docs" / "findings.md"
# Keys per row at which mechanisms are compared, and families left out of the searched plan.
BUDGET, ABLATED = 5, 4
OUTPUT_AGAINST_MASS = f"{PREDICTORS['output']} minus {PREDICTORS['mass']}"
Row = dict[str, Any]


def main() -> None:
    """Writes the page."""
    write_text(PAGE, page(RESULTS))


def page(results: Path) -> str:
    """The page, from the tables of a folder of results."""
    optional = {
        "models": models, "plan_ablation": plan_ablation,
        "plan_ablation_other_texts": plan_ablation, "windows_multi30k": windows,
        "windows_bible": windows, "head_costs": head_costs, "static_heads": static_heads,
        "heads_over_training": over_training, "trained_mechanisms": trained_mechanisms,
        "heads_over_training_language_model": over_training,
        "head_roles": head_roles, "head_roles_3_layers": head_roles,
        "head_roles_6_layers": head_roles, "trained_mechanisms_long": trained_mechanisms,
        "static_heads_3_layers": static_heads, "head_costs_3_layers": head_costs,
        "static_heads_6_layers": static_heads, "head_costs_6_layers": head_costs,
        "trained_mechanisms_decoder": trained_decoder,
    }  # fmt: skip
    return render(
        __file__, {"versions": {}, "date": ""}, estimate=estimate, bleus=bleu_range,
        small=small_models(results / "heads_of_small_models"),
        minilm=minilm(results / "heads_of_minilm"),
        thesis=thesis(results / "thesis"),
        search=plan_search(results / "plan_search"),
        aligned=alignment(results / "alignment"),
        **{
            name: read(results / name) if (results / name / "facts.json").exists() else None
            for name, read in optional.items()
        },
    )  # fmt: skip


def estimate(row: Row, name: str, digits: int = 2, sign: str = "+") -> str:
    """A figure in bold with its interval, where it has one."""
    value, low, high = (row[f"{name}{end}"] for end in ("", "_low", "_high"))
    ends = "" if pd.isna(low) else f" [{low:{sign}.{digits}f}, {high:{sign}.{digits}f}]"
    return f"**{value:{sign}.{digits}f}**{ends}"


def row_of(table: pd.DataFrame, **values: Any) -> Row:
    """The only row of a table with these values."""
    (row,) = table[(table[list(values)] == pd.Series(values)).all(axis=1)].to_dict("records")
    return {str(name): value for name, value in row.items()}


def small_models(folder: Path) -> Row:
    """Labels and importance of the heads by site, and BLEU of the models."""
    labelled, weighed = models_with(folder, "labels"), models_with(folder, "importance")
    scores = pd.Series([float(test_bleu(own)) for own in labelled.values()])
    return {"sites": sites_in_short(labelled, weighed), "models": len(labelled), "bleu": scores}


def head_roles(folder: Path) -> Row:
    """By site, the labels of heads on captions with their shares over models."""
    found = read_table(folder, "over_models")
    own = found[found["text"] == CAPTIONS]
    return {
        "sites": {
            str(site): rows.to_dict("records") for site, rows in own.groupby("site", sort=False)
        },
        "none": own[own["label"] == NONE].set_index("site").to_dict("index"),
        "bleu": read_table(folder, "models")["bleu"],
        "widths": by_width(read_table(folder, "table")),
        "languages": languages_in(carried(read_table(folder, "table"))),
    }


def languages_in(shares: pd.DataFrame) -> dict[str, float]:
    """By corpus, the share of monotone cross-attention heads on captions, mean of its seeds."""
    own = shares[(shares["text"] == CAPTIONS) & (shares["site"] == "cross")]
    means = own[own["label"] == "monotone"].groupby("corpus")["share"].mean()
    return {str(corpus): float(share) for corpus, share in means.items()}


def by_language(folder: Path) -> list[Row]:
    """The contrasts with the mean of the seeds of each language as a unit, where there are several seeds."""
    name = "contrasts_by_language"
    if not (folder / f"{name}.csv").exists():
        return []
    return [
        {str(key): one for key, one in row.items()}
        for row in read_table(folder, name).to_dict("records")
    ]


def minilm(folder: Path) -> Row:
    """How many heads are sinks by threshold, and the claims about layers."""
    controls = read_table(folder, "controls")
    trends = read_table(folder, "trends")
    return {
        "heads": len(read_table(folder, "labels")),
        "sinks": sink_counts(controls),
        "least_p": trends["p_layers_holm"].min(),
    }


def thesis(folder: Path) -> Row:
    """Contrasts, what figures show of encoders, and the published tables."""
    contrasts, published = read_table(folder, "contrasts"), read_table(folder, "published")
    shapes = read_table(folder, "heads")
    encoder = (
        shapes[shapes["site"] == "encoder"].groupby([*MODEL, "trained"]).mean(numeric_only=True)
    )
    return {
        "bleu": read_table(folder, "models")["bleu"],
        "near": row_of(contrasts, contrast=NEARER),
        "rank": row_of(contrasts, contrast=EFFECTIVE_RANK),
        "alike": row_of(contrasts, contrast=ALIKE),
        "starts": read_table(folder, "starts").set_index("init").to_dict("index"),
        "nearer": NEARER,
        "neighbours": {
            (row["init"], row["trained"]): row
            for row in over_models(
                encoder.reset_index(), ["init", "trained"], ["neighbours"], shares=["neighbours"]
            ).to_dict("records")
        },
        "numerical_rank": encoder.groupby("trained")["rank"].mean(),
        "published": len(published),
        "worse": int((published["published"] >= published["zero_matrix"]).sum()),
        "times": published["published"].sum() / published["exact_free"].sum(),
        "times_stochastic": published["published"].sum() / published["exact_stochastic"].sum(),
    }


def plan_search(folder: Path) -> Row:
    """Contrasts over corpora, and which families the search of one model needs."""
    ablation, scores = read_table(folder, "ablation"), read_table(folder, "models")
    least = int(ablation["budget"].min())
    by_budget = {
        budget: {
            row["families"]: row
            for row in ablation[ablation["budget"] == budget].to_dict("records")
        }
        for budget in (least, ABLATED)
    }
    return {
        "contrasts": read_table(folder, "contrasts").to_dict("records"),
        "bleu": scores["full_bleu"],
        "models": len(scores[["corpus", "layers", "seed"]].drop_duplicates()),
        "over": read_table(folder, "over_corpora").to_dict("records"),
        "ablation": by_budget[ABLATED],
        "budget": ABLATED,
        "fewest": by_budget[least],
        "least": least,
        "ablated_bleu": ablation["full_bleu"].iloc[0],
    }


def alignment(folder: Path) -> Row:
    """AER of other ways above the chosen heads by kind of model: mean, and its range over models.

    Of a model that is alone, its interval over sentence pairs.
    """
    contrasts, models = read_table(folder, "contrasts"), read_table(folder, "models")
    systems, kinds = read_table(folder, "systems"), []
    heads = systems[systems["system"] == CHOSEN]
    for key, own in contrasts.groupby(["text", "layers"], sort=False):
        text, layers = key
        found = models[(models["text"] == text) & (models["layers"] == layers)]
        several = len(found) > 1
        means = {
            name: {
                "aer": 100 * rows["difference"].mean(),
                "aer_low": 100 * (rows["difference"] if several else rows["difference_low"]).min(),
                "aer_high": 100
                * (rows["difference"] if several else rows["difference_high"]).max(),
            }
            for name, rows in own.groupby("contrast")
        }
        kinds.append(
            {"name": kind_name([text, layers]), "models": len(found), "means": means}
            | {"heads": 100 * heads[(heads[KIND] == [text, layers]).all(axis=1)]["aer"].mean()}
            | {"bleu": found["validation_bleu"], "both": _both_directions(folder, own.iloc[0])}
        )
    return {"kinds": kinds, "bleu": models["validation_bleu"]}


def _both_directions(folder: Path, kind: "pd.Series[Any]") -> Row | None:
    """Mean AER of links of both directions over the models of a kind that have both, and the aligner's."""
    if not (folder / "directions.csv").exists():
        return None
    directions, systems = read_table(folder, "directions"), read_table(folder, "systems")
    own = directions[(directions[KIND] == kind[KIND]).all(axis=1)]
    found = list(both_directions(own, systems))
    if not found:
        return None
    means = {
        name: 100 * sum(one[name]["aer"] for one in found) / len(found)
        for name in ("heads", "statistical")
    }
    return {"models": len(found), **means}


def models(folder: Path) -> Row:
    """The shared models."""
    table = read_table(folder, "table")
    return {"models": len(table), "bleu": table["bleu"], "corpora": sorted(set(table["corpus"]))}


def plan_ablation(folder: Path) -> Row:
    """The two contrasts, and what each arm costs at a budget."""
    table, over = read_table(folder, "table"), read_table(folder, "over_models")
    own = over[over["budget"] == BUDGET].sort_values("loss_change")
    return {
        "contrasts": read_table(folder, "contrasts").to_dict("records"),
        "rows": own.to_dict("records"),
        "bleu": table.loc[table["arm"] == FULL, "bleu"],
        "budget": BUDGET,
    }


def head_costs(folder: Path) -> Row:
    """What ranks heads most as their cost does, and the contrasts."""
    models = read_table(folder, "over_models")
    over = row_of(models, site=WITHIN)
    best = max((name for name in PREDICTORS if name != "loss"), key=lambda name: over[name])
    return {
        "over": over,
        "whole": row_of(models, site=ALL),
        "sites": [row_of(models, site=site) | {"site": site} for site in SITES],
        "best": best,
        "words": PREDICTORS[best],
        "contrasts": read_table(folder, "contrasts").to_dict("records"),
        "output_against_mass": OUTPUT_AGAINST_MASS,
        "by_language": by_language(folder),
        "bleu": read_table(folder, "models")["bleu"],
    }


def static_heads(folder: Path) -> Row:
    """What half of all heads cost made static by variance, and all of each site."""
    over = read_table(folder, "over_models")
    own = over[over["order"] == VARIANCE]
    table = read_table(folder, "table")
    return {
        "half": row_of(own, scope=ALL, share=TESTED),
        "every": own[own["share"] == 1].to_dict("records"),
        "contrasts": read_table(folder, "contrasts").to_dict("records"),
        "by_language": by_language(folder),
        "bleu": table.loc[table["share"] == 0, "bleu"],
    }


def trained_mechanisms(folder: Path) -> Row:
    """The contrasts of models trained with other attention in the encoder, and what none loses."""
    return trained(folder) | {"none": row_of(read_table(folder, "against_full"), arm="none")}


def trained_decoder(folder: Path) -> Row:
    """The contrasts of the decoder and of cross-attention, and what a decoder without attention loses."""
    against = read_table(folder, "against_full")
    without = against[against["arm"] == NO_DECODER].to_dict("records")
    return trained(folder) | {"without": without[0] if without else None}


def trained(folder: Path) -> Row:
    """The contrasts of models trained with other attention."""
    table = read_table(folder, "table")
    return {
        "contrasts": read_table(folder, "contrasts").to_dict("records"),
        "bleu": table.loc[table["arm"] == FULL, "bleu"],
        "epochs": table["epochs"].max(),
        "models": len(table),
    }


def windows(folder: Path) -> Row:
    """German against the others, trained and untrained, with the two tests."""
    contrasts = read_table(folder, "contrasts")
    own = contrasts[(contrasts["measure"] == "w90") & (contrasts["unit"] == "words")]
    own = own[own["keys"] == "words"].set_index("condition")
    scores = read_table(folder, "models")
    return {
        "folder": folder.name,
        "rows": own.to_dict("index"),
        "p": read_table(folder, "tests").set_index("test")["p_value"],
        "bleu": scores["bleu"],
        "models": len(scores),
    }


def over_training(folder: Path) -> Row:
    """When labels are halfway, and the contrasts; loss and BLEU (of models that translate) at the end."""
    ends = read_table(folder, "quality").groupby("seed").last()
    over = read_table(folder, "over_seeds").set_index(["site", "label"])
    return {
        "over": over.to_dict("index"),
        "contrasts": read_table(folder, "contrasts").set_index("contrast").to_dict("index"),
        "loss": ends["loss"],
        "bleu": ends.get("BLEU"),
        "labels": ["positional", "syntactic", "sink", PREVIOUS_TOKEN, INDUCTION_HEAD],
        "above": ABOVE,
    }


if __name__ == "__main__":
    main()
