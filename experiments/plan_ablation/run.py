"""What a searched plan owes to its families of mechanisms, to its criterion and to its freedom.

    python experiments/plan_ablation/run.py ../shared/data --only multi30k-en-fr multi30k-en-fr-d128
    python experiments/plan_ablation/run.py ../shared/data --other-texts --seeds 1

writes results/plan_ablation/ or, of other texts than captions, results/plan_ablation_other_texts/: a row a
model, budget and arm. The arms and the two contrasts below were fixed before a model was read. Models whose
rows are there are not read again.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from attnlab.ablation import contrasts, over_models
from attnlab.attention import attention_modules
from attnlab.budget import FULL, BudgetedPlan
from attnlab.core import quiet, write_table
from attnlab.evaluation import Evaluator, Parts, Steps, evaluator_of, model_and_texts, parts_of
from attnlab.figures import save_figure
from attnlab.models import Model, Run
from attnlab.questions.compare.comparison import compare
from attnlab.questions.plan.criteria import costs
from attnlab.questions.plan.question import BASELINES, CRITERIA, DEFAULT_FAMILIES, LAYER
from attnlab.questions.plan.search import Search
from attnlab.reading import Observed, observe, sites_of
from experiments.plan_ablation.figure import draw_arms
from experiments.shared.readme import (
    RESULTS,
    estimate,
    put_rows,
    read_facts,
    read_table,
    render,
    write_readme,
)
from experiments.shared.translators import (
    MODEL,
    OTHER_TEXTS,
    bleu_range,
    models_of,
    names_of,
    parser_of_models,
    put_facts,
)

OUT = RESULTS / "plan_ablation"
OTHERS = RESULTS / "plan_ablation_other_texts"
BUDGETS = (3, 4, 5)
SENTENCES, VALIDATION, CALIBRATION, SEED, DIGITS = 300, 300, 500, 0, 6
SEARCHED = "all families"
# By arm: what the search is told. With one layer, a mechanism a layer is one a site.
ARMS: dict[str, dict[str, Any]] = {
    SEARCHED: {},
    "bands": {"families": ("band",)},
    "bands and first or last keys": {"families": ("band", "ends")},
    "bands, rare tokens and blocks": {"families": ("band", "tokens", "blocks")},
    "all families, by l1": {"criterion": "l1"},
    "all families, by output error": {"criterion": "output"},
    "all families, by divergence": {"criterion": "divergence"},
    "a band a site": {"families": ("band",), "granularity": LAYER},
    "a window with first or last keys a site": {"families": ("ends",), "granularity": LAYER},
}
# One setting a site, nearest by l1 on validation sentences: a band, Longformer and BigBird, whose sites share
# the budget as those of a plan do, and sigma with columns of most trained attention.
UNIFORM = (SIGMA := "sigma salience", "longformer", "band", "bigbird")
# Loss of the arm minus that of the search of all families, mean over the budgets; models are the units.
CONTRASTS = ("longformer", "bands and first or last keys")
# Shown by model beside those of the contrasts.
BESIDE = ("bands", "all families, by l1", "all families, by divergence")
SHOWN = [
    "visible_keys", "error", "loss", "loss_change", "loss_gain", "bleu", "bleu_change", "bleu_gain",
    "length_ratio",
]  # fmt: skip


def main() -> None:
    """Measures each model that is asked for, and writes tables, figure and README."""
    parser = parser_of_models(__doc__, sentences=SENTENCES)
    parser.add_argument("--other-texts", action="store_true", help="models of no captions")
    chosen = parser.parse_args()
    out, among = (OTHERS, OTHER_TEXTS) if chosen.other_texts else (OUT, None)
    for model, run in models_of(chosen, out, among):
        with quiet():
            rows = measured(run, chosen.sentences)
        put_rows(out, "table", model, rows.round(DIGITS))
        print(model, rows.to_string(), sep="\n", flush=True)
    put_facts(out, __file__)
    write_result(out)


def measured(
    run: Run, sentences: int = SENTENCES, budgets: tuple[int, ...] = BUDGETS
) -> pd.DataFrame:
    """A row an arm and budget of one model, and the row of full attention; gains are of all families."""
    model, texts = model_and_texts(run, sentences=sentences, scores=True)
    parts = parts_of(model, texts, calibration=CALIBRATION, validation=VALIDATION, with_loss=True)
    plans = found_plans(model, parts, budgets)
    compared = compare(
        run, budgets, mechanisms=(SIGMA,), plans=plans, against=SEARCHED, sentences=sentences,
        seed=SEED,
    )  # fmt: skip
    rows = compared.summary
    # Of the sites one by one, sigma is no arm.
    together = rows["sites"] == rows["sites"].loc[rows["mechanism"] == SEARCHED].iloc[0]
    rows = rows[together | (rows["mechanism"] == FULL)].rename(columns={"mechanism": "arm"})
    return rows[["budget", "arm", "setting", *SHOWN]]


def found_plans(model: Model, parts: Parts, budgets: Sequence[int]) -> list[BudgetedPlan]:
    """The plan of each arm and budget, as `attnlab plan` finds it, and those with one setting a site.

    The families of an arm have their candidates in common with the search of all families, so that each is
    tried by a criterion once for all arms.
    """
    sites = sites_of(model.model, parts.test, None)
    heads = {
        (at.site, layer): at.heads for at in attention_modules(model.model) for layer in at.layers
    }
    searches = {
        arm: Search(
            budgets, options.get("families", DEFAULT_FAMILIES),
            heads if options.get("granularity") == LAYER else None,
        )
        for arm, options in ARMS.items()
    }  # fmt: skip
    for part, receive in ((parts.calibration, Search.learn), (parts.validation, Search.measure)):
        observe(model.model, part, sites, partial(_hand_to_all, searches.values(), receive))
    evaluator = evaluator_of(model, parts.validation)
    known: dict[str, dict[Any, float]] = {name: {} for name in CRITERIA}
    plans = []
    for arm, options in ARMS.items():
        search, criterion = searches[arm], options.get("criterion", "loss")
        found = None
        if criterion != "l1":
            shortlist, prices = search.shortlist(), known[criterion]
            new = {
                unit: [one for one in own if (unit, one.specification) not in prices]
                for unit, own in shortlist.items()
            }
            prices |= costs(
                criterion,
                new,
                evaluator,
                partial(_read, model, evaluator),
                partial(Steps, progress=None),
            )
            found = {
                (unit, one.specification): prices[unit, one.specification]
                for unit, own in shortlist.items()
                for one in own
            }
        plans += [
            BudgetedPlan(search.searched(budget, found).plan(), arm, budget) for budget in budgets
        ]
    uniform = [(name, budget) for name in BASELINES for budget in budgets]
    settings = [(*one, searches[SEARCHED].baseline(*one)) for one in uniform]
    return plans + [
        BudgetedPlan(own.plan(), name, budget) for name, budget, own in settings if own is not None
    ]


def _hand_to_all(
    searches: Iterable[Search], receive: Callable[[Search, Observed], None], layer: Observed
) -> None:
    for search in searches:
        receive(search, layer)


def _read(model: Model, evaluator: Evaluator, receive: Callable[[Observed], None]) -> None:
    sites = sites_of(model.model, evaluator.sentences, None)
    observe(model.model, evaluator.sentences, sites, receive)


def gains(table: pd.DataFrame) -> pd.DataFrame:
    """A row a model and arm: means over the budgets."""
    rows = table[table["arm"].isin([*ARMS, *UNIFORM])]
    grouped = rows.groupby([*MODEL, "arm"], as_index=False, sort=False)
    return grouped[["loss_change", "bleu_change", "loss_gain", "bleu_gain"]].mean()


def tested(table: pd.DataFrame) -> pd.DataFrame:
    """The contrasts that were fixed beforehand: loss of the arm minus that of all families, over models."""
    return gained(table, "loss_gain")


def gained(table: pd.DataFrame, gain: str) -> pd.DataFrame:
    """What the search of all families gains over the arms of the contrasts, over models."""
    means = gains(table)
    return contrasts({arm: means.loc[means["arm"] == arm, gain].tolist() for arm in CONTRASTS})


def write_result(folder: Path) -> None:
    """The tables over models, the figure, the facts and the README of the rows in a folder."""
    table = read_table(folder, "table")
    write_table(folder / "contrasts.csv", tested(table).round(DIGITS))
    models = over_models(table[table["arm"] != FULL], ["budget", "arm"], SHOWN)
    write_table(folder / "over_models.csv", models.round(DIGITS))
    save_figure(draw_arms(models), folder / "arms.svg")
    write_readme(folder, readme(folder))


def readme(folder: Path) -> str:
    """The README of the result, from its tables and facts."""
    table, models = read_table(folder, "table"), read_table(folder, "over_models")
    whole = table[table["arm"] == FULL]
    return render(
        __file__, read_facts(folder),
        models=len(whole), names=names_of(whole["corpus"]), bleus=bleu_range(whole["bleu"]),
        visible_keys=whole["visible_keys"].mean(),
        contrasts=read_table(folder, "contrasts").to_dict("records"), estimate=estimate,
        more_bleu=gained(table, "bleu_gain").set_index("contrast").to_dict("index"),
        budgets=BUDGETS, arms=shown(models), by_model=by_model(table), sentences=SENTENCES,
        captions=not whole["corpus"].isin(OTHER_TEXTS).any(),
    )  # fmt: skip


def shown(models: pd.DataFrame) -> pd.DataFrame:
    """Change of loss and BLEU of each arm, a column a budget; those that cost least first."""
    order = models.groupby("arm")["loss_change"].mean().sort_values().index
    rows = []
    for arm in order:
        row = {"arm": arm}
        for one in models[models["arm"] == arm].to_dict("records"):
            row[f"{one['budget']:.0f} keys"] = (
                f"{one['loss_change']:+.3f} [{one['loss_change_low']:+.3f}, "
                f"{one['loss_change_high']:+.3f}], {estimate(one, 'bleu_change', '+.1f')}, "
                f"{one['visible_keys']:.2f}"
            )
        rows.append(row)
    return pd.DataFrame(rows)


def by_model(table: pd.DataFrame) -> pd.DataFrame:
    """A row a model: what the search of all families costs, and how much more some other arms do."""
    means = gains(table).set_index("arm")
    whole = table[table["arm"] == FULL].set_index(MODEL)["bleu"]
    found = pd.DataFrame({"BLEU": whole.map("{:.1f}".format)})
    costs = means.loc[[SEARCHED]].set_index(MODEL)["loss_change"]
    found[SEARCHED] = costs.map("{:+.3f}".format)
    for arm in (*CONTRASTS, *BESIDE):
        if arm in means.index:
            more = means.loc[[arm]].set_index(MODEL)["loss_gain"]
            found[f"{arm}: more"] = more.map("{:+.3f}".format)
    return found.reset_index()


if __name__ == "__main__":
    main()
