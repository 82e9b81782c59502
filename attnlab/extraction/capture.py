"""The public door to extraction: statistics of every head of a model, and a few whole matrices."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from attnlab.extraction.batches import Progress
from attnlab.extraction.keeping import KeptMatrices, MatrixKeeper
from attnlab.extraction.reading import Coverage, prepare
from attnlab.extraction.statistics import HeadStatistics
from attnlab.extraction.tokens import Text
from attnlab.options import BATCH_SIZE
from attnlab.representations import OneLine


@dataclass(frozen=True, repr=False)
class Capture(OneLine):
    """Statistics of every head over the sentences, and the matrices that were kept.

    Captures of shares of the same sentences add up to the capture of all of them.
    """

    coverage: Coverage
    statistics: HeadStatistics
    kept: KeptMatrices = field(default_factory=KeptMatrices)

    def __add__(self, other: "Capture") -> "Capture":
        return Capture(
            self.coverage + other.coverage,
            self.statistics + other.statistics,
            self.kept + other.kept,
        )


def capture(
    model: Any,
    tokenizer: Any,
    sentences: Sequence[Text],
    *,
    sites: Sequence[str] | None = None,
    batch_size: int = BATCH_SIZE,
    share: tuple[int, int] = (0, 1),
    keep_matrices: int = 0,
    keep_bytes: int = 64 * 2**20,
    keep_dtype: torch.dtype = torch.float32,
    progress: Progress | None = None,
    memory: float | None = None,
) -> Capture:
    """Statistics of every head of `model` over `sentences`, and the matrices of the first few.

    Args:
        model: a transformers model; it is used where it stands, in eval mode, and left as it was.
        tokenizer: its tokenizer, or an object with tokenizers `.source` and `.target`.
        sentences: texts, or pairs (source, target) for the decoder of an encoder-decoder.
        sites: which attention to look at; None for all that the sentences allow.
        batch_size: most sentences in one forward pass.
        share: (index, count): this call takes every count-th batch, so that several processes
            split the work and the sum of their captures is what one would have found.
        keep_matrices: how many of the first sentences to keep whole, within `keep_bytes`.
        keep_bytes: most bytes of kept matrices; sentences that would go over it are not kept.
        keep_dtype: `torch.float32`, or `torch.float16`, which keeps the arg-max but not row sums.
        progress: called with (sentences done, sentences in all) after each batch.
        memory: the most that the weights of one text may take, in GB; None: what is free.

    Raises:
        InputError: sentences that cannot be used, a site that the model or the sentences lack, or a text
            whose weights need more memory.
        AttnlabError: a layer whose weights are no attention weights.
    """
    statistics = HeadStatistics()
    keeper = MatrixKeeper(keep_matrices, keep_bytes, keep_dtype)
    reading = prepare(model, tokenizer, sentences, sites, memory=memory)
    coverage = reading.feed(
        [statistics, keeper], batch_size=batch_size, share=share, progress=progress
    )
    return Capture(coverage, statistics, keeper.kept())
