"""What the thesis says of attention matrices, as numbers: where their weight lies, rank, norm, likeness."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from attnlab.matrices import cumulative_spectrum, mass_beyond_windows, uniform_matrix

# Share of the sum of singular values that a matrix of low rank would hold in few of them.
HELD = 0.9
# By column of the tables: what it is.
SHAPE = {
    "neighbours": "share of the weight on offsets -1 to 1",
    "neighbours_if_uniform": "the same of a uniform matrix of that size",
    "column": "largest share of the weight that one key receives",
    "rank": "numerical rank / the largest possible",
    "effective_rank": "exp(entropy of the singular values / their sum) / the largest possible",
    "values_for_90": f"share of the singular values that holds {HELD:.0%} of their sum",
    "norm": "Frobenius norm / that of a matrix with one key per row",
}


def shape_of(H: Float[Tensor, "head query key"]) -> dict[str, Float[Tensor, " head"]]:
    """The figures of `SHAPE` of each matrix, whose rows sum to 1."""
    queries, keys = H.shape[-2:]
    largest = min(queries, keys)
    singular = torch.linalg.svdvals(H)
    shares = singular / singular.sum(-1, keepdim=True)
    entropy = torch.special.entr(shares).sum(-1)
    few = (cumulative_spectrum(H) < HELD).sum(-1) + 1
    return {
        "neighbours": 1 - mass_beyond_windows(H, 1)[..., -1] / queries,
        "neighbours_if_uniform": 1 - mass_beyond_windows(uniform_matrix(H), 1)[..., -1] / queries,
        "column": H.mean(-2).amax(-1),
        "rank": torch.linalg.matrix_rank(H).double() / largest,
        "effective_rank": entropy.exp() / largest,
        "values_for_90": few / largest,
        "norm": torch.linalg.matrix_norm(H) / queries**0.5,
    }


def mean_shape(
    matrices: Sequence[Float[Tensor, "head _ _"]],
) -> dict[str, Float[Tensor, " head"]]:
    """The same, mean over sentences."""
    found = [shape_of(H) for H in matrices]
    return {name: torch.stack([one[name] for one in found]).mean(0) for name in SHAPE}


def distance_between_sentences(
    matrices: Sequence[Float[Tensor, "head _ _"]],
) -> Float[Tensor, " head"]:
    """How far matrices of a head lie apart: l1 per row, halved, mean over pairs of sentences of one size.

    0 where a head has the same matrix for every sentence, 1 where no key is attended in both.
    """
    total, pairs = torch.zeros(len(matrices[0]), dtype=torch.float64), 0
    for size in {H.shape for H in matrices}:
        own = torch.stack([H for H in matrices if H.shape == size])
        for index in range(1, len(own)):
            apart = (own[index:] - own[:-index]).abs().sum((-2, -1)) / (2 * size[-2])
            total += apart.sum(0)
            pairs += len(apart)
    return total / pairs if pairs else torch.full_like(total, torch.nan)


def distance_between_heads(
    matrices: Sequence[Float[Tensor, "head _ _"]],
) -> Float[Tensor, " head"]:
    """The same from each head to the others of its layer in one sentence; NaN of a head that is alone."""
    found = []
    for H in matrices:
        apart = (H[:, None] - H[None]).abs().sum((-2, -1)) / (2 * H.shape[-2])
        found.append(apart.sum(1) / (len(H) - 1) if len(H) > 1 else apart[:, 0] * torch.nan)
    return torch.stack(found).mean(0)
