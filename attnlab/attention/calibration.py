"""Tables that sigma attention learns from sentences: attention to tokens and offsets outside the band."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnlab.attention.mechanism import Context, Positions, Setup, visible_or_all
from attnlab.attention.mechanisms.full import Full, FullAttention
from attnlab.attention.mechanisms.sigma import SigmaAttention
from attnlab.attention.mechanisms.sigma_static import SigmaStaticAttention
from attnlab.core import InputError, eval_mode
from attnlab.matrices.supports import offsets

SMOOTHING = 5.0
LARGEST_OFFSET = 64


@dataclass(frozen=True)
class AttentionRecord:
    """Attention matrices of a batch and what stands behind them.

    Attributes:
        weights: attention weights, rows of real queries summing to 1.
        token_ids: ids of the keys; None when only offsets are wanted.
        visible: True where a key is a real token; None when all are.
        real_queries: True where a query is; None when queries are the keys (self-attention).
    """

    weights: Float[Tensor, "batch head query key"]
    token_ids: Int[Tensor, "batch key"] | None = None
    visible: Bool[Tensor, "batch key"] | None = None
    real_queries: Bool[Tensor, "batch query"] | None = None


@dataclass(frozen=True)
class SigmaTables:
    """Tables of a sigma mechanism, as they were learned.

    Attributes:
        salience: for each head and token id the attention that such a token receives from outside
            the band, summed over the rows of a sentence and averaged over its occurrences (1 is
            what every token gets under uniform attention), smoothed towards the head's mean.
        offsets: for each head the offsets outside the band that hold most attention, best first.
        occurrences: how often each token id was seen as a key.
        sentences: how many sentences were seen.
    """

    salience: Float[Tensor, "head token"]
    offsets: Int[Tensor, "head extra"]
    occurrences: Int[Tensor, " token"]
    sentences: int


def fit_tables(
    records: Iterable[AttentionRecord],
    *,
    vocabulary: int,
    window: tuple[int, int],
    extra: int = 0,
    smoothing: float = SMOOTHING,
) -> SigmaTables:
    """Salience of tokens and best offsets, from attention matrices of calibration sentences.

    ::

        received(j) = sum over real rows i with j - i outside [-left, right] of H_ij
        salience(t) = (sum over j with token t of received(j) + smoothing * mean) / (count(t) + smoothing)

    Use sentences that are not evaluated on. Cost: one pass over the matrices.

    Args:
        records: matrices with the ids behind them, in batches.
        vocabulary: number of token ids.
        window: the band that sigma will have, left and right.
        extra: how many offsets a head.
        smoothing: weight of the head's mean, in occurrences.

    Raises:
        InputError: there was no sentence.
    """
    tally = Tally(vocabulary, window)
    for record in records:
        tally.add(record)
    return tally.tables(extra=extra, smoothing=smoothing)


class Tally:
    """Running sums over attention matrices, from which tables are made."""

    def __init__(self, vocabulary: int, window: tuple[int, int]) -> None:
        self.window = window
        self.occurrences = torch.zeros(vocabulary, dtype=torch.long)
        self.received = torch.zeros(0, vocabulary, dtype=torch.float64)
        self.by_offset = torch.zeros(0, 2 * LARGEST_OFFSET + 1, dtype=torch.float64)
        self.sentences = 0

    def add(self, record: AttentionRecord) -> None:
        """Counts the matrices of a batch."""
        weights = record.weights.detach().double().cpu()
        batch, heads, queries, keys = weights.shape
        visible = visible_or_all(weights.transpose(-1, -2), record.visible).cpu()
        rows = visible if record.real_queries is None else record.real_queries.cpu()
        if not self.sentences:
            self.received = self.received.new_zeros(heads, len(self.occurrences))
            self.by_offset = self.by_offset.new_zeros(heads, self.by_offset.shape[-1])
        self.sentences += batch
        left, right = self.window
        offset = offsets(queries, keys)
        outside = (offset < -left) | (offset > right)
        real = rows[:, None, :, None] & visible[:, None, None, :]
        weights = weights * (real & outside)
        if record.token_ids is not None:
            ids = record.token_ids.cpu()[visible]
            self.occurrences += torch.bincount(ids, minlength=len(self.occurrences))
            self.received.index_add_(1, ids, weights.sum(-2).transpose(0, 1)[:, visible])
        near = offset.abs() <= LARGEST_OFFSET
        columns = (offset + LARGEST_OFFSET)[near]
        self.by_offset.index_add_(1, columns, weights.sum(0)[:, near])

    def tables(self, *, extra: int, smoothing: float = SMOOTHING) -> SigmaTables:
        """The tables of all that was counted."""
        if not self.sentences:
            msg = "Calibration saw no sentence; hand over at least one batch."
            raise InputError(msg)
        seen = self.occurrences.sum().clamp(min=1)
        mean = self.received.sum(-1, keepdim=True) / seen
        salience = (self.received + smoothing * mean) / (self.occurrences + smoothing)
        best = self.by_offset.sort(dim=-1, descending=True, stable=True).indices[:, :extra]
        return SigmaTables(
            salience.float(), best - LARGEST_OFFSET, self.occurrences.clone(), self.sentences
        )


def calibrate(
    model: nn.Module, batches: Iterable[Mapping[str, Tensor]], *, smoothing: float = SMOOTHING
) -> dict[str, SigmaTables]:
    """Teaches every sigma mechanism in `model` its tables, and returns them by module name.

    The model reads the batches under full attention wherever a sigma mechanism stands, in eval mode
    and without gradients; then each takes over its salience (`columns="salience"`) and offsets
    (`entries="offsets"`), which are saved with the model.

    Args:
        model: a model with sigma mechanisms in it; it is called as `model(**batch)`.
        batches: training sentences, ready for the model. Rows of padding in the target are left out
            by `decoder_attention_mask`, or by labels of -100.
        smoothing: see `fit_tables`.

    Raises:
        InputError: the model has no sigma mechanism, or there was no batch.
    """
    sigmas = {
        name: part for name, part in model.named_modules() if isinstance(part, SigmaAttention)
    }
    if not sigmas:
        msg = "There is no sigma mechanism to calibrate; put one into the model first."
        raise InputError(msg)
    watchers = {name: _Watcher(part) for name, part in sigmas.items()}
    with _watched(model, watchers), eval_mode(model), torch.no_grad():
        for batch in batches:
            target = _real_targets(batch)
            for watcher in watchers.values():
                watcher.real_queries = target if watcher.cross else None
            model(**batch)
    learned = {}
    for name, part in sigmas.items():
        tables = watchers[name].tally.tables(extra=part.spec.extra, smoothing=smoothing)
        by_salience = part.spec.columns == "salience"
        part.load_tables(tables.salience if by_salience else None, tables.offsets)
        learned[name] = tables
    return learned


def load_frequencies(model: nn.Module, counts: Int[Tensor, " token"]) -> None:
    """Tells `sigma(columns="frequency")` and `sigma_static` in `model` how often tokens occur in training.

    The rarest tokens of a sentence become its columns: the thesis's idea of rare tokens.
    """
    for part in model.modules():
        if isinstance(part, SigmaAttention) and part.spec.columns == "frequency":
            heads = part.get_buffer("priority").shape[0]
            part.load_tables(-counts.float().expand(heads, -1))
        if isinstance(part, SigmaStaticAttention):
            part.load_counts(counts)


class _Watcher(FullAttention):
    """Full attention instead of a sigma mechanism, counting what passes."""

    name: ClassVar[str] = "watcher"
    positions: ClassVar[Positions] = SigmaAttention.positions

    def __init__(self, sigma: SigmaAttention) -> None:
        super().__init__(Full(), Setup(causal=sigma.causal, cross=sigma.cross))
        vocabulary = sigma.get_buffer("priority").shape[-1] if sigma.uses_tokens else 0
        self.uses_tokens = sigma.uses_tokens
        self.tally = Tally(vocabulary, sigma.window)
        self.real_queries: Tensor | None = None

    def mix(self, query: Tensor, key: Tensor, value: Tensor, context: Context) -> Tensor:
        """Values mixed by full attention; keys come in the order in which sigma counts them."""
        weights = self.matrix(query, key, context)
        ids = context.token_ids if self.uses_tokens else None
        given = context.real_queries
        real = self.real_queries if given is None else given[:, context.first_query :]
        self.tally.add(AttentionRecord(weights, ids, context.visible, real))
        return weights @ value


@contextmanager
def _watched(model: nn.Module, parts: Mapping[str, nn.Module]) -> Iterator[None]:
    """The model with `parts` at their names inside the block, and as it was after it."""
    before = {name: model.get_submodule(name) for name in parts}
    try:
        for name, part in parts.items():
            model.set_submodule(name, part)
        yield
    finally:
        for name, part in before.items():
            model.set_submodule(name, part)


def _real_targets(batch: Mapping[str, Tensor]) -> Tensor | None:
    if "decoder_attention_mask" in batch:
        return batch["decoder_attention_mask"].bool()
    if "labels" in batch:
        return batch["labels"] != -100  # transformers' label of what is not scored
    targets = batch.get("decoder_input_ids")
    return None if targets is None else torch.ones_like(targets, dtype=torch.bool)
