"""Statistics of every head: sums that add up over batches, shares and processes."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pandas as pd
import torch
from torch import Tensor

from attnlab.core import HEAD_COLUMNS, InputError, Site, Sums, site_order
from attnlab.matrices import js_distances, js_divergences
from attnlab.reading.statistics_columns import (
    CONTENT_OFFSET_PREFIX,
    OFFSET_PREFIX,
    OFFSETS,
    TARGETS,
)
from attnlab.reading.weights import LayerWeights, PerLayer

Figures = Sums[str, Tensor]


class HeadStatistics(PerLayer[tuple[Site, int], Figures]):
    """Sums over rows for every head, in float64; `heads` divides.

    What is counted follows heads.md: a row counts when its query is a content token (no special
    token, no padding); in cross-attention, when the token that it predicts is one. Entropy and
    Jensen-Shannon distance are of whole rows. Confidence and everything by offset leave special
    tokens out as keys, and rows are not renormalised. A row
    counts for a mean only where the mean could be other than 0: for an offset, where a content
    token stands there and may be seen; for punctuation, where the row may see some. Each such
    number of rows is kept, and a mean over no row is missing, not 0.

    Columns that begin with `content_` are of the same rows with special tokens left out as keys and
    the weights on content keys divided by their sum. A row without weight on any content key is
    left out of them and counted in `rows_without_content_mass`. Jensen-Shannon distance, by far the
    dearest, is taken of whole rows only.

    Args:
        heads: numbers of the heads that are fed, in ascending order; None: all.
        distances: whether those of all pairs of heads of a layer are taken, which cost several times as
            much as all the rest.
    """

    by_rows = True

    def __init__(self, heads: Sequence[int] | None = None, *, distances: bool = False) -> None:
        super().__init__()
        self.numbers = None if heads is None else tuple(heads)
        self.has_distances = distances

    def values_of(self, layer: LayerWeights) -> dict[tuple[Site, int], Figures]:
        """Every sum of one layer and batch."""
        layer = _up_to_last_row(layer)
        sums = _sums(layer)
        if self.has_distances:
            rows = layer.wide.movedim(1, 0)[:, layer.counted_queries]
            sums["js_divergence"] = js_divergences(rows).cpu()
        return {(layer.site, layer.layer): sums}

    def heads(self) -> pd.DataFrame:
        """One row per head, columns as in `statistics_columns`; missing where nothing counted."""
        tables = [
            _heads_of(site, layer, sums, self._heads(sums))
            for (site, layer), sums in self._ordered()
        ]
        return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()

    def distances(self) -> pd.DataFrame:
        """One row per pair of heads of one layer: their Jensen-Shannon distance, 0 to 1 (math.md section 1).

        Source: Clark et al. 2019, section 6, where the divergences are summed.

        Raises:
            InputError: they were not taken.
        """
        if not self.has_distances:
            msg = "Distances between heads were not taken; ask for them with distances=True."
            raise InputError(msg)
        rows = []
        for (site, layer), sums in self._ordered():
            distance = js_distances(sums["js_divergence"], sums["rows"]).tolist()
            heads = self._heads(sums)
            rows += [
                (site, layer, heads[head], heads[other], distance[head][other])
                for head in range(len(distance))
                for other in range(head + 1, len(distance))
            ]
        return pd.DataFrame(rows, columns=[*HEAD_COLUMNS, "other_head", "js_distance"])

    def _heads(self, sums: Figures) -> Sequence[int]:
        return range(len(sums["entropy_nats"])) if self.numbers is None else self.numbers

    def _ordered(self) -> Iterator[tuple[tuple[Site, int], Figures]]:
        yield from sorted(self.sums.items(), key=lambda item: (site_order(item[0][0]), item[0][1]))


class SentenceStatistics(PerLayer[tuple[Site, int], Figures]):
    """Some of the sums of `HeadStatistics` for each sentence apart, in float64.

    Args:
        count: how many texts were handed in; sentences have their numbers among them.
        starts: by their numbers the first rows that count; 0 where there is none.
    """

    by_rows = True

    def __init__(self, count: int, starts: Mapping[int, int] | None = None) -> None:
        super().__init__()
        self.count, self.starts = count, starts or {}

    def values_of(self, layer: LayerWeights) -> dict[tuple[Site, int], Figures]:
        """Every sum of one layer and batch, 0 for other sentences."""
        numbers = torch.tensor(layer.sentences)
        starts = torch.tensor([[self.starts.get(number, 0)] for number in layer.sentences])
        rows = layer.counted_queries & (layer.positions >= starts.to(layer.positions.device))
        sums = {}
        for name, value in _sums_by_sentence(layer, rows.double()).items():
            sums[name] = torch.zeros(self.count, *value.shape[1:], dtype=torch.float64)
            sums[name][numbers] = value.double().cpu()
        return {(layer.site, layer.layer): Sums(sums)}

    def ratios(self) -> dict[tuple[Site, int], dict[str, tuple[Tensor, Tensor]]]:
        """Numerators `[sentence, head]` and denominators `[sentence]`, by layer and statistic."""
        special = TARGETS.index("special")
        return {
            at: {
                "confidence": (sums["confidence"], sums["rows"]),
                "normalised_entropy": (sums["normalised_entropy"], sums["rows_with_choice"]),
                "mass_on_special": (
                    sums["mass_on"][..., special], sums["rows_seeing"][..., special],
                ),
            }
            for at, sums in sorted(
                self.sums.items(), key=lambda item: (site_order(item[0][0]), item[0][1])
            )
        }  # fmt: skip


def _sums(layer: LayerWeights) -> Figures:
    """Every sum of one layer and batch, on the CPU; rows in the weights' precision, sums in float64."""
    rows = layer.counted_queries.double()
    empty = (layer.wide.sum(-1) == 0) * rows[:, None]
    sums = {
        "sentences": rows.new_tensor(len(layer.sentences) if layer.is_first_block else 0),
        "empty_rows": empty.sum((0, 2)),
        **{name: value.sum(0) for name, value in _sums_by_sentence(layer, rows).items()},
        **_offset_sums(layer, rows),
        **_content_sums(layer, rows),
    }
    if layer.has_sink:
        rest = (1 - layer.wide.sum(-1, dtype=torch.float64)).clamp(min=0)
        sums["sink_mass"] = (rest * rows[:, None]).sum((0, 2))
    if layer.attention is not None:
        sums |= _contribution_sums(layer, layer.attention, rows)
    return Sums({name: value.double().cpu() for name, value in sums.items()})


