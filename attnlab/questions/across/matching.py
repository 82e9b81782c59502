"""Heads of two models matched by what they attend to on the same texts."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pandas as pd
import torch
from jaxtyping import Bool, Float
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from attnlab.core import SITES, Head, Site
from attnlab.labels import PatternBatch, PatternTexts
from attnlab.matrices import js_distances, js_divergences
from attnlab.questions.across.question import ATTENTION
from attnlab.reading import LayerWeights

# Of so many of the first texts matrices are compared, while they take no more bytes than this.
MOST_TEXTS, MOST_BYTES = 100, 512 * 2**20
Words = tuple[Float[Tensor, "query word"], Float[Tensor, "key other"], Bool[Tensor, "word other"]]


@dataclass(frozen=True)
class TextMatrices:
    """The matrices of a text at a site.

    Attributes:
        tokens: of the queries and of the keys.
        visible: True where a query that counts may look at a key.
        words: which word each query and each key is of, and which words see which; None where not known.
        layers: by number.
    """

    tokens: tuple[list[str], list[str]]
    visible: Bool[Tensor, "query key"]
    words: Words | None
    layers: dict[int, Float[Tensor, "head query key"]] = field(default_factory=dict)

    def attended(
        self, layers: Sequence[int], *, by_tokens: bool
    ) -> tuple[Float[Tensor, "head query key"], Bool[Tensor, "query key"]] | None:
        """The weights of all heads of some layers, and which keys are visible; None without words.

        They are between tokens, or between words: then a key has the sum over its tokens, a query the mean.
        """
        weights = torch.cat([self.layers[layer] for layer in layers]).double()
        if by_tokens:
            return weights, self.visible
        if self.words is None:
            return None
        queries, keys, visible = self.words
        return (queries.double().mT @ weights @ keys.double()).masked_fill(~visible, 0), visible


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
        batch: PatternBatch | None = None
        for place, number in enumerate(layer.sentences):
            if number >= self._end:
                continue
            at = (number, layer.site)
            if at not in self.texts:
                batch = batch or self.known.batch(layer)
                self.texts[at] = _text(batch, place)
            queries, keys = (axis.real[place] for axis in (layer.queries, layer.keys))
            weights = layer.weights[place][:, queries][:, :, keys].float().cpu()
            self.texts[at].layers[layer.layer] = weights
            self._bytes += weights.nbytes
            while self._bytes > MOST_BYTES and self.count > 1:
                self._leave_out_last()

    def _leave_out_last(self) -> None:
        """Keeps the last of the texts no longer, nor any behind it."""
        self._end = max(number for number, _ in self.texts)
        for at in [at for at in self.texts if at[0] == self._end]:
            self._bytes -= sum(weights.nbytes for weights in self.texts.pop(at).layers.values())

    def heads_of(self, site: Site) -> dict[int, int]:
        """How many heads each layer of a site has; empty where there is no such site."""
        texts = (text for (_, own), text in self.texts.items() if own == site)
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


def _text(batch: PatternBatch, place: int) -> TextMatrices:
    """What is known of one text of a batch at a site, without its matrices."""
    layer = batch.layer
    real = layer.queries.real[place], layer.keys.real[place]
    visible = layer.visible[place] & layer.counted_queries[place][:, None]
    words: Words | None = None
    if batch.aligned[place]:
        queries, keys = (
            side.membership[place, own, : side.words.shape[1]].cpu()
            for side, own in zip(batch.units, real, strict=True)
        )
        sees = batch.visible_words[place].cpu()
        words = queries / queries.sum(0).clamp_min(1), keys, sees
    tokens = tuple(
        vocabulary.tokens(axis.ids[place][own].tolist())
        for vocabulary, axis, own in zip(
            layer.vocabularies, (layer.queries, layer.keys), real, strict=True
        )
    )
    return TextMatrices((tokens[0], tokens[1]), visible[real[0]][:, real[1]].cpu(), words)


def heads_of_both(
    first: KeptTexts, other: KeptTexts, site: Site
) -> tuple[dict[int, int], dict[int, int]]:
    """How many heads each layer of a site has in both models.

    The other has none where one decoder reads translations and the other one the sources.
    """
    same_texts = (first.known.target is None) == (other.known.target is None)
    read_alike = site != "decoder" or same_texts
    return first.heads_of(site), other.heads_of(site) if read_alike else {}


def matched(
    first: KeptTexts, other: KeptTexts, by: str, *, by_tokens: bool
) -> Iterator[pd.DataFrame]:
    """A row per head of the other model, with the head of the first that it is matched with.

    Heads of each layer are matched, or of all layers of a site where these differ in number.
    """
    for site in SITES:
        counts = heads_of_both(first, other, site)
        if not all(counts):
            continue
        alike = counts[0] == counts[1]
        groups = [([layer], [layer]) for layer in counts[0]] if alike else [(*map(list, counts),)]
        for layers in groups:
            heads = [
                [Head(site, layer, head) for layer in own for head in range(count[layer])]
                for own, count in zip(layers, counts, strict=True)
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
) -> tuple[Tensor, Tensor] | None:
    """The rows of a text that have two keys to choose from in both models, each summing to 1.

    None where there are none, or words that do not match.
    """
    found = [
        text.attended(own, by_tokens=by_tokens)
        for text, own in zip((first, other), layers, strict=True)
    ]
    if found[0] is None or found[1] is None or found[0][1].shape != found[1][1].shape:
        return None
    chosen = (found[0][1].sum(-1) >= 2) & (found[1][1].sum(-1) >= 2)
    if not chosen.any():
        return None
    rows = [weights[:, chosen] for weights in (found[0][0], found[1][0])]
    least = torch.finfo(torch.double).tiny
    first_rows, other_rows = (own / own.sum(-1, keepdim=True).clamp_min(least) for own in rows)
    return first_rows, other_rows


def _matched_heads(
    first: Sequence[Head],
    other: Sequence[Head],
    distances: Float[Tensor, "head other_head"],
    by: str,
) -> pd.DataFrame:
    """The heads of the other model, each with one of the first.

    By attention, the sum of the distances of matched heads is the least of any assignment.
    """
    at = {head: row for row, head in enumerate(first)}
    same = {column: at[head] for column, head in enumerate(other) if head in at}
    pairs = same
    if by == ATTENTION:
        rows, columns = linear_sum_assignment(distances.numpy())
        pairs = dict(zip(columns.tolist(), rows.tolist(), strict=True))
    names = [str(first[pairs[column]]) if column in pairs else "" for column in range(len(other))]
    matched_distance, number_distance = (
        [
            float(distances[chosen[column], column]) if column in chosen else math.nan
            for column in range(len(other))
        ]
        for chosen in (pairs, same)
    )
    return pd.DataFrame(other).assign(
        matched=names,
        matched_distance=matched_distance,
        number_distance=number_distance,
        moved=[name not in {"", str(head)} for name, head in zip(names, other, strict=True)],
    )
