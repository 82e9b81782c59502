"""The structural label of every head, by description length, while a model runs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlab.core import Site, counted, site_order
from attnlab.labels.label_columns import TIE_BITS_PER_ROW
from attnlab.matrices import CODED, Labels, LabelSums, Search, sum_labels
from attnlab.reading import ALL, CONTENT, VIEWS, LayerWeights, PerLayer, View


class HeadStructure(PerLayer[tuple[Site, int, View], LabelSums]):
    """Sums for the description length of the first sentences; `labels` and `families` evaluate them.

    The family of a head is the one that codes all those sentences together in the fewest bits: what
    each sentence costs is added up, and a support that does not move is named once for all. It is
    not the family that most sentences would choose alone. Decoder self-attention is coded as causal.
    The rectangles of cross-attention are measured as they stand, the diagonal at equal positions.

    Both views of `attnlab.reading.weights` are measured. With all keys whole matrices count, special
    tokens among queries and keys, since a sink is most often one. Of content the rows and columns
    of special tokens are taken out, so that offsets count content tokens only, and what is left of a
    row is divided by its sum; rows without weight on any content key cost nothing and are counted
    apart. Rows of cross-attention go by the token that they predict, see `LayerWeights.counted_of_all`.

    Of rows that are selected the bits are those of these rows, at their positions, and families that are
    chosen over all rows at once are left out.

    Args:
        sentences: how many of the first sentences are taken.
    """

    by_rows = True

    def __init__(self, sentences: int) -> None:
        super().__init__()
        self.sentences = sentences

    def values_of(self, layer: LayerWeights) -> dict[tuple[Site, int, View], LabelSums]:
        """Sums of the first `sentences` sentences of one layer and batch in both views."""
        rows = [row for row, number in enumerate(layer.sentences) if number < self.sentences]
        if not rows:
            return {}
        sides = {
            ALL: (layer.queries.real, layer.keys.real),
            CONTENT: (layer.counted_queries, layer.keys.content),
        }
        # Without tokens every key is one of content.
        views = VIEWS if layer.has_tokens else (ALL,)
        by_view = {view: _sums(layer, view, rows, *sides[view]) for view in views}
        return {
            (layer.site, layer.layer, view): sums
            for view, sums in by_view.items()
            if sums is not None
        }

    def labels(self, keys: View = ALL) -> pd.DataFrame:
        """One row per head: its `structure`, and what speaks for the next family.

        Columns `site, layer, head`; `structure`, the family; `structure_runner_up`, the next one;
        `structure_margin_bits_per_row`, how many bits per row more that one costs; and
        `structure_tie`, whether they are fewer than `TIE_BITS_PER_ROW`.
        """
        tables = [
            pd.DataFrame(
                {
                    **_heads(site, layer, coded),
                    "structure": [CODED[index] for index in coded.chosen.tolist()],
                    "structure_runner_up": [CODED[index] for index in coded.runner_up.tolist()],
                    "structure_margin_bits_per_row": coded.margin.tolist(),
                    "structure_tie": (coded.margin < TIE_BITS_PER_ROW).tolist(),
                }
            )
            for site, layer, _, coded in self._coded(keys)
        ]
        return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()

    def families(self, keys: View = ALL) -> pd.DataFrame:
        """One row per head and family: what its best member costs, in the order of `CODED`.

        Families that were left out have no row. Columns `site, layer, head, family, bits_per_row,
        noise_fraction, member, chosen, sentences, rows_coded, rows_left_out`; `noise_fraction` is eta of
        math.md section 5, `member` the parameters of the best code, `rows_left_out` how many rows had
        no weight on any of the keys.
        """
        tables = [
            _families(site, layer, sums, coded) for site, layer, sums, coded in self._coded(keys)
        ]
        return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()

    def _coded(self, keys: View) -> list[tuple[Site, int, LabelSums, Labels]]:
        mine = [item for item in self.sums.items() if item[0][2] == keys]
        ordered = sorted(mine, key=lambda item: (site_order(item[0][0]), item[0][1]))
        return [(site, layer, sums, sums.labels) for (site, layer, _), sums in ordered]


def _sums(
    layer: LayerWeights,
    view: View,
    sentence_rows: list[int],
    queries: Bool[Tensor, "batch query"],
    keys: Bool[Tensor, "batch key"],
) -> LabelSums | None:
    """Sums of the parts of the matrices that lie at these queries and keys; None where there are none."""
    some = queries.any(-1) & keys.any(-1)
    rows = [row for row in sentence_rows if some[row]]
    if not rows:
        return None
    if layer.rows is not None:
        # Each sentence alone, since what stands before a row is not the same in all.
        every = layer.rows.among.real if view == ALL else layer.counted_of_all
        ranks = every.cumsum(-1) - 1
        by_row = []
        for row in rows:
            # Queries that the view leaves out are not counted in a position.
            at = ranks[row, layer.positions[queries[row]]]
            sums = _of_matrices(layer, view, [row], (queries, keys), at)
            before = every[row, layer.rows.chosen[: layer.rows.start]]
            # Its first rows count a sentence.
            by_row.append(replace(sums, sentences=int(not before.any())))
        return reduce(add, by_row)
    return _of_matrices(layer, view, rows, (queries, keys))


def _of_matrices(
    layer: LayerWeights,
    view: View,
    rows: list[int],
    both: tuple[Bool[Tensor, "batch query"], Bool[Tensor, "batch key"]],
    positions: Int[Tensor, " row"] | None = None,
) -> LabelSums:
    """Sums of some sentences, whose queries stand at `positions` where they are not all queries."""
    sides = both[0][rows], both[1][rows]
    matrices = packed(layer.exact[rows], *sides)
    if view == CONTENT:
        sums = matrices.sum(-1, keepdim=True)
        matrices = matrices / sums.masked_fill(sums == 0, 1.0)
    sizes = torch.stack([side.sum(-1) for side in sides], -1)[:, None].to(matrices.device)
    return sum_labels(matrices, sizes, Search(causal=layer.causal), positions)


def packed(
    weights: Float[Tensor, "batch head query key"],
    queries: Bool[Tensor, "batch query"],
    keys: Bool[Tensor, "batch key"],
) -> Float[Tensor, "batch head kept_query kept_key"]:
    """The parts of the matrices at these queries and keys, moved to the front; 0 behind them."""
    for axis, chosen in ((2, queries.to(weights.device)), (3, keys.to(weights.device))):
        if bool(chosen.all()):
            continue
        most = int(chosen.sum(-1).max())
        order = chosen.to(torch.int8).argsort(dim=-1, descending=True, stable=True)[:, :most]
        kept = chosen.gather(-1, order)
        shape = [len(weights), 1, 1, 1]
        shape[axis] = most
        order, kept = order.view(shape), kept.view(shape)
        room = [*weights.shape]
        room[axis] = most
        weights = weights.gather(axis, order.expand(room)).masked_fill(~kept, 0.0)
    return weights


def _heads(site: Site, layer: int, coded: Labels) -> dict[str, object]:
    return {"site": site, "layer": layer, "head": range(len(coded.chosen))}


def _families(site: Site, layer: int, sums: LabelSums, coded: Labels) -> pd.DataFrame:
    measured = {family for family, _ in sums.members}
    tables = [
        pd.DataFrame(
            {
                **_heads(site, layer, coded),
                "family": family,
                "bits_per_row": coded.bits_per_row[:, index].tolist(),
                "noise_fraction": coded.eta[:, index].tolist(),
                "member": _members(coded, family),
                "chosen": (coded.chosen == index).tolist(),
                "sentences": sums.sentences,
                "rows_coded": (sums.rows - sums.empty_rows).tolist(),
                "rows_left_out": sums.empty_rows.tolist(),
            }
        )
        for index, family in enumerate(CODED)
        if family in measured
    ]
    return pd.concat(tables).sort_values("head", kind="stable")


# The parameters of a member, as tables and pages tell them.
_MEMBER_WORDS = {
    "diagonal": "offset {offset}",
    "band": "{left} left, {right} right of the diagonal",
    "rare_columns": "{blocks} of {rows}",
    "column": "{key}",
    "column_band": "{key}, {offsets}",
}


def _members(coded: Labels, family: str) -> list[str]:
    """The member of a family that codes each head best, such as `offset -1` or `2 blocks of 3 rows`."""
    parameters = {name: values.tolist() for name, values in coded.parameters[family].items()}
    rows = (
        {name: of[head] for name, of in parameters.items()} for head in range(len(coded.chosen))
    )
    return [_MEMBER_WORDS.get(family, "").format_map(_member_counts(row)) for row in rows]


def _member_counts(parameters: dict[str, int]) -> dict[str, object]:
    """The parameters, with blocks, rows and the key of a column in words."""
    words: dict[str, object] = {**parameters}
    if "num_pos" in parameters:
        words["blocks"] = counted(parameters["num_pos"], "block")
        words["rows"] = counted(parameters["block_rows"], "row")
    if "position" in parameters:
        end = "end" if parameters["from_end"] else "start"
        words["key"] = f"key {parameters['position'] + 1} from the {end}"
    if "first_offset" in parameters:
        first, last = parameters["first_offset"], parameters["last_offset"]
        words["offsets"] = f"offset {first}" if first == last else f"offsets {first} to {last}"
    return words


def chosen_by_bits(bits: pd.DataFrame) -> pd.DataFrame:
    """The family of the fewest bits per row, the next one, and by how many bits they differ.

    Args:
        bits: one column per family, missing where a family has no member.
    """
    rows = [_chosen(row) for row in bits.to_dict("records")]
    columns = ["structure", "structure_margin_bits_per_row", "structure_runner_up"]
    return pd.DataFrame(rows, columns=columns, index=bits.index)


def _chosen(bits: Mapping[Any, float]) -> Sequence[object]:
    measured = {family: value for family, value in bits.items() if not pd.isna(value)}
    first, second = sorted(measured, key=measured.__getitem__)[:2]
    return first, measured[second] - measured[first], second