def _sums_by_sentence(layer: LayerWeights, rows: Tensor) -> dict[str, Tensor]:
    """The sums whose sentences are told apart, `[sentence, head, ...]` or `[sentence, ...]`."""
    return {"rows": rows.sum(-1), **_entropy_sums(layer, rows), **_target_sums(layer, rows)}


def _up_to_last_row(layer: LayerWeights) -> LayerWeights:
    """The layer without the keys behind the last of some causal rows, which none of them sees."""
    if layer.rows is None or not layer.causal:
        return layer
    seen = torch.arange(int(layer.positions[-1]) + 1, device=layer.weights.device)
    attention = None if layer.attention is None else layer.attention[..., : len(seen)]
    weights = layer.weights[..., : len(seen)]
    return replace(layer, weights=weights, attention=attention, keys=layer.keys.at(seen))


def _entropy_sums(layer: LayerWeights, rows: Tensor) -> dict[str, Tensor]:
    """Entropies, also as a share of the largest possible one, and the row maxima."""
    keys = layer.visible.sum(-1)
    choice = rows * (keys > 1)
    largest = keys.clamp(min=2).double().log()
    return {
        "entropy_nats": (layer.entropies * rows[:, None]).sum(-1),
        "normalised_entropy": (layer.entropies / largest[:, None] * choice[:, None]).sum(-1),
        "rows_with_choice": choice.sum(-1),
        "confidence": (layer.confidence.double() * rows[:, None]).sum(-1),
    }


