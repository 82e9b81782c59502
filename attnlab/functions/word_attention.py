"""Attention between words: to a word the sum over its tokens, from a word the mean over its tokens.

Rows sum to what the rows of the tokens summed to (Clark et al. 2019, arXiv 1906.04341, section 4.1).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnlab.functions.words import Alignment


@dataclass(frozen=True)
class BatchUnits:
    """Which unit every token of a batch belongs to.

    The first `words.shape[1]` units are those of the words, in the order of the text, so that
    differences of unit numbers are offsets in words. Behind them each special token is a unit of
    its own: no attention is lost.

    Attributes:
        membership: 1 where a token belongs to a unit, else 0; padding belongs nowhere.
        words: True where the sentence has that word unit.
    """

    membership: Float[Tensor, "batch token unit"]
    words: Bool[Tensor, "batch word"]


def gather_units(
    alignments: Sequence[Alignment | None], visible: Bool[Tensor, "batch token"]
) -> BatchUnits:
    """The units of a batch; a sentence whose alignment is None has no word units at all.

    Args:
        alignments: one for each sentence, over its tokens without padding.
        visible: True for tokens, False for padding, which may stand on either side.

    Raises:
        ValueError: a sentence has another number of tokens than its alignment.
    """
    words = max((alignment.units for alignment in alignments if alignment), default=0)
    entries: list[tuple[int, int, int]] = []
    known = torch.zeros(len(alignments), words, dtype=torch.bool)
    specials = 0
    for sentence, alignment in enumerate(alignments):
        positions = visible[sentence].nonzero().flatten().tolist()
        if alignment is None:
            continue
        if len(positions) != len(alignment.unit_of_token):
            msg = (
                f"Sentence {sentence} of the batch has {len(positions)} tokens, "
                f"its alignment {len(alignment.unit_of_token)}."
            )
            raise ValueError(msg)
        known[sentence, : alignment.units] = True
        seen = 0
        for position, unit in zip(positions, alignment.unit_of_token, strict=True):
            entries.append((sentence, position, words + seen if unit is None else unit))
            seen += unit is None
        specials = max(specials, seen)
    membership = torch.zeros(*visible.shape, words + specials)
    if entries:
        membership[tuple(torch.tensor(entries).T)] = 1.0
    return BatchUnits(membership.to(visible.device), known.to(visible.device))


def merge_tokens(
    weights: Float[Tensor, "batch head query key"],
    queries: BatchUnits,
    keys: BatchUnits,
    *,
    special: bool = False,
) -> Float[Tensor, "batch head query_unit key_unit"]:
    """Attention between words: summed over the tokens of the key, averaged over those of the query.

    ::

        A_uv = (1 / |u|) * sum over i in u, j in v of weights_ij

    With `special` the units of special tokens follow those of the words, and rows sum to the mean
    of their tokens' row sums; without, what lies on special tokens is missing. Rows of units that a
    sentence lacks are 0. Half precision is summed in float32. Cost: O(query * key * unit) a head.
    """
    wide = weights if weights.dtype in {torch.float32, torch.float64} else weights.float()
    units = [
        side.membership if special else side.membership[..., : side.words.shape[1]]
        for side in (queries, keys)
    ]
    from_queries, to_keys = (side.to(wide.dtype) for side in units)
    # All heads in one product: the same columns are summed in each.
    columns = (wide.flatten(1, 2) @ to_keys).unflatten(1, wide.shape[1:3])
    sizes = from_queries.sum(1).clamp_min(1)[:, None, :, None]
    return from_queries.mT[:, None] @ columns / sizes
