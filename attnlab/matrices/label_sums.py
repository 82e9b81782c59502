"""The structural label of a corpus that is streamed: sums from which the same code lengths follow."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnlab.core.errors import InputError
from attnlab.matrices.candidates import Candidate, Search, candidates, keys_of_rows, with_room
from attnlab.matrices.code_lengths import CodeLength, Rows, shortest_code
from attnlab.matrices.labels import CodedCandidate, Labels, labels_of_codes
from attnlab.matrices.weights import checked_weights

# A group is (candidate, keys in the support, keys of the row) in one number.
_MOST_SUPPORT, _MOST_KEYS = 1 << 10, 1 << 20


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

    def labels(self) -> Labels:
        """What `label_heads` finds on all the sentences at once."""
        coded = []
        of_candidate = self.groups // (_MOST_SUPPORT * _MOST_KEYS)
        for number, (family, named) in enumerate(self.members):
            mine = of_candidate == number
            keys = self.groups[mine] % _MOST_KEYS
            support = self.groups[mine] // _MOST_KEYS % _MOST_SUPPORT
            code = shortest_code(
                Rows(self.total[:, mine], keys.double()), self.captured[:, mine], support
            )
            code = CodeLength(code.bits + self.naming_bits[:, number], code.eta)
            coded.append(CodedCandidate(family, dict(named), code))
        return labels_of_codes(coded, self.rows - self.empty_rows)


def sum_labels(
    H: Float[Tensor, "sentence head query key"],
    sizes: Int[Tensor, "sentence 1 2"],
    search: Search,
) -> LabelSums:
    """The sums of a batch of sentences, in float64 on the CPU.

    Args:
        H: all heads of one layer.
        sizes: real queries and keys of each sentence.
        search: which candidates are tried.

    Raises:
        InputError: no attention weights.
    """
    H = checked_weights(H, sizes, dimensions=4).double().movedim(1, 0)
    H = with_room(H, search)
    sizes = sizes[None, :, 0].expand(*H.shape[:-2], 2)
    keys = keys_of_rows(H, sizes, causal=search.causal)
    # One candidate at a time: there are hundreds, each as large as all rows.
    found = [
        _summed(number, one, H, keys) for number, one in enumerate(candidates(H, sizes, search))
    ]
    rows, filled = int(sizes[0, :, 0].sum()), (H.sum(-1) > 0).sum((-2, -1)).cpu()
    return LabelSums(
        search,
        tuple(one.member for one in found),
        torch.cat([one.groups for one in found]),
        torch.cat([one.captured for one in found], -1),
        torch.cat([one.total for one in found], -1),
        torch.stack([one.naming_bits for one in found], -1),
        rows,
        rows - filled,
        H.shape[1],
    )


@dataclass(frozen=True)
class _CandidateSums:
    """What `LabelSums` holds of one candidate."""

    member: tuple[str, tuple[tuple[str, int], ...]]
    groups: Int[Tensor, " group"]
    captured: Float[Tensor, "head group"]
    total: Float[Tensor, "head group"]
    naming_bits: Float[Tensor, " head"]


def _summed(number: int, found: Candidate, H: Tensor, keys: Tensor) -> _CandidateSums:
    names, index = _groups(number, found, keys).unique(return_inverse=True)

    def added(values: Tensor) -> Tensor:
        return values.new_zeros(len(H), len(names)).scatter_add_(1, index, values.flatten(1)).cpu()

    naming_bits = H.new_zeros(H.shape[:2]) if found.naming_bits is None else found.naming_bits
    return _CandidateSums(
        (found.family, tuple(found.parameters.items())),
        names.cpu(),
        added(found.captured * (found.support > 0)),
        added(H.sum(-1)),
        naming_bits.sum(1).cpu(),
    )


def _groups(number: int, found: Candidate, keys: Tensor) -> Int[Tensor, "head row"]:
    support = found.support.expand_as(found.captured).long()
    return ((number * _MOST_SUPPORT + support) * _MOST_KEYS + keys).flatten(1)