def _offset_sums(layer: LayerWeights, rows: Tensor) -> dict[str, Tensor]:
    """Mass on content tokens, and its distance from the queries."""
    content = layer.keys.content[:, None].to(layer.wide.dtype)
    offsets = layer.offsets.to(content.dtype)
    # Summed in the weights' precision over a row alone.
    columns = torch.stack([offsets * content, offsets.abs() * content], -1)
    sums = torch.einsum("bhqk,bqkc->bhqc", layer.wide, columns).double()
    offset, absolute_offset = (sums * rows[:, None, :, None]).sum((0, 2)).T
    return {
        "content_mass": (layer.content_mass.double() * rows[:, None]).sum((0, 2)),
        "offset": offset,
        "absolute_offset": absolute_offset,
    }


def _target_sums(layer: LayerWeights, rows: Tensor) -> dict[str, Tensor]:
    """Mass on special tokens, punctuation, and the ends of the sentence."""
    flags = torch.stack([getattr(layer.keys, name) for name in TARGETS], -1)
    flags = flags.to(layer.wide.dtype)
    # All heads in one product: the same columns are summed in each.
    mass = (layer.wide.flatten(1, 2) @ flags).unflatten(1, layer.wide.shape[1:3]).double()
    seen = (layer.visible.to(flags.dtype) @ flags > 0) * rows[..., None]
    return {
        "mass_on": (mass * seen[:, None]).sum(2),
        "rows_seeing": seen.sum(1),
    }


def _contribution_sums(layer: LayerWeights, attention: Tensor, rows: Tensor) -> dict[str, Tensor]:
    """Contributions, and the weights of keys that may be sinks, whose shares are among the other sums."""
    weighed = replace(layer, weights=attention)
    assert layer.contribution is not None  # noqa: S101 - it stands beside these weights
    choice = (rows * (layer.visible.sum(-1) > 1))[:, None]
    return {
        "contribution": (layer.contribution * rows[:, None]).sum((0, 2)),
        "weight_on": _target_sums(weighed, rows)["mass_on"].sum(0),
        "mass_on_first": (layer.wide[..., 0] * choice).sum((0, 2)),
        "weight_on_first": (weighed.wide[..., 0] * choice).sum((0, 2)),
    }


def _content_sums(layer: LayerWeights, rows: Tensor) -> dict[str, Tensor]:
    """Sums among content keys alone, each row divided by its weight on them."""
    keys = layer.keys.content[:, None, :] & layer.visible
    mass = layer.content_mass.double()
    counted = rows[:, None] * (mass > 0)
    # Rows that do not count are divided by infinity.
    scale = mass.masked_fill(counted == 0, torch.inf)
    number = keys.sum(-1)
    choice = counted * (number > 1)[:, None]
    largest = number.clamp(min=2).double().log()[:, None]
    near, has_key = _near_the_diagonal(layer, keys)
    marks = layer.keys.punctuation.to(layer.wide.dtype)[..., None]
    on_marks = (layer.wide.flatten(1, 2) @ marks).view(mass.shape).double() / scale
    seeing = (keys & layer.keys.punctuation[:, None]).any(-1)[:, None] * counted
    return {
        "mass_at_offset": (near * rows[:, None, :, None]).sum((0, 2)),
        "rows_at_offset": torch.einsum("bq,bqo->o", rows, has_key),
        "rows_without_content_mass": (rows[:, None] - counted).sum((0, 2)),
        "content_rows": counted.sum((0, 2)),
        "content_rows_with_choice": choice.sum((0, 2)),
        "content_entropy_nats": (layer.content_entropies * counted).sum((0, 2)),
        "content_normalised_entropy": (layer.content_entropies / largest * choice).sum((0, 2)),
        "content_confidence": (layer.confidence.double() / scale).sum((0, 2)),
        "content_mass_at_offset": (near / scale[..., None]).sum((0, 2)),
        "content_rows_at_offset": torch.einsum("bhq,bqo->ho", counted, has_key),
        "content_mass_on_punctuation": (on_marks * seeing).sum((0, 2)),
        "content_rows_seeing_punctuation": seeing.sum((0, 2)),
    }


