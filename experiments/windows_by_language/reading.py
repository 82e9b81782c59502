"""How far encoder heads reach: captured weight by window and by columns beyond it, in words and in tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from tokenizers import pre_tokenizers
from torch import Tensor
from torch.nn.functional import pad

from attnlab.labels import (
    Alignment,
    Span,
    align_offsets,
    gather_units,
    gold_of_texts,
    merge_tokens,
    shuffled,
    untrained_twin,
)
from attnlab.models import Run
from attnlab.reading import LayerWeights, Reading, Tokens, prepare

SHARE = 0.9
WORDS, TOKENS = LEVELS = ("words", "tokens")
# Words: special tokens and punctuation are no keys and no queries, and rows are divided by what is left. All:
# each special token and mark is a unit at its place.
ONLY_WORDS, ALL = KEYS = ("words", "all")
TRAINED, UNTRAINED, SHUFFLED = CONDITIONS = ("trained", "untrained", "shuffled words")
CURVE = 20
_SPLITTER = pre_tokenizers.Sequence(
    [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("isolated")]
)


@dataclass(frozen=True)
class Units:
    """The words or tokens of a text, in order, special tokens among them.

    Attributes:
        of_token: the unit of each token.
        is_word: True for words, False for special tokens and marks of punctuation.
        count: how often the least frequent token of each stands in the training text.
    """

    of_token: tuple[int, ...]
    is_word: Bool[Tensor, " unit"]
    count: Int[Tensor, " unit"]


def units_of(text: str, tokens: Tokens, counts: Int[Tensor, " type"], level: str) -> Units:
    """The units of a text; a mark of punctuation is a unit of its own, as the tokenizer splits text.

    Args:
        text: with the words.
        tokens: of the text.
        counts: how often each type stands in the training text.
        level: of `LEVELS`.
    """
    spans, is_word = _words(text)
    word = align_offsets(text, spans, tokens.spans or (), tokens.special).unit_of_token
    of_token, wordlike, before = [], [], None
    for place, own in enumerate(word):
        if place == 0 or own is None or own != before or level == TOKENS:
            wordlike.append(own is not None and is_word[own])
        of_token.append(len(wordlike) - 1)
        before = own
    least = torch.full((len(wordlike),), torch.iinfo(counts.dtype).max, dtype=counts.dtype)
    least.scatter_reduce_(0, torch.tensor(of_token), counts[list(tokens.ids)], "amin")
    return Units(tuple(of_token), torch.tensor(wordlike), least)


def _words(text: str) -> tuple[list[Span], list[bool]]:
    pieces = _SPLITTER.pre_tokenize_str(text)
    return [Span(*span) for _, span in pieces], [any(map(str.isalnum, word)) for word, _ in pieces]


def captured(
    weights: Float[Tensor, "head query key"], order: Int[Tensor, " key"] | None = None
) -> Float[Tensor, "head window column"]:
    """Weight within a window of w to each side or in k columns, summed over queries, for all w and k.

    Columns are those with most weight outside the window, which is the best choice of k of them, or the
    first k of `order`. Cost: O(key^2 log key) a head.
    """
    keys = weights.shape[-1]
    place = torch.arange(keys)
    distance = (place[:, None] - place).abs()
    by_distance = weights.new_zeros(weights.shape)
    by_distance.scatter_add_(1, distance.expand_as(weights), weights)
    inside = by_distance.cumsum(1)
    outside = weights.sum(1, keepdim=True) - inside
    chosen = outside.sort(-1, descending=True).values if order is None else outside[..., order]
    columns = pad(chosen.cumsum(-1), (1, 0))
    return inside.sum(-1, keepdim=True) + columns


class Windows:
    """Mean captured weight of every encoder head, of the best and of the rarest columns; a consumer.

    Args:
        units: of each text that is read, by level.
    """

    def __init__(self, units: Mapping[str, Sequence[Units]]) -> None:
        self.units = units
        self.sizes: dict[tuple[str, str], list[int]] = {}
        self.sums: dict[tuple[str, str, str], Tensor] = {}

    def update(self, layer: LayerWeights) -> None:
        """Adds the weights of one batch."""
        for level, of_texts in self.units.items():
            texts = [of_texts[number] for number in layer.sentences]
            sizes = [len(one.is_word) for one in texts]
            aligned = [
                Alignment(one.of_token, tuple(range(n)))
                for one, n in zip(texts, sizes, strict=True)
            ]
            groups = gather_units(aligned, layer.queries.real)
            merged = merge_tokens(layer.exact, groups, groups)
            for matrix, one, size in zip(merged, texts, sizes, strict=True):
                for keys, taken in ((ONLY_WORDS, one.is_word), (ALL, torch.ones(size).bool())):
                    self._add(
                        level, keys, matrix[:, :size, :size][:, taken][..., taken], one.count[taken]
                    )

    def _add(self, level: str, keys: str, weights: Tensor, count: Tensor) -> None:
        if not len(count):
            return
        weights = weights / weights.sum(-1, keepdim=True)
        self.sizes.setdefault((level, keys), []).append(len(count))
        orders = {"best": None, "rarest": count.argsort(stable=True)}
        for name, order in orders.items():
            self._sum((level, keys, name), captured(weights, order) - len(count))

    def _sum(self, key: tuple[str, str, str], lacking: Tensor) -> None:
        """What is lacking to whole rows is 0 for windows and columns beyond the text."""
        known = self.sums.get(key, lacking[:, :0, :0])
        size = [max(one, other) for one, other in zip(known.shape, lacking.shape, strict=True)]
        known, lacking = (
            pad(one, (0, size[2] - one.shape[2], 0, size[1] - one.shape[1]))
            for one in (known, lacking)
        )
        self.sums[key] = known + lacking

    def mean(
        self, level: str, keys: str, columns: str = "best"
    ) -> Float[Tensor, "head window column"]:
        """The share of the weight of a row that window and columns capture, over all rows."""
        return 1 + self.sums[level, keys, columns] / sum(self.sizes[level, keys])


def measured(run: Run, texts: Sequence[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Figures of every encoder head, and mean captured weight by window, in all conditions.

    Args:
        run: a translation model.
        texts: of its source language.
    """
    reading = prepare(run, texts, ["encoder"])
    (mixed,) = [shuffled(gold_of_texts(texts), run.seed).texts]
    readings = {
        TRAINED: reading,
        UNTRAINED: reading.by(untrained_twin(run.model, run.seed)),
        SHUFFLED: reading.of_texts(mixed),
    }
    heads, curves = [], []
    for condition, one in readings.items():
        read = windows_of(one, run.type_counts[0])
        for level, keys in read.sizes:
            of_view = {"condition": condition, "unit": level, "keys": keys}
            heads.append(reach(read, level, keys).assign(**of_view))
            curve = read.mean(level, keys)[..., 0].mean(0)
            shown = pad(curve, (0, max(0, CURVE + 1 - len(curve))), value=1.0)[: CURVE + 1]
            curves.append(
                pd.DataFrame({"window": range(CURVE + 1), "captured": shown}).assign(**of_view)
            )
    return pd.concat(heads, ignore_index=True), pd.concat(curves, ignore_index=True)


