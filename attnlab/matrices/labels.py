"""What a head is, by description length: the family that codes its matrices in the fewest bits.

The structural label of a corpus that is streamed: sums from which the same code lengths follow.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from attnlab.core import InputError, ShortRepr
from attnlab.matrices.batched import (
    Positions,
    checked_weights,
    entries_at_once,
    positions_of,
    sizes_of,
)
from attnlab.matrices.coded_supports import (
    Candidate,
    CodeLength,
    Rows,
    Search,
    candidates,
    keys_of_rows,
    shortest_code,
    with_room,
)
from attnlab.matrices.families import CODED


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
    """Description lengths of the heads of a batch; families stand in the order of `CODED`.

    Attributes:
        bits: of the whole corpus, naming the support included.
        bits_per_row: the same divided by the number of rows that hold any mass.
        eta: the share of noise that gives the fewest bits.
        chosen: the family with the fewest bits, an index into `CODED`.
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
    positions: Positions | None = None,
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

    Of rows with their positions the bits are those of these rows, and of what names the support: a sum over
    rows, whose mean over rows drawn evenly estimates that of all. `rare_columns`, placed over all rows at
    once, have no member then.

    Args:
        H: the matrices of every head, all sentences of a corpus, at least 0.
        window: the largest offset, band side and rows of a block that are tried.
        num_pos: the largest number of blocks in a sentence.
        column_positions: how many positions from either end can be the column.
        causal: rows see the keys up to their own position only.
        sizes: the real queries and keys of each matrix, see `attnlab.matrices.batched`.
        positions: of the rows, where they are not all queries, in any order; see there.

    Raises:
        InputError: no attention weights, or an option or position that is no whole number from 0 up.

    Source: math.md section 5. Cost: (window + 1)^2 + window * num_pos passes over the bands.
    """
    search = Search(window, num_pos, column_positions, causal)
    H = checked_weights(H, sizes, dimensions=3).double()
    sizes = sizes_of(H, sizes).expand(*H.shape[:-2], 2)
    H, at = _padded_or_placed(H, search, positions)
    keys = keys_of_rows(H, sizes, causal=causal, positions=at).to(H.dtype)
    rows = Rows(H.sum(-1).flatten(-2), keys.flatten(-2))
    coded = _coded(candidates(H, sizes, search, at), rows)
    return labels_of_codes(list(coded), (H.sum(-1) > 0).sum((-2, -1)))


def _padded_or_placed(
    H: Tensor, search: Search, positions: Positions | None
) -> tuple[Tensor, Positions | None]:
    """Whole matrices with room for the highest block, or rows and their positions."""
    if positions is None:
        return with_room(H, search), None
    return H, positions_of(H, positions)


def _coded(candidates: Iterator[Candidate], rows: Rows) -> Iterator[CodedCandidate]:
    """As many candidates at once as there is room for: of small matrices one alone costs as much."""
    at_once = max(entries_at_once(rows.total.device) // max(rows.total.numel(), 1), 1)
    while together := list(islice(candidates, at_once)):
        captured = torch.stack([item.captured.flatten(-2) for item in together])
        support = torch.stack(
            [item.support.expand_as(item.captured).flatten(-2) for item in together]
        )
        codes = shortest_code(rows, captured, support)
        for item, bits, eta in zip(together, codes.bits, codes.eta, strict=True):
            names = 0.0 if item.naming_bits is None else item.naming_bits.sum(-1)
            yield CodedCandidate(item.family, item.parameters, CodeLength(bits + names, eta))


def labels_of_codes(coded: Sequence[CodedCandidate], rows: Int[Tensor, "*#batch"]) -> Labels:
    """The labels of heads from what each costs under every candidate, and from its number of rows."""
    none = _never(coded[0].code)
    shortest = [_shortest([code for code in coded if code.family == name], none) for name in CODED]
    bits = torch.stack([family.bits for family in shortest], -1)
    order = bits.argsort(-1)
    least = bits.sort(-1).values
    return Labels(
        bits=bits,
        bits_per_row=bits / rows[..., None].clamp(min=1),
        eta=torch.stack([family.eta for family in shortest], -1),
        chosen=order[..., 0],
        runner_up=order[..., 1],
        margin=(least[..., 1] - least[..., 0]) / rows.clamp(min=1),
        parameters={name: family.parameters for name, family in zip(CODED, shortest, strict=True)},
    )


def _never(other: CodeLength) -> Described:
    """A family without a member among the options."""
    return Described(torch.full_like(other.bits, math.inf), torch.ones_like(other.bits))


def _shortest(coded: Sequence[CodedCandidate], none: Described) -> Described:
    """The best of several codes of each head; saying which one it is costs log2 of their number."""
    if not coded:
        return none
    bits = torch.stack([member.code.bits for member in coded], -1) + math.log2(len(coded))
    best = bits.argmin(-1, keepdim=True)
    eta = torch.stack([member.code.eta for member in coded], -1)
    parameters = {
        name: torch.tensor([member.parameters[name] for member in coded], device=bits.device)[
            best[..., 0]
        ]
        for name in coded[0].parameters
    }
    return Described(bits.gather(-1, best)[..., 0], eta.gather(-1, best)[..., 0], parameters)


# A group is (candidate, keys in the support, keys of the row) in one number.
_MOST_SUPPORT = _MOST_KEYS = 1 << 20


@dataclass(frozen=True)
class LabelSums:
    """Mass by candidate and kind of row, which add up over sentences with `+`.

    Under one candidate, rows with equally many keys in their support, and equally many in all, cost
    the same for each unit of mass. So the masses of all such rows, on and off the support, give the
    bits of every one of them, whatever the noise, and no row need be kept::

        bits(eta) = - sum over groups (m, n) of C_mn log2((1 - eta) / m + eta / n)
                                              + (R_mn - C_mn) log2(eta / n)

    Memory depends on the lengths that occur, not on the number of sentences.

    Attributes:
        search: which candidates there are.
        members: family and parameters of each candidate.
        groups: candidate, keys in the support and keys of the row as one number, rising.
        captured: C, mass on the support.
        total: R, mass of the rows.
        naming_bits: what names the positions, by candidate.
        rows: how many rows.
        empty_rows: how many of them hold no mass; they cost nothing and are not counted per row.
        sentences: how many sentences.
    """

    search: Search
    members: tuple[tuple[str, tuple[tuple[str, int], ...]], ...]
    groups: Int[Tensor, " group"]
    captured: Float[Tensor, "head group"]
    total: Float[Tensor, "head group"]
    naming_bits: Float[Tensor, "head candidate"]
    rows: int
    empty_rows: Int[Tensor, " head"]
    sentences: int

    def __add__(self, other: "LabelSums") -> "LabelSums":
        if (self.search, self.members) != (other.search, other.members):
            msg = "Label sums over different candidates do not add up."
            raise InputError(msg)
        groups, index = torch.cat([self.groups, other.groups]).unique(return_inverse=True)

        def added(mine: Tensor, theirs: Tensor) -> Tensor:
            both = torch.cat([mine, theirs], -1)
            return both.new_zeros(len(both), len(groups)).index_add_(-1, index, both)

        return LabelSums(
            self.search,
            self.members,
            groups,
            added(self.captured, other.captured),
            added(self.total, other.total),
            self.naming_bits + other.naming_bits,
            self.rows + other.rows,
            self.empty_rows + other.empty_rows,
            self.sentences + other.sentences,
        )

    @cached_property
    def labels(self) -> Labels:
        """What `label_heads` finds on all the sentences at once; computed once."""
        keys = self.groups % _MOST_KEYS
        support = self.groups // _MOST_KEYS % _MOST_SUPPORT
        rows = Rows(
            self._per_member(self.total),
            self._per_member(keys.double(), fill=1.0),
        )
        codes = shortest_code(rows, self._per_member(self.captured), self._per_member(support))
        every = zip(self.members, (codes.bits + self.naming_bits).T, codes.eta.T, strict=True)
        coded = [
            CodedCandidate(family, dict(named), CodeLength(bits, eta))
            for (family, named), bits, eta in every
        ]
        return labels_of_codes(coded, self.rows - self.empty_rows)

    def _per_member(
        self, values: Shaped[Tensor, "*head group"], *, fill: float = 0
    ) -> Shaped[Tensor, "*head candidate most_groups"]:
        """The groups of each candidate in a row of their own, `fill` behind them."""
        candidate = self.groups // (_MOST_SUPPORT * _MOST_KEYS)
        counts = candidate.bincount(minlength=len(self.members))
        # Groups rise, so those of a candidate stand together.
        place = torch.arange(len(candidate)) - (counts.cumsum(0) - counts)[candidate]
        shape = (*values.shape[:-1], len(counts), int(counts.max()))
        rows = values.new_full(shape, fill)
        rows[..., candidate, place] = values
        return rows


def sum_labels(
    H: Float[Tensor, "sentence head query key"],
    sizes: Int[Tensor, "sentence 1 2"],
    search: Search,
    positions: Positions | None = None,
) -> LabelSums:
    """The sums of a batch of sentences, in float64 on the CPU.

    Args:
        H: all heads of one layer.
        sizes: real queries and keys of each sentence.
        search: which candidates are tried.
        positions: as in `label_heads`.

    Raises:
        InputError: no attention weights, or positions as there.
    """
    H = checked_weights(H, sizes, dimensions=4).double().movedim(1, 0)
    H, at = _padded_or_placed(H, search, positions)
    # The same for all heads, and so are most supports.
    sizes = sizes[None, :, 0]
    keys = keys_of_rows(H[:1], sizes, causal=search.causal, positions=at).flatten(1)
    mass = H.sum(-1)
    kinds = keys.unique(return_inverse=True)
    # One candidate at a time: there are hundreds, each as large as all rows.
    summed = [
        _summed(number, candidate, mass, kinds)
        for number, candidate in enumerate(candidates(H, sizes, search, at))
    ]
    rows, filled = int(sizes[0, :, 0].sum()), (mass > 0).sum((-2, -1)).cpu()
    return LabelSums(
        search,
        tuple(sums.member for sums in summed),
        torch.cat([sums.groups for sums in summed]),
        torch.cat([sums.captured for sums in summed], -1),
        torch.cat([sums.total for sums in summed], -1),
        torch.stack([sums.naming_bits for sums in summed], -1),
        rows,
        rows - filled,
        H.shape[1],
    )


@dataclass(frozen=True)
class _CandidateSums:
    """The sums that `LabelSums` holds of one candidate."""

    member: tuple[str, tuple[tuple[str, int], ...]]
    groups: Int[Tensor, " group"]
    captured: Float[Tensor, "head group"]
    total: Float[Tensor, "head group"]
    naming_bits: Float[Tensor, " head"]


def _summed(
    number: int, candidate: Candidate, mass: Tensor, kinds: tuple[Tensor, Tensor]
) -> _CandidateSums:
    """The sums of one candidate.

    Args:
        number: of the candidate.
        candidate: its masses and supports.
        mass: of each row.
        kinds: the numbers of keys that occur, rising, and which of them each row of a head has.
    """
    lengths, length_of_row = kinds
    support = candidate.support.flatten(1)
    index = support * len(lengths) + length_of_row
    count = (int(support.max()) + 1) * len(lengths)
    # Supports and lengths are few, so that all their pairs are a shorter way than to sort the rows.
    present = torch.zeros(count, dtype=torch.bool, device=mass.device)
    present[index.flatten()] = True
    groups = present.nonzero()[:, 0]
    names = number * _MOST_SUPPORT + groups // len(lengths)

    def added(values: Tensor) -> Tensor:
        sums, values = mass.new_zeros(len(mass), count), values.flatten(1)
        if len(index) == 1:
            sums.index_add_(1, index[0], values)
        else:
            sums.scatter_add_(1, index, values)
        return sums[:, groups].cpu()

    naming_bits = (
        mass.new_zeros(mass.shape[:2]) if candidate.naming_bits is None else candidate.naming_bits
    )
    return _CandidateSums(
        (candidate.family, tuple(candidate.parameters.items())),
        (names * _MOST_KEYS + lengths[groups % len(lengths)]).cpu(),
        added(candidate.captured * (candidate.support > 0)),
        added(mass),
        naming_bits.sum(1).cpu(),
    )
