"""Which cheap figures of a head say what the model loses when it is replaced.

    python experiments/head_costs/run.py ../shared/data --only multi30k-en-fr multi30k-en-cs --seeds 3

writes results/head_costs/, a row a model, head and mechanism. Predictors are measured on validation
sentences, costs on test sentences. Predictors, mechanisms and contrasts were fixed before a model was read.
Models whose rows are there are not read again.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from attnlab.ablation import contrasts, over_models
from attnlab.attention import AttentionPlan, Band, Keys, Specification, use
from attnlab.budget import Layer, Measurements
from attnlab.core import Head, quiet, write_table
from attnlab.evaluation import Evaluator, Steps, evaluator_of, model_and_texts, parts_of
from attnlab.figures import save_figure
from attnlab.models import Run, score
from attnlab.questions.plan.criteria import Shortlist, costs
from attnlab.questions.plan.search import Candidate, Costs, Unit
from attnlab.reading import Observed, Sentences, observe, sites_of
from experiments.head_costs.figure import draw_predictors
from experiments.head_costs.rank_correlation import spearman
from experiments.shared.learned_heads import Learned, without_each
from experiments.shared.readme import (
    RESULTS,
    estimate,
    put_rows,
    read_facts,
    read_table,
    render,
    row_of,
    write_readme,
)
from experiments.shared.translators import (
    MODEL,
    are_seeds_of_languages,
    bleu_range,
    by_depth,
    folder_of,
    layers_in,
    models_named,
    models_of,
    names_of,
    one_layer_rows,
    parser_of_models,
    put_facts,
    trained_otherwise,
)

OUT = RESULTS / "head_costs"
# Criteria of the model's output take 150 validation sentences at most; the others get the same.
SENTENCES, VALIDATION, CALIBRATION, DIGITS = 400, 150, 500, 6
# By column: what it is. Those that a criterion of `attnlab plan` measures are named as the criterion.
PREDICTORS = {
    "mass": "weight not captured",
    "l1": "l1 error",
    "norm": "l1 error, weights times value norms",
    "output": "output error",
    "gradient": "gradient times change of output",
    "divergence": "divergence of the model's output",
    "variance": "variance over sentences",
    "ablation": "loss without the head",
    "loss": "its own cost on validation sentences",
}
CRITERIA = ("mass", "norm", "output", "gradient", "divergence", "loss")
# Rank correlation of the first minus that of the second; models are the units.
CONTRASTS = (("divergence", "l1"), ("output", "mass"), ("ablation", "l1"))
WITHIN, ALL = "mean of sites", "all"
# The cost on all test sentences and on every other one, to see how far it agrees with itself.
COST = "loss_change"
HALVES = {"": slice(None), "_even": slice(0, None, 2), "_odd": slice(1, None, 2)}
AGREEMENT = "halves"


def main() -> None:
    """Measures each model that is asked for, and writes tables, figure and README."""
    chosen = parser_of_models(__doc__, sentences=SENTENCES).parse_args()
    out = folder_of(OUT, chosen)
    for model, run in models_of(chosen, out):
        with quiet():
            rows, whole = measured(run, chosen.sentences)
        put_rows(out, "models", model, pd.DataFrame([whole]).round(DIGITS))
        put_rows(out, "table", model, rows.round(DIGITS))
        print(model | whole, flush=True)
    put_facts(out, __file__)
    write_result(out)


def measured(run: Run, sentences: int = SENTENCES) -> tuple[pd.DataFrame, dict[str, float]]:
    """Predictors and cost of each head and mechanism of a model; loss and BLEU with all heads as they are."""
    model, texts = model_and_texts(run, sentences=sentences, scores=True)
    parts = parts_of(model, texts, calibration=CALIBRATION, validation=VALIDATION, with_loss=True)
    test, validation = (evaluator_of(model, part) for part in (parts.test, parts.validation))
    sites = sites_of(model.model, parts.test, None)

    def read(part: Sentences, receive: Callable[[Observed], None]) -> None:
        observe(model.model, part, sites, receive)

    learned = Learned(parts.calibration)
    read(parts.calibration, learned.add)
    shortlist = shortlist_of(learned)
    found: dict[str, Costs] = {
        name: costs(name, shortlist, validation, partial(read, validation.sentences), _steps)
        for name in CRITERIA
    }
    sums = Measurements(_wanted(shortlist), detailed=False)
    read(validation.sentences, sums.add)
    variances = {at: own.variance() for at, own in learned.moments.items()}
    alone, changes = without_each(validation), costs_of(test, shortlist)
    rows = []
    for case in found["loss"]:
        (head,), specification = case
        at = head.site, head.layer
        own, count = sums.at(at, specification, head.head), sums.rows[at]
        measures = {name: values[case] for name, values in found.items()} | {
            "l1": float(own.error) / count,
            "variance": float(variances[at][head.head]),
            "ablation": alone[head],
        }
        rows.append(
            {
                **head._asdict(), "mechanism": _family(shortlist, *case), "setting": str(specification),
                "visible_keys": float(own.nonzeros) / count,
                **{name: measures[name] for name in PREDICTORS}, **changes[case],
            }
        )  # fmt: skip
    whole = {
        "sentences": len(test),
        "loss": float(test.losses().sum() / test.tokens.sum()),
        "bleu": score(test.translations(), test.references).bleu,
    }
    return pd.DataFrame(rows), whole


def shortlist_of(learned: Learned) -> dict[Unit, list[Candidate]]:
    """Each head alone, with its bands of 3 and of 5 keys, and 5 keys of which are ends."""
    found: dict[Unit, list[Candidate]] = {}
    for at, sums in learned.sums.items():
        first, last = (1, 0) if at[0] == "decoder" else (1, 1)
        for head in range(len(sums.by_offset[0, 0])):
            near = sums.offsets_by_mass((first, last), head)[: 5 - first - last]
            found[Head(*at, head),] = [
                Candidate("band of 3 keys", Band(sums.best_window(head, 3))),
                Candidate("band of 5 keys", Band(sums.best_window(head, 5))),
                Candidate("5 keys with ends", Keys(tuple(sorted(near)), first, last)),
            ]
    return found


def costs_of(
    evaluator: Evaluator, shortlist: Shortlist
) -> dict[tuple[Unit, Specification], dict[str, float]]:
    """Change of the loss per token with each candidate alone in its head, on all sentences and on halves."""
    before, tokens = evaluator.losses(), evaluator.tokens
    behind = evaluator.reading_once()
    found = {}
    for unit, own in shortlist.items():
        reader = evaluator if unit[0].site == "encoder" else behind
        for one in own:
            with use(reader.model, AttentionPlan({str(unit[0]): one.specification})):
                reader.model.eval()
                change = reader.losses() - before
            found[unit, one.specification] = {
                COST + name: float(change[some].sum() / tokens[some].sum())
                for name, some in HALVES.items()
            }
    return found


def _family(shortlist: Shortlist, unit: Unit, specification: Specification) -> str:
    return next(one.family for one in shortlist[unit] if one.specification == specification)


def _wanted(shortlist: Shortlist) -> dict[Layer, dict[Specification, set[int]]]:
    """The heads of each specification, by layer."""
    wanted: dict[Layer, dict[Specification, set[int]]] = {}
    for (head,), own in shortlist.items():
        at = wanted.setdefault((head.site, head.layer), {})
        for one in own:
            at.setdefault(one.specification, set()).add(head.head)
    return wanted


def _steps(what: str, total: int) -> Steps:
    return Steps(what, total, None)


def correlations(table: pd.DataFrame) -> pd.DataFrame:
    """Spearman's rank correlation of each predictor with the cost, over heads, a row a model and site.

    Heads are ranked under each mechanism, and the correlations of the mechanisms averaged. `all` ranks
    the heads of all sites together, `mean of sites` is the mean of those within sites. `halves` is that of
    the costs on two halves of the test sentences: how far the cost agrees with itself.
    """
    measures = [*PREDICTORS, AGREEMENT]
    rows = []
    for model, whole in table.groupby(MODEL, sort=False):
        of_sites = [(str(site), own) for site, own in whole.groupby("site", sort=False)]
        found = {site: _ranked(own) for site, own in [*of_sites, (ALL, whole)]}
        found[WITHIN] = {
            name: float(np.mean([found[site][name] for site, _ in of_sites])) for name in measures
        }
        rows += [
            {**dict(zip(MODEL, model, strict=True)), "site": site, **own}
            for site, own in found.items()
        ]
    return pd.DataFrame(rows)


def _ranked(heads: pd.DataFrame) -> dict[str, float]:
    """Of each predictor, and of the costs on the halves of the sentences with each other."""
    pairs = {name: (name, COST) for name in PREDICTORS}
    pairs[AGREEMENT] = (f"{COST}_even", f"{COST}_odd")
    return {
        name: float(
            np.mean(
                [
                    spearman(own[one].to_numpy(), own[other].to_numpy())
                    for _, own in heads.groupby("mechanism")
                ]
            )
        )
        for name, (one, other) in pairs.items()
    }


def over_sites(table: pd.DataFrame) -> dict[str, dict[Any, Any]]:
    """Rank correlations over models, by site and over sites."""
    found = over_models(correlations(table), ["site"], [*PREDICTORS, AGREEMENT])
    return found.set_index("site").to_dict("index")  # type: ignore[return-value]


def tested(ranks: pd.DataFrame, units: Sequence[str]) -> pd.DataFrame:
    """The contrasts that were fixed beforehand, on the mean of the sites, of means of units."""
    own = ranks[ranks["site"] == WITHIN].groupby([*units], sort=False)[[*PREDICTORS]].mean()
    return contrasts(
        {
            f"{PREDICTORS[one]} minus {PREDICTORS[other]}": (own[one] - own[other]).tolist()
            for one, other in CONTRASTS
        }
    )


def write_result(folder: Path) -> None:
    """The tables over models, the figure and the README of the rows in a folder."""
    table = read_table(folder, "table")
    ranks = correlations(table)
    write_table(folder / "correlations.csv", ranks.round(DIGITS))
    models = over_models(ranks, ["site"], [*PREDICTORS, AGREEMENT])
    write_table(folder / "over_models.csv", models.round(DIGITS))
    write_table(folder / "contrasts.csv", tested(ranks, MODEL).round(DIGITS))
    if are_seeds_of_languages(table):
        by_language = tested(ranks, ["corpus"])
        write_table(folder / "contrasts_by_language.csv", by_language.round(DIGITS))
    save_figure(draw_predictors(models, PREDICTORS, WITHIN), folder / "predictors.svg")
    write_readme(folder, readme(folder))


def ranks_within(folder: Path) -> dict[str, str]:
    """Rank correlations with the cost within a site, mean of the sites, as they are shown."""
    own = row_of(read_table(folder, "over_models"), site=WITHIN)
    return {"models": str(own["models"])} | {
        words: estimate(own, name, ".2f") for name, words in PREDICTORS.items()
    }


def readme(folder: Path) -> str:
    """The README of the result, from its tables and facts."""
    table, models = read_table(folder, "table"), read_table(folder, "models")
    own = read_table(folder, "over_models").set_index("site").to_dict("index")
    ranked = sorted(PREDICTORS, key=lambda name: -float(own[WITHIN][name]))
    shown = pd.DataFrame(
        [
            {"predictor": PREDICTORS[name]}
            | {site: estimate(row, name, ".2f") for site, row in own.items()}
            for name in ranked
        ]
    )
    by_model = table.groupby([*MODEL, "site", "mechanism"], sort=False, as_index=False)
    price = over_models(
        by_model[[COST, "visible_keys"]].mean(), ["site", "mechanism"],
        [COST, "visible_keys"],
    )  # fmt: skip
    prices = pd.DataFrame(
        [
            {
                "site": row["site"], "mechanism": row["mechanism"],
                "keys per row": f"{row['visible_keys']:.2f}",
                "change of loss": estimate(row, COST, "+.4f"),
            }
            for row in price.to_dict("records")
        ]
    )  # fmt: skip
    costs = price.loc[price["site"] == "encoder", COST]
    shallow = one_layer_rows(folder, "table")
    beside = {} if shallow is None else over_sites(shallow)
    by_language = (
        read_table(folder, "contrasts_by_language") if are_seeds_of_languages(table) else None
    )
    heads = table.drop_duplicates([*MODEL, "site", "layer", "head"]).groupby(MODEL)
    return render(
        __file__, read_facts(folder), trained_otherwise=trained_otherwise,
        depths=by_depth(folder, ranks_within),
        layers=layers_in(table), shallow=beside, shallow_names=models_named(shallow),
        by_language=[] if by_language is None else by_language.to_dict("records"),
        heads=int(heads.size().max()), models=models, bleu=bleu_range(models["bleu"]),
        names=names_of(models["corpus"]),
        shown=shown, prices=prices, least=costs.min(), most=costs.max(), predictors=PREDICTORS,
        contrasts=read_table(folder, "contrasts").to_dict("records"), validation=VALIDATION,
        best=next(name for name in ranked if name != "loss"),
        agreement=AGREEMENT, own=own, within=WITHIN, estimate=estimate,
    )  # fmt: skip


if __name__ == "__main__":
    main()
