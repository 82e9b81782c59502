"""Statistics, band distances and whole matrices of heads, whatever the heads come from."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
import torch

from attnlab.core.addresses import HEAD_COLUMNS, Head
from attnlab.core.errors import Note
from attnlab.core.representations import ShortRepr
from attnlab.evaluation.shared_settings import ENOUGH_FOR_MEANS, FewForMeans
from attnlab.labels.structure import HeadStructure
from attnlab.reading.batches import KeptInPart
from attnlab.reading.capture import Coverage
from attnlab.reading.keeping import KeptMatrices, MatrixKeeper
from attnlab.reading.statistics import HeadStatistics
from attnlab.reading.weights import VIEWS, PerLayer, View, rows_of_view, stacked
from attnlab.studies.analysis.fits import HeadFits, OffsetProfiles
from attnlab.studies.analysis.labelling import Labelling
from attnlab.studies.analysis.notes import (
    HeadsWithoutWeight,
    LayersHeldAtOnce,
    LearnedSink,
    RowsWithoutKeys,
    TooLargeToKeep,
)
from attnlab.studies.analysis.summary import summarise_heads, weightless_heads

KEPT_BYTES = 64 * 2**20
# Feeds every layer's weights over the first few sentences (None: all) to consumers; the text says
# what is being done.
Pass = Callable[[str, Sequence[PerLayer[Any, Any]], int | None], Coverage]


@dataclass(frozen=True, repr=False)
class Analysis(ShortRepr):
    """Tables of one analysis.

    Attributes:
        heads: one row per head, see `HeadStatistics.heads`.
        distances: one row per pair of heads of one layer: Jensen-Shannon distance.
        fits: one row per head, sentence and approximation, see `HeadFits`.
        structure: one row per head and family of matrices: bits per row of its best member, see
            `HeadStructure.families`; empty where that was not measured.
        matrices: the matrices of the first sentences, with their tokens.
        views: which keys are looked at, in the order in which figures are shown.
        notes: what a reader must know before trusting a number, see `attnlab.reporting.notes`.
        about: what was analyzed, in words, in the order to print it.
        weights: checksum of the weights of the run that was studied; None for other models.
        labelling: what each head does, where that was asked for.
        closed: heads that are closed for good, so that what they look at changes nothing.
    """

    heads: pd.DataFrame
    distances: pd.DataFrame
    fits: pd.DataFrame
    structure: pd.DataFrame
    matrices: KeptMatrices
    views: tuple[View, ...] = VIEWS
    notes: tuple[Note, ...] = ()
    about: Mapping[str, str] = field(default_factory=dict)
    weights: str | None = None
    labelling: Labelling | None = None
    closed: tuple[Head, ...] = ()

    @property
    def summary(self) -> pd.DataFrame:
        """One row per head: its closest role, what it looks like, and the loss without it.

        Columns as in `attnlab.studies.analysis.columns.SUMMARY`, those that were measured.
        """
        keys = self.views[0]
        labelling = None if self.labelling is None else self.labelling.view(keys)
        structure = self.structure if self.structure.empty else rows_of_view(self.structure, keys)
        return summarise_heads(
            self.heads, structure=structure, labelling=labelling, closed=self.closed
        )

    @property
    def sentences_kept(self) -> int:
        """Of how many sentences the matrices were kept."""
        return len({number for number, _ in self.matrices.tokens})


def measure(
    run: Pass,
    *,
    keep_matrices: int,
    fit_sentences: int,
    structure: HeadStructure,
    views: tuple[View, ...],
    also: Sequence[PerLayer[Any, Any]] = (),
    chosen: Sequence[int] = (),
) -> tuple[Analysis, Coverage]:
    """Every head's statistics over all sentences, fits of the first few, whole matrices of fewer.

    `structure` and `also` are fed in the pass over all sentences; `views` are those of the structure;
    `chosen` are numbers of sentences whose matrices are kept before those of the first.
    """
    statistics, profiles = HeadStatistics(), OffsetProfiles()
    keeper = MatrixKeeper(keep_matrices, KEPT_BYTES, chosen=chosen)
    fits = HeadFits(profiles, fit_sentences)
    measured_twice = [profiles] if fit_sentences > 0 else []
    consumers: list[PerLayer[Any, Any]] = [statistics, *measured_twice, keeper, structure, *also]
    coverage = run("Capturing heads", consumers, None)
    if fit_sentences > 0:
        # A second pass, because the mean over the other sentences is known only after the first.
        run("Fitting matrices", [fits], fit_sentences)
    kept = keeper.kept()
    heads = statistics.heads()
    found = Analysis(
        heads=heads,
        distances=statistics.distances(),
        fits=fits.fits(),
        structure=stacked([structure.families(keys) for keys in views], views),
        matrices=kept,
        views=views,
        notes=tuple(_notes(heads, coverage, kept, len(keeper.wanted))),
    )
    return found, coverage


def _notes(heads: pd.DataFrame, coverage: Coverage, kept: KeptMatrices, wanted: int) -> list[Note]:
    found: list[Note] = [*coverage.dropped]
    if not coverage.streamed:
        found.append(LayersHeldAtOnce())
    weightless = weightless_heads(heads)
    if weightless.any():
        found.append(HeadsWithoutWeight(_names(heads[weightless])))
    empty = int(heads.loc[~weightless, "empty_rows"].sum())
    if empty:
        found.append(RowsWithoutKeys(empty))
    if "mass_on_sink_logit" in heads:
        found.append(LearnedSink(float(heads["mass_on_sink_logit"].mean())))
    if kept.left_out:
        found.append(TooLargeToKeep(len(kept.left_out), wanted, KEPT_BYTES / 2**20))
    half = {key[:2] for key, one in kept.matrices.items() if one.dtype == torch.float16}
    found += [
        KeptInPart(*at, len(queries), kept.all_queries.get(at, len(queries)))
        for at, (queries, _) in kept.tokens.items()
        if at in half
    ]
    if coverage.sentences < ENOUGH_FOR_MEANS:
        found.append(FewForMeans(coverage.sentences))
    return found


def _names(heads: pd.DataFrame) -> tuple[str, ...]:
    return tuple(str(Head(*row)) for row in heads[HEAD_COLUMNS].itertuples(index=False))
