"""What translation models lose when heads attend alike in every sentence, by which heads are chosen.

    python experiments/static_heads/run.py ../shared/data --only multi30k-en-fr multi30k-en-cs --seeds 3

writes results/static_heads/, a row a model and set of static heads. Static weights and variances are
learned on training sentences, orders of heads on training and validation sentences, losses and BLEU are of
test sentences. Orders and contrasts were fixed before a model was read. Models whose rows are there are not
read again.
"""

import math
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from attnlab.ablation import contrasts, over_models
from attnlab.attention import AttentionPlan, Mechanism, Specification, use
from attnlab.core import Head, quiet, write_table
from attnlab.evaluation import Evaluator, evaluator_of, model_and_texts, parts_of
from attnlab.figures import save_figure
from attnlab.models import Run, length_ratio, score
from attnlab.reading import observe, sites_of
from experiments.shared.learned_heads import Learned, without_each
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
from experiments.static_heads.figure import draw_shares
from experiments.static_heads.tables import FITTED, FORMS, static_heads

OUT = RESULTS / "static_heads"
SENTENCES, VALIDATION, CALIBRATION, DIGITS = 300, 150, 1000, 6
SHARES, DRAWS = (0.25, 0.5, 0.75), 3
ALL = "all"
# Heads are made static in this order, the first column first.
VARIANCE, ABLATION, OWN, RANDOM = (
    "variance over sentences", "loss without the head", "its own cost made static", "random",
)  # fmt: skip
# At half of all heads: change of the loss in this order minus that at random; models are the units.
CONTRASTS, TESTED = (VARIANCE, ABLATION), 0.5
CHANGES = ["loss_change", "perplexity_percent", "bleu_change", "length_ratio"]


class Case(NamedTuple):
    """Heads that are made static together: which, and why these."""

    scope: str
    order: str
    draw: int
    share: float
    form: str
    heads: frozenset[Head]


def main() -> None:
    """Measures each model that is asked for, and writes tables, figure and README."""
    chosen = parser_of_models(__doc__, sentences=SENTENCES).parse_args()
    out = folder_of(OUT, chosen)
    for model, run in models_of(chosen, out):
        with quiet():
            heads, rows = measured(run, chosen.sentences)
        put_rows(out, "heads", model, heads.round(DIGITS))
        put_rows(out, "table", model, rows.round(DIGITS))
        print(model, rows.to_string(), sep="\n", flush=True)
    put_facts(out, __file__)
    write_result(out)


