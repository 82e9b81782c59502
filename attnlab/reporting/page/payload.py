"""Attention weights as text small enough for a page: 8-bit square roots, deflated, in base64."""

import base64
import zlib
from dataclasses import dataclass

import torch
from jaxtyping import Float, UInt8
from torch import Tensor
from torch.nn.functional import max_pool2d

LEVELS = 255


@dataclass(frozen=True)
class EncodedWeights:
    """Weights of the heads of one layer and sentence as text.

    Attributes:
        text: base64 of the deflated bytes, one per weight, ordered by head, query and key.
        shape: heads, queries and keys.
        scale: what the largest byte stands for: 1, or the largest weight where that is more.
    """

    text: str
    shape: tuple[int, int, int]
    scale: float


@dataclass(frozen=True)
class Stored:
    """Weights as they stand in the page.

    Attributes:
        address: sentence, site and layer, after `weights.` or `small.`.
        encoded: the weights.
    """

    address: str
    encoded: EncodedWeights


@dataclass(frozen=True)
class CutQueries:
    """A sentence of which only the first queries are kept at a site.

    Attributes:
        sentence: its number.
        site: in words.
        queries: how many are kept.
        all_queries: how many there are.
    """

    sentence: int
    site: str
    queries: int
    all_queries: int


@dataclass(frozen=True)
class ViewerData:
    """What the viewer reads.

    Attributes:
        facts: JSON that may stand within a script element.
        weights: of every sentence, site and layer, and small pictures of long sentences.
        blocks: tokens per entry along each side, of the sentences too large to be stored whole.
        left_out: sentences for which there was no room.
        largest_kept: rows whose largest weight is still the largest, and all rows.
        cut: what is kept of sentences that are too large to be kept whole.
    """

    facts: str
    weights: tuple[Stored, ...]
    blocks: dict[int, int]
    left_out: tuple[int, ...]
    largest_kept: tuple[int, int]
    cut: tuple[CutQueries, ...] = ()


def encode_weights(weights: Float[Tensor, "head query key"]) -> EncodedWeights:
    """Each weight as the nearest of 256 levels of its square root.

    The square root of a weight is off by at most half a level, 1/510 of the square root of `scale`.
    """
    scale = max(1.0, float(weights.max()) if weights.numel() else 1.0)
    deflated = zlib.compress(quantised(weights, scale).numpy().tobytes(), 9)
    heads, queries, keys = weights.shape
    return EncodedWeights(base64.b64encode(deflated).decode(), (heads, queries, keys), scale)


def decode_weights(encoded: EncodedWeights) -> Float[Tensor, "head query key"]:
    """The weights that a page shows; what its JavaScript does."""
    levels = bytearray(zlib.decompress(base64.b64decode(encoded.text)))
    roots = torch.frombuffer(levels, dtype=torch.uint8).double() / LEVELS
    return (roots.square() * encoded.scale).view(encoded.shape)


def quantised(
    weights: Float[Tensor, "head query key"], scale: float
) -> UInt8[Tensor, "head query key"]:
    """The level of each weight, 0 to 255; what lies below 0 is 0."""
    roots = (weights.double() / scale).clamp(0, 1).sqrt()
    return (roots * LEVELS).round().to(torch.uint8).contiguous()


def block_maxima(
    weights: Float[Tensor, "head query key"], block: int
) -> Float[Tensor, "head query_block key_block"]:
    """The largest weight of each square of `block` queries and keys; squares at the end may be cut."""
    return max_pool2d(weights.float(), block, block, ceil_mode=True) if block > 1 else weights


def rows_keeping_largest(weights: Float[Tensor, "head query key"]) -> tuple[int, int]:
    """In how many rows the largest level is that of the largest weight, and how many rows there are."""
    levels = quantised(weights, max(1.0, float(weights.max())))
    kept = levels.argmax(-1) == weights.argmax(-1)
    return int(kept.sum()), kept.numel()