def _near_the_diagonal(layer: LayerWeights, keys: Tensor) -> tuple[Tensor, Tensor]:
    """Each row's weight at the offsets, 0 where `keys` has none, and 1 where it has one."""
    weights = layer.wide
    columns = layer.positions[:, None] + torch.tensor(OFFSETS, device=weights.device)
    last = weights.shape[3] - 1
    inside = (columns >= 0) & (columns <= last)
    columns = columns.clamp(0, last)
    has_key = keys.gather(-1, columns.expand(len(keys), -1, -1)) & inside
    near = weights.gather(-1, columns.expand(*weights.shape[:2], -1, -1))
    return near.double() * has_key[:, None], has_key.double()


def _mean_to_others(distance: Tensor) -> list[float]:
    others = max(len(distance) - 1, 0)
    return (distance.sum(-1) / others).tolist() if others else [math.nan] * len(distance)


def _heads_of(site: Site, layer: int, sums: Figures, heads: Sequence[int]) -> pd.DataFrame:
    """Means of one layer's heads; 0 / 0 is NaN, which a table shows as missing."""
    rows = sums["rows"]
    table = {
        "site": site,
        "layer": layer,
        "head": list(heads),
        "sentences": int(sums["sentences"]),
        "rows": int(rows),
        "empty_rows": sums["empty_rows"].long().tolist(),
        "entropy_nats": sums["entropy_nats"] / rows,
        "normalised_entropy": sums["normalised_entropy"] / sums["rows_with_choice"],
        "confidence": sums["confidence"] / rows,
        "mean_offset": sums["offset"] / sums["content_mass"],
        "mean_absolute_offset": sums["absolute_offset"] / sums["content_mass"],
    }
    if "sink_mass" in sums:
        table["mass_on_sink_logit"] = sums["sink_mass"] / rows
    if "contribution" in sums:
        table["contribution"] = sums["contribution"] / rows
        for name in ("weight_on_first", "mass_on_first"):
            table[name] = sums[name] / sums["rows_with_choice"]
        weight_on = sums["weight_on"] / sums["rows_seeing"]
        table |= {f"weight_on_{name}": weight_on[:, i] for i, name in enumerate(TARGETS[:2])}
    by_offset = sums["mass_at_offset"] / sums["rows_at_offset"]
    table |= {f"{OFFSET_PREFIX}{offset}": by_offset[:, i] for i, offset in enumerate(OFFSETS)}
    table |= _content_means(sums)
    by_target = sums["mass_on"] / sums["rows_seeing"]
    table |= {f"mass_on_{name}": by_target[:, i] for i, name in enumerate(TARGETS)}
    table |= {f"rows_seeing_{n}": int(sums["rows_seeing"][i]) for i, n in enumerate(TARGETS)}
    if "js_divergence" in sums:
        table["js_distance_to_others"] = _mean_to_others(js_distances(sums["js_divergence"], rows))
    return pd.DataFrame(table)


def _content_means(sums: Figures) -> dict[str, Tensor]:
    rows = sums["content_rows"]
    by_offset = sums["content_mass_at_offset"] / sums["content_rows_at_offset"]
    return {
        "rows_without_content_mass": sums["rows_without_content_mass"].long(),
        "content_entropy_nats": sums["content_entropy_nats"] / rows,
        "content_normalised_entropy": sums["content_normalised_entropy"]
        / sums["content_rows_with_choice"],
        "content_confidence": sums["content_confidence"] / rows,
        "content_mass_on_punctuation": sums["content_mass_on_punctuation"]
        / sums["content_rows_seeing_punctuation"],
        **{f"{CONTENT_OFFSET_PREFIX}{offset}": by_offset[:, i] for i, offset in enumerate(OFFSETS)},
    }
