"""Real tokens moved in front of padding, for mechanisms that count positions from the start of a sentence."""

from dataclasses import dataclass, replace

from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlab.attention.mechanism import Context, Scoring


@dataclass(frozen=True)
class Arrangement:
    """An order of the keys of each sentence, and whether its queries are the same tokens.

    Attributes:
        keys: where each key of the new order stood.
        rows: whether queries are moved along with their keys.
    """

    keys: Int[Tensor, "batch key"]
    rows: bool

    def of_keys(
        self, tokens: Float[Tensor, "batch head key dim"]
    ) -> Float[Tensor, "batch head key dim"]:
        """Keys or values in the new order."""
        return rows_in_order(tokens, self.keys)

    def of_queries(
        self, tokens: Float[Tensor, "batch head query dim"]
    ) -> Float[Tensor, "batch head query dim"]:
        """Queries in the new order."""
        return rows_in_order(tokens, self.keys) if self.rows else tokens

    def of_context(self, context: Context) -> Context:
        """What the mechanism is told, about keys in the new order."""
        ids, scoring = context.token_ids, context.scoring
        return replace(
            context,
            visible=None if context.visible is None else context.visible.gather(1, self.keys),
            token_ids=None if ids is None else ids.gather(1, self.keys),
            bias=self._of_pairs(context.bias),
            scoring=scoring and self._of_scoring(scoring),
        )

    def output_back(
        self, mixed: Float[Tensor, "batch head query dim"]
    ) -> Float[Tensor, "batch head query dim"]:
        """An output with its rows where they stood before."""
        return rows_in_order(mixed, self.keys.argsort(-1)) if self.rows else mixed

    def matrix_back(
        self, matrix: Float[Tensor, "batch head query key"] | Bool[Tensor, "batch head query key"]
    ) -> Float[Tensor, "batch head query key"] | Bool[Tensor, "batch head query key"]:
        """A matrix with its rows and columns where they stood before."""
        back = self.keys.argsort(-1)
        matrix = rows_in_order(matrix, back) if self.rows else matrix
        return columns_in_order(matrix, back)

    def _of_scoring(self, scoring: Scoring) -> Scoring:
        return replace(scoring, allowed=self._of_pairs(scoring.allowed))

    def _of_pairs(self, pairs: Tensor | None) -> Tensor | None:
        if pairs is None:
            return None
        pairs = pairs.expand(len(self.keys), -1, -1, -1)
        pairs = rows_in_order(pairs, self.keys) if self.rows else pairs
        return columns_in_order(pairs, self.keys)


def padding_behind(visible: Bool[Tensor, "batch key"] | None, *, rows: bool) -> Arrangement | None:
    """The order that has the real tokens of each sentence in front; None where they stand there.

    >>> import torch
    >>> padding_behind(torch.tensor([[False, True, True]]), rows=False).keys.tolist()
    [[1, 2, 0]]
    """
    if visible is None or not bool((visible[:, 1:] & ~visible[:, :-1]).any()):
        return None
    return Arrangement(real_first(visible), rows)


def real_first(visible: Bool[Tensor, "batch key"]) -> Int[Tensor, "batch key"]:
    """Positions of the real tokens of each sentence in their order, then those of its padding.

    >>> import torch
    >>> real_first(torch.tensor([[False, True, False, True]])).tolist()
    [[1, 3, 0, 2]]
    """
    return visible.byte().argsort(dim=-1, descending=True, stable=True)


def rows_in_order(tokens: Tensor, order: Tensor) -> Tensor:
    """Rows of queries or keys of each sentence, `[batch, head, row, x]`, in the order `[batch, row]`."""
    return tokens.gather(2, order[:, None, :, None].expand_as(tokens))


def columns_in_order(pairs: Tensor, order: Tensor) -> Tensor:
    """Columns of a matrix of each sentence, `[batch, head, query, key]`, in the order `[batch, key]`."""
    return pairs.gather(3, order[:, None, None, :].expand_as(pairs))


@dataclass(frozen=True)
class Group:
    """Sentences of a batch whose queries have equally much padding in front, which is left out.

    Attributes:
        sentences: their positions in the batch.
        padding: how many of the queries at hand are padding in front of them.
        context: what is told of them; queries are counted from their first real one.
    """

    sentences: Int[Tensor, " sentence"]
    padding: int
    context: Context


def groups_by_start(context: Context, queries: int) -> list[Group]:
    """The sentences of a batch by where their queries begin; none where all begin at once in front."""
    real = context.real_queries
    if real is None or not bool((~real[:, :1] & real.any(-1, keepdim=True)).any()):
        return []
    starts = real.byte().argmax(-1)
    return [
        _group((starts == start).nonzero().flatten(), start, context, queries)
        for start in starts.unique().tolist()
    ]


def _group(sentences: Tensor, start: int, context: Context, queries: int) -> Group:
    padding = min(max(start - context.first_query, 0), queries)
    ids, visible, scoring = context.token_ids, context.visible, context.scoring

    def pairs(whole: Tensor | None) -> Tensor | None:
        if whole is None:
            return None
        return (whole if whole.shape[0] == 1 else whole[sentences])[:, :, padding:]

    return Group(
        sentences,
        padding,
        Context(
            None if visible is None else visible[sentences],
            max(context.first_query - start, 0),
            None if ids is None else ids[sentences],
            pairs(context.bias),
            scoring and replace(scoring, allowed=pairs(scoring.allowed)),
            None if context.real_queries is None else context.real_queries[sentences][:, start:],
        ),
    )
