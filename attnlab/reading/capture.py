"""The entry point to extraction: statistics of every head of a model, and a few whole matrices."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from attnlab.core import (
    BATCH_SIZE,
    LARGEST_SEED,
    SITES,
    InputError,
    Note,
    ShortRepr,
    address_of,
    arguments_told,
    briefly,
    check_value,
    layer_name,
    sites_named,
)
from attnlab.models import Source
from attnlab.reading.coverage import Coverage
from attnlab.reading.keeping import KeptMatrices, MatrixKeeper
from attnlab.reading.reading_notes import NoTranslations
from attnlab.reading.statistics import HeadStatistics
from attnlab.reading.weighing import ATTENTION, WEIGHTS_OPTION

if TYPE_CHECKING:
    from attnlab.reading.passes import Read
    from attnlab.reading.sentences import Progress


@dataclass(frozen=True, repr=False)
class Capture(ShortRepr):
    """Statistics of every head over the sentences, and the matrices that were kept.

    Captures of shares of the same sentences add up to the capture of all of them.

    Attributes:
        coverage: sentences and layers that were read.
        statistics: of every head.
        kept: whole matrices.
        notes: sentences and sites that were left out, and why.
    """

    coverage: Coverage
    statistics: HeadStatistics
    kept: KeptMatrices = field(default_factory=KeptMatrices)
    notes: tuple[Note, ...] = ()

    @property
    def table(self) -> pd.DataFrame:
        """One row per head, see `HeadStatistics.heads`."""
        return self.statistics.heads()

    def _repr_html_(self) -> str:
        notes = "".join(f"<p>{escape(str(note))}</p>" for note in self.notes)
        return notes + self.table.to_html()

    def __getattr__(self, name: str) -> Any:
        """Raises AttributeError with what else there is to ask for.

        Raises:
            AttributeError: always.
        """
        msg = (
            f"A capture has no {briefly(name)}; its table has a row for each head, capture['encoder', 0] the "
            "kept matrices of a layer, and attnlab.show(capture) is their page."
        )
        raise AttributeError(msg)

    def __getitem__(
        self, name: str | tuple[str | int, ...]
    ) -> list[Float[Tensor, "*head query key"]]:
        """Kept matrices by sentence, of a layer, `decoder.3` or `("decoder", 3)`, or a head, `decoder.3.1`.

        Where one site has it, the site can be left out: `3.1`.

        Raises:
            InputError: no matrices of it were kept, or of several sites.
        """
        kept = self.kept.matrices.items()
        layers = dict.fromkeys(layer_name(*at[1:]) for at, _ in kept)
        address = address_of(name, [*layers, *self.kept.names])
        matrices = [matrix for at, matrix in kept if layer_name(*at[1:]) == address]
        return matrices or list(self.kept.of_head(address).values())

    def __add__(self, other: "Capture") -> "Capture":
        return Capture(
            self.coverage + other.coverage,
            self.statistics + other.statistics,
            self.kept + other.kept,
            self.notes,
        )


@arguments_told
def capture(
    source: Source,
    sentences: "Read | str | None" = None,
    *,
    sites: str | Sequence[str] | None = None,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    rows: Sequence[int] | int | None = None,
    seed: int = 0,
    distances: bool = False,
    batch_size: int = BATCH_SIZE,
    share: tuple[int, int] = (0, 1),
    keep_matrices: int = 0,
    keep_bytes: int = 64 * 2**20,
    keep_dtype: torch.dtype = torch.float32,
    progress: "Progress | None" = None,
    memory: float | None = None,
    weights: str = ATTENTION,
) -> Capture:
    """Statistics of every head of a model over `sentences`, and the matrices of the first few.

    Of long texts, and where `layers`, `heads` or `rows` are given, the model runs on torch's fused attention,
    the queries and keys of the wanted layers and heads are taken where its modules call transformers'
    attention function, and weights are computed of some rows at a time. What is found is that of eager
    attention but for rounding. Memory then grows with the tokens of a text, not with their square, but for
    what the model itself makes: a mask for windows or padding (1 to 5 bytes for each pair of tokens), and
    relative positions (T5: 12 bytes for each pair and head). A model that computes attention inside its
    own modules, as Falcon, or by a mechanism of attnlab is read whole, and the rest left out afterwards.

    Cost: a forward pass, as far as the last wanted layer, and O(row * key * dim) for each wanted head.

    Args:
        source: a run or its folder, a transformers folder, the name of a model on the hub, what
            `attnlab.load` returned, or a pair (model, tokenizer; or an object with tokenizers `.source` and
            `.target`). The model is used where it stands, in eval mode, and left as it was.
        sentences: a text, a list of texts, or one of pairs: (source, target) for the decoder of an
            encoder-decoder, two sentences for a model of one stack whose tokenizer has a form for them, and
            (audio, transcript) for Whisper, see `attnlab.reading.audio_of`. Its own encoder's weights are
            not read.
        sites: which attention to look at, such as "decoder,cross" or a list; None for all that the sentences
            allow, of an encoder-decoder without translations the encoder alone (`Capture.notes` says so).
        layers: numbers of the layers to look at, from 0; None for all. Sites that lack one do without it.
            Layers without attention, as in Qwen3.5 or LFM2, count too.
        heads: numbers of the heads to look at in each of them, from 0; None for all.
        rows: which rows of the matrices to look at: positions of queries from 0, which every text must
            have, or how many to draw of each text at random (all, where it has fewer); None for all.
        seed: of the rows that are drawn.
        distances: whether those of all pairs of heads of a layer are taken, `statistics.distances()` and a
            column of the table; they cost several times as much as all other statistics.
        batch_size: most sentences in one forward pass.
        share: (index, count): this call takes every count-th batch, so that several processes
            split the work and the sum of their captures is what one would have found.
        keep_matrices: how many of the first sentences to keep whole, within `keep_bytes`.
        keep_bytes: most bytes of kept matrices; sentences that would go over it are not kept.
        keep_dtype: `torch.float32`, or `torch.float16`, which keeps the arg-max but not row sums.
        progress: called with (sentences done, sentences in all) after each batch.
        memory: the most that the weights of one text may take, in GB; None: what is free.
        weights: what stands in the matrices: `attention` weights, or the share of each key in the
            `contribution` of its row (docs/heads.md, section 12).

    Raises:
        InputError: sentences that cannot be used, a site that the model or the sentences lack, or a text
            whose weights need more memory; a layer, head or row that there is not; a number out of range;
            a model whose contributions cannot be read.
        AttnlabError: a layer whose weights are no attention weights.
    """
    check_value("batch_size", batch_size, least=1)
    check_value("keep_matrices", keep_matrices, least=0)
    check_value("keep_bytes", keep_bytes, least=0)
    check_value("seed", seed, least=0, most=LARGEST_SEED)
    check_value("memory", memory, float | None, above=0)
    check_value("weights", weights, str)
    WEIGHTS_OPTION.refuse("weights", weights)
    check_value("share", share, tuple[int, int])
    check_value("count of share", share[1], least=1)
    check_value("index of share", share[0], least=0, below=share[1])
    sites = sites_named(sites) if isinstance(sites, str) else sites
    check_value("sites", sites, Sequence[str] | None)
    if sites is not None and not sites:
        msg = f"sites is empty; give any of {', '.join(SITES)}, or None for all."
        raise InputError(msg)
    if sentences is None:
        msg = (
            "capture reads the texts that it is given; write capture(source, ['A text.']), or "
            "attnlab.analyze(source) for the sentences that a run brings."
        )
        raise InputError(msg)
    # What reads models takes a second to import, which looking up this function need not wait for.
    from attnlab.reading.passes import prepare, selection_of

    selection = selection_of(layers, heads, rows, seed)
    statistics = HeadStatistics(selection.heads, distances=distances)
    keeper = MatrixKeeper(keep_matrices, keep_bytes, keep_dtype, heads=selection.heads)
    reading = prepare(
        source, sentences, sites,
        memory=memory, whole=False, selection=selection, weights=weights,
    )  # fmt: skip
    coverage = reading.feed(
        [statistics, keeper], batch_size=batch_size, share=share, progress=progress
    )
    alone = reading.model.config.is_encoder_decoder and not reading.sentences.paired
    notes = [NoTranslations()] if alone and sites is None else []
    return Capture(coverage, statistics, keeper.kept(), (*coverage.dropped, *reading.notes, *notes))
