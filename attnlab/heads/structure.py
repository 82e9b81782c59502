"""The structural label of every head, by description length, while a model runs."""

from collections.abc import Sequence

import pandas as pd

from attnlab.addresses import Site
from attnlab.heads.functions.thresholds import TIE_BITS_PER_ROW
from attnlab.heads.parcels import Plain
from attnlab.heads.taps import place_of
from attnlab.heads.weights import LayerWeights
from attnlab.matrices.candidates import FAMILIES, Search
from attnlab.matrices.label_sums import LabelSums, sum_labels
from attnlab.matrices.labels import Labels


class HeadStructure:
    """Sums for the description length of the first sentences; `labels` and `families` judge.

    The family of a head is the one that codes all those sentences together in the fewest bits: what
    each sentence costs is added up, and a support that does not move is named once for all. It is
    not the family that most sentences would choose alone. Whole matrices count, special tokens
    among them, since a sink is most often one; decoder self-attention is coded as causal. The
    rectangles of cross-attention are measured as they stand, the diagonal at equal positions.

    Args:
        sentences: how many of the first sentences are taken.
    """

    def __init__(self, sentences: int) -> None:
        self.sentences = sentences
        self.layers: dict[tuple[Site, int], LabelSums] = {}

    def update(self, layer: LayerWeights) -> None:
        """Adds the wanted sentences of one layer and batch."""
        wanted = [row for row, number in enumerate(layer.sentences) if number < self.sentences]
        if not wanted:
            return
        sums = sum_labels(layer.exact[wanted], layer.sizes[wanted], Search(causal=layer.causal))
        self._add((layer.site, layer.layer), sums)

    def state(self) -> Plain:
        """What other processes need to know of this one."""
        return self.layers

    def absorb(self, states: Sequence[Plain]) -> None:
        """Holds the sums of all processes, this one's own `state` among them."""
        self.layers = {}
        for layers in states:
            for key, sums in layers.items():
                self._add(key, sums)

    def _add(self, key: tuple[Site, int], sums: LabelSums) -> None:
        self.layers[key] = self.layers[key] + sums if key in self.layers else sums

    def labels(self) -> pd.DataFrame:
        """One row a head: its `structure`, and what speaks for the next family.

        Columns `site, layer, head`; `structure`, the family; `structure_runner_up`, the next one;
        `structure_margin_bits_per_row`, how many bits per row more that one costs; and
        `structure_tie`, whether they are fewer than `TIE_BITS_PER_ROW`.
        """
        tables = [
            pd.DataFrame(
                {
                    **_heads(site, layer, found),
                    "structure": [FAMILIES[index] for index in found.chosen.tolist()],
                    "structure_runner_up": [FAMILIES[index] for index in found.runner_up.tolist()],
                    "structure_margin_bits_per_row": found.margin.tolist(),
                    "structure_tie": (found.margin < TIE_BITS_PER_ROW).tolist(),
                }
            )
            for site, layer, _, found in self._judged()
        ]
        return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()

    def families(self) -> pd.DataFrame:
        """One row a head and family: what its best member costs, in the order of `FAMILIES`.

        Columns `site, layer, head, family, bits_per_row, noise_fraction, member, chosen, sentences,
        rows`; `noise_fraction` is eta of math.md section 5, `member` the parameters of the best code.
        """
        tables = [
            _families(site, layer, sums, found) for site, layer, sums, found in self._judged()
        ]
        return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()

    def _judged(self) -> list[tuple[Site, int, LabelSums, Labels]]:
        ordered = sorted(self.layers.items(), key=lambda item: (place_of(item[0][0]), item[0][1]))
        return [(site, layer, sums, sums.labels()) for (site, layer), sums in ordered]


def _heads(site: Site, layer: int, found: Labels) -> dict[str, object]:
    return {"site": site, "layer": layer, "head": range(len(found.chosen))}


def _families(site: Site, layer: int, sums: LabelSums, found: Labels) -> pd.DataFrame:
    tables = [
        pd.DataFrame(
            {
                **_heads(site, layer, found),
                "family": family,
                "bits_per_row": found.bits_per_row[:, index].tolist(),
                "noise_fraction": found.eta[:, index].tolist(),
                "member": _members(found, family),
                "chosen": (found.chosen == index).tolist(),
                "sentences": sums.sentences,
                "rows": sums.rows,
            }
        )
        for index, family in enumerate(FAMILIES)
    ]
    return pd.concat(tables).sort_values("head", kind="stable")


def _members(found: Labels, family: str) -> list[str]:
    """Such as `offset -1`, or `left 2, right 0`, a head each."""
    parameters = {name: values.tolist() for name, values in found.parameters[family].items()}
    return [
        ", ".join(f"{name} {values[head]}" for name, values in parameters.items())
        for head in range(len(found.chosen))
    ]
