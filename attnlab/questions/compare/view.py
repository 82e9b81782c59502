"""A comparison told: the answer in a sentence, its table, and what names mean."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from attnlab.budget import (
    ALL,
    ERROR,
    FULL,
    LOSS_GAIN,
    ORACLE,
    VISIBLE_KEYS,
    over_budget,
    same_figures,
)
from attnlab.core import BLEU, BLEU_CHANGE, LOSS_CHANGE, Estimate, chance_in_words, counted
from attnlab.evaluation import LOSS_UNITS
from attnlab.figures import WIDE, draw_pareto
from attnlab.questions.compare.comparison_figure import draw_comparison
from attnlab.questions.compare.ranking import MORE_KEYS, best_of, fitting, row_label, winner
from attnlab.results import Contents, DrawnFigure, Overview, Result, readable

_HEADS = {ALL: "All heads", "cross": "All heads of cross-attention"}
# How tables of mechanisms are filled; see `_learned_by`.
_LEARNED = {
    "counts": "load_frequencies(model, counts) with how often each token id is in training sentences",
    "attention": "calibrate(model, batches) on training sentences",
}
# Of levels, and of mechanisms that are named by more than their class.
_MEANINGS = {
    ORACLE: "chosen from the very attention that it replaces: a bound, which nothing in use can reach",
    "calibrated": "chosen on other sentences, as it would be in use",
    "sigma salience": "a band, and columns of the tokens that had most weight outside it in training "
    "sentences",
    "sigma frequency": "a band, and columns of the tokens that are rarest in training sentences",
    "sigma first": "a band, and columns of the first tokens",
    "sigma random": "a band, and columns drawn at random",
    "sigma offsets": "a band, and single keys at the offsets that had most weight outside it in training "
    "sentences",
    "fixed": "the best pattern of one key",
}


def contents(result: Result) -> Contents:
    """What the page of a comparison shows."""
    summary, figures = result.summary, []
    groups = list(_groups(result))
    budgets = summary["budget"].dropna().unique()
    # Full attention stands at all sites, also where no mechanism can.
    replaced = summary.loc[summary["replaced_heads"] > 0, "sites"].unique()
    # The figure of the answer stands first; several sites together have one only there.
    answered = (_usable(rows)[0]["sites"] for _, _, rows in groups)
    first = next((str(sites.iloc[0]) for sites in answered if len(sites)), ALL)
    names = [name for name in replaced if "," not in name or name == first]
    for name in sorted(names, key=lambda name: name != first):
        where = _HEADS.get(name, f"All heads of the {_listed(name)}")
        text = f"{where} replaced, the least loss on top, each with its 95 % interval."
        against = result.details.get("against")
        figure = draw_comparison(summary, name, against=against, width=WIDE)
        file = name.replace(", ", "_")
        figures.append(DrawnFigure(f"mechanisms_{file}", figure, text))
        if len(budgets) > 1:
            text = (
                f"{where} replaced: output error by keys per row; the line joins what nothing that can be "
                "used beats."
            )
            budgeted = summary[(summary["sites"] == name) & summary["budget"].notna()]
            figure = draw_pareto(budgeted[budgeted["steps"] == 0], width=WIDE)
            figures.append(DrawnFigure(f"pareto_{file}", figure, text))
    facts = {
        "Mechanisms": str(summary.loc[summary["replaced_heads"] > 0, "mechanism"].nunique()),
        "Keys per row": ", ".join(dict.fromkeys(str(budget) for budget, _, _ in groups)),
        "Sites": ", ".join(name for name in replaced if "," not in name and name != ALL) or ALL,
        **{name: str(value) for name, value in result.about.items() if "sentences" in name},
    }
    return Contents(figures, facts, overview=Overview(definitions=tuple(_definitions(result))))


def _definitions(result: Result) -> Iterator[tuple[str, str]]:
    """What levels and mechanisms of the table are."""
    from attnlab.attention import catalogue
    from attnlab.budget import uniform_mechanisms

    summaries = {entry.name: entry.summary for entry in catalogue()}
    of_class = {name: summaries[entry.kind.name] for name, entry in uniform_mechanisms().items()}
    meanings = {**of_class, **_MEANINGS}
    levels = (name for name in (ORACLE, "calibrated") if name in set(result.summary["level"]))
    names = dict.fromkeys((*levels, *result.summary["mechanism"]))
    yield from ((name, meanings[name]) for name in names if name in meanings)


def answers(result: Result) -> list[str]:
    """Which mechanism costs least at each budget, and how a model gets it."""
    against = result.details.get("against")
    unit, sentences = LOSS_UNITS[result.details.get("loss", "next tokens")], []
    for _, _, rows in _groups(result):
        sentences += answer_of(rows, against, unit)
        sentences += filter(None, [installing_of(rows, result.tables, against)])
    return sentences


def legend(result: Result) -> list[str]:
    """The meanings of the names of mechanisms that few readers know."""
    names = " ".join(rows(result)["mechanism"])
    meanings = {
        "alone": "other sites keep full attention, so less is lost",
        ORACLE: "chosen from what it replaces",
        MORE_KEYS: "than the budget, on these sentences",
        "sigma": "a band with chosen keys",
        "fixed": _MEANINGS["fixed"],
    }
    against = result.details.get("against")
    below = [f"reference: {against}"] if against else []
    return below + [f"{name}: {meaning}" for name, meaning in meanings.items() if name in names]


def rows(result: Result) -> pd.DataFrame:
    """Each mechanism at all sites where it can be: those at all chosen sites first, then what costs least.

    Of fewer sites less is lost, so that their names say which.
    """
    shown = []
    for budget, _, group in _groups(result):
        by = LOSS_CHANGE if LOSS_CHANGE.name in group else ERROR
        whole = _whole(group)
        names = [
            ", ".join(filter(None, (row_label(row, budget), _alone(row, whole))))
            for row in group.to_dict("records")
        ]
        order = group.assign(
            mechanism=names,
            last=group["level"] == ORACLE,
            then=(group["mechanism"] != FULL).astype(int) + (group["sites"] != whole),
            fewer=-group["replaced_heads"].where(group["sites"] != whole, 0),
        )
        by_cost = ["last", "then", "fewer", "sites", by.name, ERROR.name]
        order = order.sort_values(by_cost, kind="stable")
        shown.append(order.drop(columns=["last", "then", "fewer"]))
    return pd.concat(shown, ignore_index=True)


def _whole(rows: pd.DataFrame) -> str:
    """The sites that were chosen, as the column calls them: those of full attention."""
    return next(iter(rows.loc[rows["mechanism"] == FULL, "sites"]), ALL)


def _alone(row: Mapping[Any, Any], whole: str) -> str:
    """The sites of a row, such as `encoder and decoder alone`; empty where it is of all chosen sites."""
    return "" if row["sites"] in {ALL, whole} else f"{_listed(row['sites'])} alone"


def _listed(sites: str) -> str:
    """Sites as a phrase, such as `encoder and decoder`."""
    return sites.replace(", ", " and ")


def _groups(result: Result) -> Iterator[tuple[int, int, pd.DataFrame]]:
    """Budget, steps and rows: full attention, plans, and each mechanism at all sites where it can be."""
    summary = result.summary
    given = result.details.get("budgets", ())
    budgets = dict.fromkeys(int(one) for one in (*given, *summary["budget"].dropna().unique()))
    table = summary.assign(level=summary["level"].fillna(""))
    for steps in table["steps"].unique():
        tuned = table[table["steps"] == steps]
        for budget in budgets:
            rows = tuned[(tuned["budget"] == budget) | tuned["budget"].isna()]
            # Where no setting fits, plans of files may, which have no budget.
            if not rows["mechanism"].ne(FULL).any():
                continue
            widest = rows.groupby("mechanism", sort=False)["replaced_heads"].transform("max")
            yield (
                int(budget),
                int(steps),
                rows[rows["replaced_heads"] == widest].assign(budget=int(budget)),
            )


def answer_of(
    rows: pd.DataFrame, against: str | None = None, unit: str = LOSS_UNITS["next tokens"]
) -> list[str]:
    """Which mechanism to use at a budget, then what it replaces and beats; nothing where none can be used.

    Args:
        rows: those of one budget and number of steps.
        against: the mechanism whose gains over others they have.
        unit: of the loss.
    """
    usable, estimate = _usable(rows)
    row = best_of(usable, estimate, against)
    if row is None:
        return []
    usable, alike = _apart(usable, row, against)
    steps, several = int(row["steps"]), len(usable) > 1
    tuned = f" and {counted(steps, 'batch')} of fine-tuning" if steps else ""
    figure = _shown(estimate, row, rows)
    if estimate is ERROR:
        claim = f"is nearest to full attention: output error {figure}"
        claim = claim if several else f"has an output error of {figure}"
    else:
        claim = f"has the least loss: {figure}" if several else f"changes the loss by {figure}"
        claim += f" {unit}"
    name = " in ".join(filter(None, (row["mechanism"], _alone(row, _whole(rows)))))
    lead = f"At {counted(int(row['budget']), 'key')} per row{tuned}, {name} {claim}."
    details = (
        *_standing(row, usable, alike),
        *_bleu(row, rows),
        *_next(usable, row, estimate, against, rows),
    )
    return [lead, " ".join(details)]


def _standing(row: Mapping[Any, Any], usable: pd.DataFrame, alike: Sequence[str]) -> Iterator[str]:
    """What the best mechanism replaces, out of how many it is the best, and which attend like it."""
    among = (
        f", the best of {counted(len(usable), 'mechanism')} that can be used"
        if len(usable) > 1
        else ""
    )
    keys = row[VISIBLE_KEYS.name]
    beyond = ""
    if over_budget(keys, int(row["budget"])):
        beyond = f", with {VISIBLE_KEYS.shown(keys)} keys per row on these sentences"
    yield f"It replaces {counted(int(row['replaced_heads']), 'head')}{among}{beyond}."
    if alike:
        yield f"{' and '.join(alike)} {'attends' if len(alike) == 1 else 'attend'} alike."


def _bleu(row: Mapping[Any, Any], rows: pd.DataFrame) -> Iterator[str]:
    """The change of BLEU, and of how much, where that was measured."""
    change = _shown(BLEU_CHANGE, row, rows) if BLEU_CHANGE.name in row else ""
    if change:
        full = rows.loc[rows["mechanism"] == FULL, BLEU.name]
        yield f"BLEU changes by {change}{''.join(f' of {value:.1f}' for value in full)}."


def _shown(estimate: Estimate, row: Mapping[Any, Any], rows: pd.DataFrame) -> str:
    """A figure with its interval, with the decimals that this carries."""
    column = readable(estimate.column, rows[rows["mechanism"] != FULL])
    return replace(estimate, column=column).shown(row, signed=estimate is not ERROR)


def _apart(
    usable: pd.DataFrame, best: Mapping[Any, Any], against: str | None
) -> tuple[pd.DataFrame, list[str]]:
    """One row of all mechanisms that attend alike, and which attend like the best one.

    No mechanism is second to itself then. The best stands for those like it, and the one that others are
    held against.
    """
    kept: dict[Any, dict[Any, Any]] = {}
    alike = []
    first = usable["mechanism"].map({best["mechanism"]: 0, against: 1}).fillna(2)
    ordered = usable.loc[first.sort_values(kind="stable").index]
    for index, row in ordered.to_dict("index").items():
        if same_figures(row, best) and row["mechanism"] != best["mechanism"]:
            alike.append(str(row["mechanism"]))
        elif not any(same_figures(row, other) for other in kept.values()):
            kept[index] = row
    return usable.loc[[index for index in usable.index if index in kept]], alike


def installing_of(
    rows: pd.DataFrame, tables: Mapping[str, pd.DataFrame], against: str | None = None
) -> str | None:
    """How a model gets the mechanism that costs least, in a sentence; None of a plan, or where none is named.

    Args:
        rows: those of one budget and number of steps.
        tables: of the comparison, `mechanisms_by_head` among them.
        against: the mechanism whose gains over others the rows have.
    """
    # It imports models of transformers, which other pages do without.
    from attnlab.attention import catalogue, parse
    from attnlab.budget import uniform_mechanisms

    row = best_of(*_usable(rows), against)
    by_head = tables.get("mechanisms_by_head")
    if row is None or by_head is None or by_head.empty or row["level"] == "":
        return None
    # Which pattern each head has in `fixed` stands in no table, nor what was trained with a mechanism.
    if row["steps"] or row["mechanism"] not in uniform_mechanisms():
        return None
    own = by_head[(by_head["mechanism"] == row["mechanism"]) & (by_head["budget"] == row["budget"])]
    sites = own["site"] if row["sites"] == ALL else row["sites"].split(", ")
    settings = own[own["site"].isin(sites)].groupby("site", sort=False)["setting"].first().to_dict()
    # What is drawn and not trained would be drawn anew.
    trained = {entry.name for entry in catalogue() if entry.traits.learned}
    if not settings or any(parse(setting).name in trained for setting in settings.values()):
        return None
    learned = [_LEARNED[how] for how in _learned_by(settings.values())]
    then = f", then {' and '.join(learned)}" if learned else ""
    return f"A model gets it by attnlab.attention.install(model, {settings}){then}."


def _learned_by(settings: Iterable[str]) -> list[str]:
    """What mechanisms choose keys by that is learned from training sentences: counts, attention."""
    from attnlab.attention import Sigma, parse

    sigmas = [parsed for parsed in map(parse, settings) if isinstance(parsed, Sigma)]
    needs = {
        "counts": any(one.num_pos and one.columns == "frequency" for one in sigmas),
        "attention": any(
            (one.num_pos and one.columns == "salience") or (one.extra and one.entries == "offsets")
            for one in sigmas
        ),
    }
    return [how for how, needed in needs.items() if needed]


def _usable(rows: pd.DataFrame) -> tuple[pd.DataFrame, Estimate]:
    """The rows of what can be used at the budget at the same sites, and by what they are compared.

    Those are all chosen sites or, where nothing can be at all of them, those of the most heads.
    """
    usable = rows[(rows["level"] != ORACLE) & (rows["replaced_heads"] > 0)]
    everywhere = usable[usable["sites"] == _whole(rows)]
    widest = usable.nlargest(1, "replaced_heads") if everywhere.empty else everywhere
    usable = usable[usable["sites"].isin(widest["sites"])]
    usable = fitting(usable, int(rows["budget"].iloc[0]))
    return usable, LOSS_CHANGE if LOSS_CHANGE.name in usable else ERROR


def _next(
    usable: pd.DataFrame,
    first: Mapping[Any, Any],
    estimate: Estimate,
    against: str | None,
    rows: pd.DataFrame,
) -> Iterator[str]:
    """What is second, and whether a test tells it from the first; nothing where there is no second."""
    second = winner(usable[usable["mechanism"] != first["mechanism"]], estimate)
    if second is None:
        return
    lead = f"Next is {second['mechanism']}"
    if estimate is LOSS_CHANGE and against in {first["mechanism"], second["mechanism"]}:
        # The gain of the second over the first is what the first is better by, the other way round.
        is_first = first["mechanism"] == against
        tested = second if is_first else first
        if pd.notna(tested.get(LOSS_GAIN.name)):
            shown = LOSS_GAIN.shown(tested if is_first else LOSS_GAIN.reversed(tested), signed=True)
            chance = chance_in_words(*LOSS_GAIN.ends(tested))
            yield f"{lead}, a loss that is higher by {shown}{chance}."
            return
    yield f"{lead} ({_shown(estimate, second, rows)}), a difference that is not tested here."