def windows_of(reading: Reading, counts: Int[Tensor, " type"]) -> Windows:
    """What the encoder heads of a model of one layer capture of its texts."""
    units = {
        level: [
            units_of(str(one.text), one.source, counts, level) for one in reading.sentences.texts
        ]
        for level in LEVELS
    }
    windows = Windows(units)
    reading.feed([windows])
    return windows


def reach(windows: Windows, level: str, keys: str, share: float = SHARE) -> pd.DataFrame:
    """What captures a share of the weight of every head, at how many keys per row, and its mean offset.

    * `w90`: the least window; `window_keys` of a row are in it, counted at the ends of texts too.
    * `best_window`, `num_pos`, `best_keys`: the window and best columns that take fewest keys per row
      together, a column counted as one; of several the one with fewest columns.
    * `rare_window`, `rare_pos`, `rare_keys`: the same with the rarest units of each text as columns.
    * `mean_offset`: the mean distance of a key, which is the sum over w >= 0 of 1 - m(w).
    """
    best, rarest = (windows.mean(level, keys, columns) for columns in ("best", "rarest"))
    width = keys_in_windows(windows.sizes[level, keys], best.shape[1])
    rows = []
    for head, alone in enumerate(best[..., 0]):
        w90 = int((alone < share).sum())
        row = {"head": head, "w90": w90, "window_keys": float(width[w90])}
        for name, taken, of_head in (
            ("best", "num_pos", best[head]), ("rare", "rare_pos", rarest[head]),
        ):  # fmt: skip
            window, columns = _fewest_keys(of_head >= share, width)
            row |= {
                f"{name}_window": window,
                taken: columns,
                f"{name}_keys": float(width[window]) + columns,
            }
        rows.append(row | {"mean_offset": float((1 - alone).sum())})
    return pd.DataFrame(rows)


def keys_in_windows(sizes: Sequence[int], windows: int) -> Float[Tensor, " window"]:
    """Mean keys of a row that a window of 0, 1, 2, ... to each side holds, of texts of these sizes."""
    of_text = torch.tensor(sizes, dtype=torch.float64)[:, None]
    at_distance = 2 * (of_text - torch.arange(windows)).clamp(min=0)
    at_distance[:, 0] /= 2
    return at_distance.cumsum(1).sum(0) / of_text.sum()


def _fewest_keys(
    reached: Bool[Tensor, "window column"], width: Float[Tensor, " window"]
) -> tuple[int, int]:
    cost = (width[:, None] + torch.arange(reached.shape[1])).masked_fill(~reached, torch.inf)
    # Columns first, so that of equal costs the fewest columns come first.
    columns, windows = cost.T.le(cost.min() + 1e-9).nonzero()[0].tolist()
    return windows, columns
