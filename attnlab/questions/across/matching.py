"""Heads of two models matched by what they attend to on the same texts."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pandas as pd
import torch
from jaxtyping import Bool, Float
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from attnlab.core import Head, Site
from attnlab.labels import Alignment, PatternTexts, gather_units, merge_tokens
from attnlab.matrices import js_distances, js_divergences
from attnlab.questions.across.question import ATTENTION
from attnlab.reading import LayerWeights

# Of so many of the first texts matrices are compared, while they take no more bytes than this.
MOST_TEXTS, MOST_BYTES = 100, 512 * 2**20
# How many heads each layer of a site has.
Shape = dict[int, int]


@dataclass(frozen=True)
class TextMatrices:
    """The matrices of a text at a site.

    Attributes:
        tokens: of the queries and of the keys.
        visible: True where a query that counts may look at a key.
        alignments: of the queries and of the keys with their words; None where these are not known.
        causal: whether queries look at no later key.
        layers: by number.
    """

    tokens: tuple[list[str], ...]
    visible: Bool[Tensor, "query key"]
    alignments: tuple[Alignment | None, ...]
    causal: bool
    layers: dict[int, Float[Tensor, "head query key"]] = field(default_factory=dict)

    def attended(
        self, layers: Sequence[int], *, by_tokens: bool
    ) -> tuple[Float[Tensor, "head query key"], Bool[Tensor, "query key"]] | None:
        """The weights of all heads of some layers, and which keys are visible; None without words.

        They are between tokens, or between words as `merge_tokens` has them.
        """
        weights = torch.cat([self.layers[layer] for layer in layers]).double()
        if by_tokens:
            return weights, self.visible
        if None in self.alignments:
            return None
        queries, keys = (
            gather_units([alignment], torch.ones(1, len(tokens), dtype=torch.bool))
            for alignment, tokens in zip(self.alignments, self.tokens, strict=True)
        )
        seen = queries.of_tokens[0][:, None] & keys.of_tokens[0]
        seen = seen.tril() if self.causal else seen
        return merge_tokens(weights[None], queries, keys)[0].masked_fill(~seen, 0), seen


class KeptTexts:
    """The matrices of the first texts, fed layer by layer.

    Args:
        known: what is known of the texts.
    """

    def __init__(self, known: PatternTexts) -> None:
        self.known = known
        self.texts: dict[tuple[int, Site], TextMatrices] = {}
        self._end, self._bytes = MOST_TEXTS, 0

    def update(self, layer: LayerWeights) -> None:
        """Keeps one layer's weights for one batch, of the texts that are wanted."""
        for place, number in enumerate(layer.sentences):
            if number >= self._end:
                continue
            queries, keys = (axis.real[place] for axis in (layer.queries, layer.keys))
            at = (number, layer.site)
            if at not in self.texts:
                self.texts[at] = self._text(layer, place)
            weights = layer.weights[place][:, queries][:, :, keys].float().cpu()
            self.texts[at].layers[layer.layer] = weights
            self._bytes += weights.nbytes
            while self._bytes > MOST_BYTES and self.count > 1:
                self._leave_out_last()

    def _text(self, layer: LayerWeights, place: int) -> TextMatrices:
        """What is known of one text of a batch at a site, without its matrices."""
        axes = layer.queries, layer.keys
        real = [axis.real[place] for axis in axes]
        visible = layer.visible[place] & layer.counted_queries[place][:, None]
        tokens = (
            vocabulary.tokens(axis.ids[place][is_real].tolist())
            for vocabulary, axis, is_real in zip(layer.vocabularies, axes, real, strict=True)
        )
        alignments = (side[place] for side in self.known.batch(layer).alignments)
        visible = visible[real[0]][:, real[1]].cpu()
        return TextMatrices(tuple(tokens), visible, tuple(alignments), layer.causal)

    def _leave_out_last(self) -> None:
        """Keeps the last of the texts no longer, nor any behind it."""
        self._end = max(number for number, _ in self.texts)
        for at in [at for at in self.texts if at[0] == self._end]:
            self._bytes -= sum(weights.nbytes for weights in self.texts.pop(at).layers.values())

    def heads_of(self, site: Site) -> Shape:
        """How many heads each layer of a site has; empty where there is no such site."""
        texts = (text for (_, text_site), text in self.texts.items() if text_site == site)
        layers = next((text.layers for text in texts), {})
        return {layer: len(weights) for layer, weights in layers.items()}

    @property
    def count(self) -> int:
        """How many texts are kept."""
        return len({number for number, _ in self.texts})

    def has_tokens_of(self, other: "KeptTexts") -> bool:
        """Whether the tokens of all texts that both have are the same."""
        shared = self.texts.keys() & other.texts.keys()
        return all(self.texts[at].tokens == other.texts[at].tokens for at in shared)