def measured(run: Run, sentences: int = SENTENCES) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What the orders go by, a row a head, and what each set of static heads costs one model."""
    model, texts = model_and_texts(run, sentences=sentences, scores=True)
    parts = parts_of(model, texts, calibration=CALIBRATION, validation=VALIDATION, with_loss=True)
    test, validation = (evaluator_of(model, part) for part in (parts.test, parts.validation))
    learned = Learned(parts.calibration)
    observe(model.model, parts.calibration, sites_of(model.model, parts.test, None), learned.add)
    heads: list[dict[str, Any]] = []
    forms: dict[tuple[str, Head], Mechanism | Specification] = {}
    without = without_each(validation)
    for at, moments in learned.moments.items():
        variances = moments.variance().tolist()
        made = static_heads(at[0], moments, learned.sums[at])
        for number, variance in enumerate(variances):
            head = Head(*at, number)
            forms |= {(form, head): own[number] for form, own in made.items()}
            heads.append({**head._asdict(), VARIANCE: variance, ABLATION: without[head]})
    static = Replaced(validation, forms)
    for row in heads:
        head = Head(row["site"], row["layer"], row["head"])
        row[OWN] = static.loss(FITTED, frozenset([head])) - static.loss(FITTED, frozenset())
    table = pd.DataFrame(heads)
    return table, pd.DataFrame(list(_costs(Replaced(test, forms), cases_of(table))))


class Replaced:
    """A model with some heads made static: its loss per token and its translations."""

    def __init__(
        self, evaluator: Evaluator, forms: dict[tuple[str, Head], Mechanism | Specification]
    ) -> None:
        self.evaluator, self.forms = evaluator, forms
        self._behind, self._known = evaluator.reading_once(), dict[Any, float]()

    def loss(self, form: str, heads: frozenset[Head]) -> float:
        """Per token, in nats."""
        if (form, heads) not in self._known:
            inside = any(head.site == "encoder" for head in heads)
            reader = self.evaluator if inside else self._behind
            with use(reader.model, self._plan(form, heads)):
                reader.model.eval()
                self._known[form, heads] = float(reader.losses().sum() / reader.tokens.sum())
        return self._known[form, heads]

    def translations(self, form: str, heads: frozenset[Head]) -> list[str]:
        """Greedy ones."""
        with use(self.evaluator.model, self._plan(form, heads)):
            self.evaluator.model.eval()
            return self.evaluator.translations()

    def _plan(self, form: str, heads: frozenset[Head]) -> AttentionPlan:
        return AttentionPlan({str(head): self.forms[form, head] for head in sorted(heads)})


def cases_of(heads: pd.DataFrame) -> Iterator[Case]:
    """Shares of the heads of each site and of all sites by each order, and all of them in each form."""
    yield Case(ALL, "", 0, 0, FITTED, frozenset())
    for scope in (*heads["site"].unique(), ALL):
        own = heads if scope == ALL else heads[heads["site"] == scope]
        for order, draw, ordered in orders_of(own):
            for share in SHARES:
                some = frozenset(ordered[: round(share * len(ordered))])
                yield Case(scope, order, draw, share, FITTED, some)
        for form in FORMS:
            yield Case(scope, "", 0, 1, form, frozenset(ordered))


def orders_of(heads: pd.DataFrame) -> Iterator[tuple[str, int, Sequence[Head]]]:
    """The heads by each order, those that are made static first in front."""
    for order in (VARIANCE, ABLATION, OWN):
        rows = heads.sort_values(order, kind="stable")
        yield (
            order,
            0,
            [Head(*one) for one in rows[["site", "layer", "head"]].itertuples(index=False)],
        )
    for draw in range(DRAWS):
        shuffled = [Head(*one) for one in heads[["site", "layer", "head"]].itertuples(index=False)]
        random.Random(draw).shuffle(shuffled)
        yield RANDOM, draw, shuffled


def _costs(replaced: Replaced, cases: Iterator[Case]) -> Iterator[dict[str, Any]]:
    """Change of loss, perplexity and BLEU of each case; translations of some cases alone."""
    whole, references = replaced.loss(FITTED, frozenset()), replaced.evaluator.references
    before: float | None = None
    for case in cases:
        loss = replaced.loss(case.form, case.heads)
        row = {
            **case._asdict(), "heads": len(case.heads), "loss": loss, "loss_change": loss - whole,
            "perplexity_percent": 100 * math.expm1(loss - whole),
        }  # fmt: skip
        if is_translated(case):
            written = replaced.translations(case.form, case.heads)
            bleu = score(written, references).bleu
            before = bleu if before is None else before
            row |= {"bleu": bleu, "bleu_change": bleu - before}
            row |= {"length_ratio": length_ratio(written, references)}
        yield row


def is_translated(case: Case) -> bool:
    """Whether BLEU is measured: it takes as long as many losses."""
    whole = case.share in {0, 1} and case.form == FITTED
    return whole or (case.scope == ALL and case.order == VARIANCE)


def by_share(table: pd.DataFrame) -> pd.DataFrame:
    """A row a model, scope, order and share: the mean of draws; all heads stand under every order."""
    own = table[(table["form"] == FITTED) & (table["share"] > 0)]
    ends = own[own["order"].isna()]
    full = [ends.assign(order=order) for order in (VARIANCE, ABLATION, OWN, RANDOM)]
    some = own[own["order"].notna()]
    keys = [*MODEL, "scope", "order", "share"]
    means = pd.concat([some, *full]).groupby(keys, sort=False)[CHANGES].mean()
    return means.reset_index()


def tested(shares: pd.DataFrame, units: Sequence[str]) -> pd.DataFrame:
    """The contrasts that were fixed beforehand, at half of all heads, of means of units."""
    own = shares[(shares["scope"] == ALL) & (shares["share"] == TESTED)]
    losses = own.pivot_table(index=[*units], columns="order", values="loss_change")
    return contrasts(
        {
            f"{order} minus {RANDOM}": (losses[order] - losses[RANDOM]).tolist()
            for order in CONTRASTS
        }
    )


def write_result(folder: Path) -> None:
    """The tables over models, the figure and the README of the rows in a folder."""
    table = read_table(folder, "table")
    shares = by_share(table)
    models = over_models(shares, ["scope", "order", "share"], CHANGES)
    write_table(folder / "over_models.csv", models.round(DIGITS))
    whole = table[table["share"] == 1]
    write_table(folder / "forms.csv", over_models(whole, ["scope", "form"], CHANGES).round(DIGITS))
    write_table(folder / "contrasts.csv", tested(shares, MODEL).round(DIGITS))
    if are_seeds_of_languages(table):
        by_language = tested(shares, ["corpus"])
        write_table(folder / "contrasts_by_language.csv", by_language.round(DIGITS))
    save_figure(draw_shares(models), folder / "shares.svg")
    write_readme(folder, readme(folder))


def readme(folder: Path) -> str:
    """The README of the result, from its tables and facts."""
    table, models = read_table(folder, "table"), read_table(folder, "over_models")
    forms, heads = read_table(folder, "forms"), read_table(folder, "heads")
    whole = table[table["share"] == 0]
    by_variance = models[models["order"] == VARIANCE]
    by_scope = pd.concat([own for _, own in by_variance.groupby("scope", sort=False)])
    of_all = by_variance[by_variance["scope"] == ALL].set_index("share").to_dict("index")
    variances = heads[[*MODEL, "site", VARIANCE]].groupby([*MODEL, "site"], sort=False).mean()
    shallow = one_layer_rows(folder, "table")
    several, first = are_seeds_of_languages(table), table[table["seed"] == 0]
    return render(
        __file__, read_facts(folder), trained_otherwise=trained_otherwise,
        depths=by_depth(folder, costs_by_site), layers=layers_in(heads),
        shallow={} if shallow is None else half_and_all(shallow), whole=whole,
        bleu=bleu_range(whole["bleu"]), estimate=estimate,
        names=names_of(whole["corpus"]),
        half=of_all[TESTED], quarter=of_all[SHARES[0]], every=of_all[1.0],
        contrasts=read_table(folder, "contrasts").to_dict("records"),
        by_language=read_table(folder, "contrasts_by_language").to_dict("records") if several else [],
        first_look=tested(by_share(first), MODEL).to_dict("records") if several else [],
        shallow_names=models_named(shallow),
        by_site=shown(by_scope, ["scope", "share"]),
        by_order=shown(models[(models["scope"] == ALL) & (models["share"] < 1)], ["order", "share"]),
        forms=shown(forms, ["scope", "form"]),
        variances=over_models(variances.reset_index(), ["site"], [VARIANCE]).to_dict("records"),
        variance=VARIANCE,
        calibration=CALIBRATION, validation=VALIDATION, draws=DRAWS,
    )  # fmt: skip


def costs_by_site(folder: Path) -> dict[str, str]:
    """What static heads cost by site, in loss and BLEU, as they are shown."""
    models = read_table(folder, "over_models")
    own = models[(models["order"] == VARIANCE) & (models["share"] == 1)].to_dict("records")
    changes = {"loss_change": ("loss", "+.3f"), "bleu_change": ("BLEU", "+.1f")}
    return {"models": str(own[0]["models"])} | {
        f"every head static, {row['scope']}: {name}": estimate(row, column, form)
        for row in own
        for column, (name, form) in changes.items()
    }


def half_and_all(table: pd.DataFrame) -> dict[str, dict[Any, Any]]:
    """What half of all heads and all of them cost, over models, in the order of variance."""
    found = over_models(by_share(table), ["scope", "order", "share"], CHANGES)
    own = found[(found["order"] == VARIANCE) & (found["scope"] == ALL)].set_index("share")
    return {"half": own.loc[TESTED].to_dict(), "every": own.loc[1].to_dict()}


def shown(models: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Changes of loss, perplexity and BLEU as cells."""
    return pd.DataFrame(
        [
            {
                **{name: row[name] for name in keys},
                "change of loss": estimate(row, "loss_change", "+.3f"),
                "perplexity, %": f"{row['perplexity_percent']:+.1f}",
                "BLEU": ""
                if math.isnan(row["bleu_change"])
                else estimate(row, "bleu_change", "+.1f"),
            }
            for row in models.to_dict("records")
        ]
    )


if __name__ == "__main__":
    main()
