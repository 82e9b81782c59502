"""From attention between pieces of words to weights between words, and from these to links.

Cross-attention has a row for each piece that the decoder reads and a column for each piece of the source.
The row that predicts a piece is the one that reads the piece before it. Whether that row (`output`) or the
one that reads the piece itself (`input`) says what it translates is a setting; see Chen et al. 2020 (arXiv
2004.14837).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlab.alignment.conventions import FromWord, LinkRule, Row
from attnlab.alignment.links import GoldLinks, Link
from attnlab.labels import BatchUnits, merge_tokens


@dataclass(frozen=True)
class Pieces:
    """Which word each piece of a sentence belongs to.

    Attributes:
        words: by piece, special tokens among them, the word from 0; None for special tokens.
        count: how many words the sentence has, those without a piece too.
    """

    words: tuple[int | None, ...]
    count: int


@dataclass(frozen=True)
class WordWeights:
    """Weights between words, by head; words that are not there or have no piece have weight 0.

    Attributes:
        weights: from target word to source word.
        targets: True for target words that have a row.
        sources: True for source words that have a column.
    """

    weights: Float[Tensor, "batch head target source"]
    targets: Bool[Tensor, "batch target"]
    sources: Bool[Tensor, "batch source"]

    @property
    def linkable(self) -> Bool[Tensor, "batch 1 target source"]:
        """True for pairs of words that both have a piece."""
        return (self.targets[:, :, None] & self.sources[:, None])[:, None]

    def of_heads(self, heads: Sequence[int]) -> "WordWeights":
        """The mean of the weights of these heads, as one head."""
        mean = self.weights[:, list(heads)].mean(1, keepdim=True)
        return WordWeights(mean, self.targets, self.sources)


def word_weights(
    weights: Float[Tensor, "batch head row column"],
    targets: Sequence[Pieces],
    sources: Sequence[Pieces],
    *,
    row: Row = "output",
    from_word: FromWord = "mean",
) -> WordWeights:
    """Weights between words: to a word the sum over its pieces, from a word the mean over its pieces' rows.

    What lies on special tokens is left out, and rows are not scaled up for it: the arg-max of a row does not
    depend on that. Half precision is summed in float32.

    Args:
        weights: row t is of the step that predicts target piece t, so it reads piece t - 1, and row 0 a start
            token; rows and columns behind those of a sentence are padding.
        targets: of each sentence, the pieces as they are predicted, one a row; the end token may be among
            them.
        sources: of each sentence, the pieces as the encoder reads them.
        row: whether the row of a piece is the one that predicts it, t, or that reads it, t + 1. No row reads
            the last piece, which is the end token where there is one.
        from_word: over all pieces of the target word, or its first piece alone.

    Raises:
        ValueError: a sentence has more source pieces than there are columns, or more target pieces than rows.

    Cost: O(row * column * word) a head.
    """
    shift = 1 if row == "input" else 0
    size = weights.shape[2:]
    queries = [_rows_of_words(words, size[0], shift, from_word) for words in targets]
    keys = [_rows_of_words(words, size[1], 0, "mean") for words in sources]
    units = [
        _units(places, sentences, length, weights.device)
        for places, sentences, length in zip((queries, keys), (targets, sources), size, strict=True)
    ]
    merged = merge_tokens(weights, *units)
    has_piece = [unit.membership.any(1) for unit in units]
    return WordWeights(merged, has_piece[0], has_piece[1])


def _rows_of_words(
    pieces: Pieces, rows: int, shift: int, from_word: FromWord
) -> list[tuple[int, int]]:
    """Pairs (row, word) of the pieces that count."""
    if len(pieces.words) > rows:
        msg = f"A sentence has {len(pieces.words)} pieces, and there are {rows} rows or columns."
        raise ValueError(msg)
    placed = [
        (piece + shift, word)
        for piece, word in enumerate(pieces.words)
        if word is not None and piece + shift < len(pieces.words)
    ]
    if from_word == "first":
        return [(row, word) for word, row in {word: row for row, word in reversed(placed)}.items()]
    return placed


def _units(
    places: Sequence[Sequence[tuple[int, int]]],
    sentences: Sequence[Pieces],
    length: int,
    device: torch.device,
) -> BatchUnits:
    most = max((words.count for words in sentences), default=0)
    membership = torch.zeros(len(sentences), length, most)
    entries = [(index, *place) for index, pairs in enumerate(places) for place in pairs]
    if entries:
        # One list an axis: torch is slow with tuples in a list.
        membership[tuple(map(torch.tensor, zip(*entries, strict=True)))] = 1.0
    words = torch.tensor([pieces.count for pieces in sentences])[:, None] > torch.arange(most)
    return BatchUnits(membership.to(device), words.to(device))


def linked(
    words: WordWeights, rule: LinkRule = "target"
) -> Bool[Tensor, "batch head target source"]:
    """The links of each head: from every target word to its largest weight, or from every source word.

    Of equal weights the lowest index counts. Words without a piece have no link, and neither has padding.

    Args:
        words: the weights.
        rule: `target` gives every target word one link, `source` every source word one; `intersection` and
            `union` are of these two.
    """
    if rule == "target":
        return _largest(words.weights, words.linkable, -1)
    if rule == "source":
        return _largest(words.weights, words.linkable, -2)
    by_target, by_source = linked(words, "target"), linked(words, "source")
    return by_target & by_source if rule == "intersection" else by_target | by_source


def _largest(
    weights: Float[Tensor, "batch head target source"],
    linkable: Bool[Tensor, "batch 1 target source"],
    axis: int,
) -> Bool[Tensor, "batch head target source"]:
    best = weights.masked_fill(~linkable, -torch.inf).argmax(axis, keepdim=True)
    return torch.zeros_like(weights, dtype=torch.bool).scatter_(axis, best, value=True) & linkable


def links_in(grid: Bool[Tensor, "target source"]) -> frozenset[Link]:
    """The links of one sentence and head, as pairs (source word, target word)."""
    return frozenset((source, target) for target, source in grid.nonzero().tolist())


def weighed_links(words: WordWeights, rule: LinkRule = "target") -> list[dict[Link, float]]:
    """The links of the one head there is, with their weights, of every sentence."""
    grids = linked(words, rule)[:, 0]
    links: list[dict[Link, float]] = [{} for _ in grids]
    # All sentences at once: a call of torch for each takes longer than their links.
    places, values = grids.nonzero().tolist(), words.weights[:, 0][grids].tolist()
    for (sentence, target, source), value in zip(places, values, strict=True):
        links[sentence][source, target] = value
    return links


@dataclass(frozen=True)
class GoldGrid:
    """The gold links of a batch.

    Attributes:
        sure: True where a link is sure.
        possible: True where it is possible.
    """

    sure: Bool[Tensor, "batch target source"]
    possible: Bool[Tensor, "batch target source"]


def gold_grid(gold: Sequence[GoldLinks], targets: int, sources: int) -> GoldGrid:
    """The links of sentences of at most so many target and source words.

    Raises:
        IndexError: a link is to a word behind these.
    """
    grids = torch.zeros(2, len(gold), targets, sources, dtype=torch.bool)
    for index, links in enumerate(gold):
        for grid, pairs in zip(grids, (links.sure, links.possible), strict=True):
            for source, target in pairs:
                grid[index, target, source] = True
    return GoldGrid(grids[0], grids[1])


def count_linked(
    grid: Bool[Tensor, "batch head target source"], gold: GoldGrid
) -> Int[Tensor, "head batch 4"]:
    """|A|, |S|, |A n S| and |A n P| of each head and sentence, as `count_links` has them."""
    sure, possible = gold.sure[:, None], gold.possible[:, None]
    counts = (grid, sure.expand_as(grid), grid & sure, grid & possible)
    return torch.stack([count.sum((-1, -2)) for count in counts], -1).transpose(0, 1)
