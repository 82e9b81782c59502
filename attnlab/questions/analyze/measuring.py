"""Tables and matrices of heads, from whatever feeds their weights, as the result of `analyze`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd
import torch

from attnlab.core import HEAD_COLUMNS, Head, Note
from attnlab.evaluation import ENOUGH_FOR_MEANS, FewForMeans
from attnlab.labels import SINK, SINK_LABEL, HeadStructure
from attnlab.questions.analyze.analysis_notes import (
    HeadsWithoutWeight,
    IdleSinks,
    LayersHeldAtOnce,
    LearnedSink,
    RowsWithoutKeys,
    TooLargeToKeep,
)
from attnlab.questions.analyze.fits import HeadFits, OffsetProfiles, RowFits, mean_fits
from attnlab.questions.analyze.head_table import head_rows
from attnlab.questions.analyze.kept_facts import kept_facts
from attnlab.questions.analyze.question import QUESTION, AnalysisSettings
from attnlab.questions.analyze.summary import summarise_heads, weightless_heads
from attnlab.reading import (
    Coverage,
    HeadStatistics,
    KeptInPart,
    KeptMatrices,
    MatrixKeeper,
    PerLayer,
    View,
    rows_of_view,
    stacked,
)
from attnlab.results import Result

KEPT_BYTES = 64 * 2**20
# Feeds every layer's weights over the first few sentences (None: all) to consumers; the text says
# what is being done.
Pass = Callable[[str, Sequence[PerLayer[Any, Any]], int | None], Coverage]


def measure(
    run: Pass,
    settings: AnalysisSettings,
    structure: HeadStructure,
    views: tuple[View, ...],
    *,
    also: Sequence[PerLayer[Any, Any]] = (),
    chosen: Sequence[int] = (),
    by_rows: bool = False,
) -> tuple[dict[str, pd.DataFrame], KeptMatrices, list[Note], Coverage]:
    """Every head's statistics over all sentences, fits of the first few, whole matrices of fewer.

    `structure` and `also` are fed in the pass over all sentences; `views` are those of the structure;
    `chosen` are numbers of sentences whose matrices are kept before those of the first; `by_rows` says
    that a pass over the first few is of some rows, which is then the one for fits and structure.
    """
    statistics, profiles = HeadStatistics(distances=True), OffsetProfiles()
    keeper = MatrixKeeper(settings.keep_matrices, KEPT_BYTES, chosen=chosen)
    fits: HeadFits | RowFits
    if by_rows:
        fits = RowFits(settings.fit_sentences)
        coverage = run("Capturing heads", [statistics, keeper, *also], None)
        most = max(settings.fit_sentences, settings.structure_sentences)
        run("Fitting drawn rows", [fits, structure], most)
    else:
        fits = HeadFits(profiles, settings.fit_sentences)
        measured_twice = [profiles] if settings.fit_sentences > 0 else []
        consumers: list[PerLayer[Any, Any]] = [
            statistics,
            *measured_twice,
            keeper,
            structure,
            *also,
        ]
        coverage = run("Capturing heads", consumers, None)
        if settings.fit_sentences > 0:
            # A second pass, because the mean over the other sentences is known only after the first.
            run("Fitting matrices", [fits], settings.fit_sentences)
    kept, heads = keeper.kept(), statistics.heads()
    of_sentences = fits.fits()
    tables = {
        "heads": heads,
        "head_distances": statistics.distances(),
        "fits": mean_fits(of_sentences),
        "structure": stacked([structure.families(keys) for keys in views], views),
    }
    if settings.keep_fits:
        tables["fits_by_sentence"] = of_sentences
    return tables, kept, _notes(heads, coverage, kept, len(keeper.wanted)), coverage


def result_of(
    name: str,
    tables: Mapping[str, pd.DataFrame],
    kept: KeptMatrices,
    views: tuple[View, ...],
    *,
    about: Mapping[str, str],
    notes: Sequence[Note],
    figures: str,
    closed: Sequence[Head] = (),
    weights: str | None = None,
    past_sinks: bool = False,
) -> Result:
    """The result, with the summary of the view that comes first; what was not measured is left out.

    With `past_sinks` the last view comes first where more than half of the heads are named sinks in the
    first, and fewer in the last.
    """
    summary = _summary(tables, views, closed)
    if past_sinks and (sinks := _sinks(summary)) > len(summary) / 2:
        other = _summary(tables, views[::-1], closed)
        if _sinks(other) < sinks:
            views, summary = views[::-1], other
    heads, labels = tables["heads"], rows_of_view(tables.get("labels", pd.DataFrame()), views[0])
    every = {"summary": summary, **tables}
    always = ("summary", "heads", "head_distances", "fits")
    return Result(
        QUESTION.name,
        f"Attention heads of {name}",
        {
            declared.name: every[declared.name]
            for declared in QUESTION.tables
            if declared.name in always or not every.get(declared.name, pd.DataFrame()).empty
        },
        about,
        tuple(notes),
        {"views": list(views), "figures": figures, **kept_facts(kept, heads, labels, views[0])},
        weights=weights,
        matrices=kept,
    )


def _sinks(summary: pd.DataFrame) -> int:
    return int((head_rows(summary)["role"] == SINK_LABEL.name).sum()) if "role" in summary else 0


def _summary(
    tables: Mapping[str, pd.DataFrame], views: Sequence[View], closed: Sequence[Head]
) -> pd.DataFrame:
    structure, labels, controls = (
        rows_of_view(tables.get(table, pd.DataFrame()), views[0])
        for table in ("structure", "labels", "controls")
    )
    return summarise_heads(
        tables["heads"],
        structure=structure,
        labels=labels,
        controls=controls,
        closed=closed,
        keys=views[0] if len(views) > 1 else None,
    )


# Of a sink: keys in words, by the column of their weight and of their share of contributions.
_SINKS = {
    "first": "the first token", "special": "special tokens", "punctuation": "punctuation"
}  # fmt: skip
# Of the weight: a sink with a smaller share of the contribution gives little or nothing.
_IDLE_SHARE = 0.25


def _idle_sinks(heads: pd.DataFrame) -> list[Note]:
    """Heads that give a sink weight which contributes little, where contributions were read."""
    if "contribution" not in heads:
        return []
    names = heads[HEAD_COLUMNS].apply(lambda row: str(Head(*row)), axis=1)
    sinks = pd.concat(
        pd.DataFrame(
            {
                "head": names, "keys": words,
                "weight": heads[f"weight_on_{sink}"], "share": heads[f"mass_on_{sink}"],
            }
        )
        for sink, words in _SINKS.items()
    )  # fmt: skip
    sinks = sinks[sinks["weight"] > SINK.threshold].sort_values("weight", ascending=False)
    sinks = sinks.drop_duplicates("head")
    idle = sinks[sinks["share"] < _IDLE_SHARE * sinks["weight"]]
    return [IdleSinks(len(idle), len(sinks), **idle.iloc[0])] if len(idle) else []


def _notes(
    heads: pd.DataFrame, coverage: Coverage, kept: KeptMatrices, asked_to_keep: int
) -> list[Note]:
    notes: list[Note] = [*coverage.dropped]
    if not coverage.streamed:
        notes.append(LayersHeldAtOnce())
    weightless = weightless_heads(heads)
    if weightless.any():
        rows = heads.loc[weightless, HEAD_COLUMNS].itertuples(index=False)
        notes.append(HeadsWithoutWeight(tuple(str(Head(*row)) for row in rows)))
    empty = int(heads.loc[~weightless, "empty_rows"].sum())
    if empty:
        notes.append(RowsWithoutKeys(empty))
    if "mass_on_sink_logit" in heads:
        notes.append(LearnedSink(float(heads["mass_on_sink_logit"].mean())))
    notes += _idle_sinks(heads)
    if kept.left_out:
        notes.append(TooLargeToKeep(len(kept.left_out), asked_to_keep, KEPT_BYTES / 2**20))
    half = {key[:2] for key, matrix in kept.matrices.items() if matrix.dtype == torch.float16}
    notes += [
        KeptInPart(*at, len(queries), kept.all_queries.get(at, len(queries)))
        for at, (queries, _) in kept.tokens.items()
        if at in half
    ]
    if coverage.sentences < ENOUGH_FOR_MEANS:
        notes.append(FewForMeans(coverage.sentences))
    return notes
