"""What a head is, by description length: the family that codes its matrices in the fewest bits."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnlab.core.representations import ShortRepr
from attnlab.matrices.candidates import (
    FAMILIES,
    Candidate,
    Search,
    candidates,
    keys_of_rows,
    with_room,
)
from attnlab.matrices.code_lengths import CodeLength, Rows, shortest_code
from attnlab.matrices.padding import sizes_of
from attnlab.matrices.weights import checked_weights


@dataclass(frozen=True)
class CodedCandidate:
    """What a corpus costs under one member of a family."""

    family: str
    parameters: dict[str, int]
    code: CodeLength


@dataclass(frozen=True)
class Described:
    """One family's shortest code of a corpus, its noise share, and the parameters that give it."""

    bits: Float[Tensor, "*batch"]
    eta: Float[Tensor, "*batch"]
    parameters: dict[str, Int[Tensor, "*batch"]] = field(default_factory=dict)


@dataclass(frozen=True, repr=False)
class Labels(ShortRepr):
    """Description lengths of the heads of a batch; families stand in the order of `FAMILIES`.

    Attributes:
        bits: of the whole corpus, naming the support included.
        bits_per_row: the same divided by the number of rows that hold any mass.
        eta: the share of noise that gives the fewest bits.
        chosen: the family with the fewest bits, an index into `FAMILIES`.
        runner_up: the next one.
        margin: bits per row between the two.
        parameters: of each family, what its best code uses: offset, left and right, rows of a
            block and number of blocks, position of the column (from the end when `from_end` is 1).
    """

    bits: Float[Tensor, "*batch family"]
    bits_per_row: Float[Tensor, "*batch family"]
    eta: Float[Tensor, "*batch family"]
    chosen: Int[Tensor, "*batch"]
    runner_up: Int[Tensor, "*batch"]
    margin: Float[Tensor, "*batch"]
    parameters: dict[str, dict[str, Int[Tensor, "*batch"]]]


def label_heads(
    H: Float[Tensor, "*batch sentence query key"],
    *,
    window: int = 5,
    num_pos: int = 2,
    column_positions: int = 2,
    causal: bool = False,
    sizes: Int[Tensor, "*#batch sentence 2"] | None = None,
) -> Labels:
    """The structural label of each head: the family with the shortest description of its matrices.

    ::

        x_i = (1 - eta) uniform(support of row i) + eta uniform(all keys of row i)
        bits = - sum_ij h_ij log2 x_ij + bits that name the support

    `diffuse` names nothing. A `diagonal` names its offset and a `band` its (left, right), not both 0,
    once per head;
    `rare_columns` name their rows and number once per head, and their positions once per sentence,
    log2 C(n - k (w - 1), k) + k log2 w, since they move with the words; a `column` names one of the first
    or last positions once per head. The placement of the blocks captures the most mass, which is the
    shortest code where every row can attend its own position and all rows have as many keys: an upper
    bound when `causal` or with more queries than keys. A family without a member among the options
    (no blocks below a window of 2) has infinitely many bits.

    Args:
        H: the matrices of every head, all sentences of a corpus, at least 0.
        window: the largest offset, band side and rows of a block that are tried.
        num_pos: the largest number of blocks in a sentence.
        column_positions: how many positions from either end can be the column.
        causal: rows see the keys up to their own position only.
        sizes: the real queries and keys of each matrix, see `attnlab.matrices.padding`.

    Raises:
        InputError: no attention weights, or an option that is no whole number from 0 up.

    Source: math.md section 5. Cost: (window + 1)^2 + window * num_pos passes over the bands.
    """
    search = Search(window, num_pos, column_positions, causal)
    H = checked_weights(H, sizes, dimensions=3).double()
    sizes = sizes_of(H, sizes).expand(*H.shape[:-2], 2)
    H = with_room(H, search)
    keys = keys_of_rows(H, sizes, causal=causal).to(H.dtype)
    rows = Rows(H.sum(-1).flatten(-2), keys.flatten(-2))
    coded = [_coded(found, rows) for found in candidates(H, sizes, search)]
    return labels_of_codes(coded, (H.sum(-1) > 0).sum((-2, -1)))


def _coded(found: Candidate, rows: Rows) -> CodedCandidate:
    code = shortest_code(rows, found.captured.flatten(-2), found.support.flatten(-2))
    if found.naming_bits is not None:
        code = CodeLength(code.bits + found.naming_bits.sum(-1), code.eta)
    return CodedCandidate(found.family, found.parameters, code)


def labels_of_codes(coded: Sequence[CodedCandidate], rows: Int[Tensor, "*#batch"]) -> Labels:
    """The labels of heads from what each costs under every candidate, and from its number of rows."""
    none = _never(coded[0].code)
    found = [_shortest([one for one in coded if one.family == name], none) for name in FAMILIES]
    bits = torch.stack([family.bits for family in found], -1)
    order = bits.argsort(-1)
    least = bits.sort(-1).values
    return Labels(
        bits=bits,
        bits_per_row=bits / rows[..., None].clamp(min=1),
        eta=torch.stack([family.eta for family in found], -1),
        chosen=order[..., 0],
        runner_up=order[..., 1],
        margin=(least[..., 1] - least[..., 0]) / rows.clamp(min=1),
        parameters={name: family.parameters for name, family in zip(FAMILIES, found, strict=True)},
    )


def _never(other: CodeLength) -> Described:
    """A family without a member among the options."""
    return Described(torch.full_like(other.bits, math.inf), torch.ones_like(other.bits))


def _shortest(coded: Sequence[CodedCandidate], none: Described) -> Described:
    """The best of several codes of each head; saying which one it is costs log2 of their number."""
    if not coded:
        return none
    bits = torch.stack([one.code.bits for one in coded], -1) + math.log2(len(coded))
    best = bits.argmin(-1, keepdim=True)
    eta = torch.stack([one.code.eta for one in coded], -1)
    parameters = {
        name: torch.tensor([one.parameters[name] for one in coded], device=bits.device)[
            best[..., 0]
        ]
        for name in coded[0].parameters
    }
    return Described(bits.gather(-1, best)[..., 0], eta.gather(-1, best)[..., 0], parameters)