def heads_of_both(first: KeptTexts, other: KeptTexts, site: Site) -> tuple[Shape, Shape]:
    """How many heads each layer of a site has in both models.

    The other has none where one decoder reads translations and the other one the sources.
    """
    same_texts = (first.known.target is None) == (other.known.target is None)
    read_alike = site != "decoder" or same_texts
    return first.heads_of(site), other.heads_of(site) if read_alike else {}


def matched(
    first: KeptTexts,
    other: KeptTexts,
    site: Site,
    shapes: tuple[Shape, Shape],
    by: str,
    *,
    by_tokens: bool,
) -> Iterator[pd.DataFrame]:
    """A row per head of the other model at a site, with the head of the first that it is matched with.

    Heads of each layer are matched, or of all layers where these differ in number.
    """
    alike = shapes[0] == shapes[1]
    groups = [([layer], [layer]) for layer in shapes[0]] if alike else [(*map(list, shapes),)]
    for layers in groups:
        heads = [
            [Head(site, layer, head) for layer in numbers for head in range(shape[layer])]
            for numbers, shape in zip(layers, shapes, strict=True)
        ]
        values = [
            js_distances(js_divergences(*rows), rows[0].shape[1])
            for at in sorted(first.texts.keys() & other.texts.keys())
            if at[1] == site
            and (rows := _rows_of_both(first.texts[at], other.texts[at], layers, by_tokens))
        ]
        if values:
            yield _matched_heads(heads[0], heads[1], torch.stack(values).mean(0), by)


def _rows_of_both(
    first: TextMatrices, other: TextMatrices, layers: Sequence[Sequence[int]], by_tokens: bool
) -> list[Tensor] | None:
    """The rows of a text that have two keys to choose from in both models, each summing to 1.

    None where there are none, or words that do not match.
    """
    both = [
        text.attended(numbers, by_tokens=by_tokens)
        for text, numbers in zip((first, other), layers, strict=True)
    ]
    if both[0] is None or both[1] is None or both[0][1].shape != both[1][1].shape:
        return None
    chosen = (both[0][1].sum(-1) >= 2) & (both[1][1].sum(-1) >= 2)
    if not chosen.any():
        return None
    rows = [weights[:, chosen] for weights in (both[0][0], both[1][0])]
    least = torch.finfo(torch.double).tiny
    return [weights / weights.sum(-1, keepdim=True).clamp_min(least) for weights in rows]


def _matched_heads(
    first: Sequence[Head],
    other: Sequence[Head],
    distances: Float[Tensor, "head other_head"],
    by: str,
) -> pd.DataFrame:
    """The heads of the other model, each with one of the first.

    By attention, the sum of the distances of matched heads is the least of any assignment.
    """
    rows = {head: row for row, head in enumerate(first)}
    same = [rows.get(head) for head in other]
    pairs = same
    if by == ATTENTION:
        assigned, columns = linear_sum_assignment(distances.numpy())
        chosen = dict(zip(columns.tolist(), assigned.tolist(), strict=True))
        pairs = [chosen.get(column) for column in range(len(other))]
    matched_distance, number_distance = (
        [math.nan if row is None else float(distances[row, n]) for n, row in enumerate(of)]
        for of in (pairs, same)
    )
    return pd.DataFrame(other).assign(
        matched=["" if row is None else str(first[row]) for row in pairs],
        matched_distance=matched_distance,
        number_distance=number_distance,
        moved=[row not in {None, number} for row, number in zip(pairs, same, strict=True)],
    )
