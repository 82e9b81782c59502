"""Gaussian attention (You et al. 2020, arXiv 2005.00742, section 3): a hard-coded bell around an offset."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from attnlab.attention.mechanism import Positions
from attnlab.attention.mechanisms.position_scores import PositionalSoftmax
from attnlab.attention.specification import Specification
from attnlab.core import LONGEST_TEXT, InputError


@dataclass(frozen=True)
class Gaussian(Specification):
    """Weights that fall as a Gaussian with the distance from an offset; nothing is learned."""

    name: ClassVar[str] = "gaussian"
    offset: Any
    sigma: Any = 1.0

    def __post_init__(self) -> None:
        if type(self.offset) is not int or abs(self.offset) > LONGEST_TEXT:
            msg = (
                f"The option 'offset' of '{self.name}' is a whole number of at most {LONGEST_TEXT:,} in "
                f"size, not {self.offset!r}."
            )
            raise InputError(msg)
        if type(self.sigma) not in {int, float} or not 0.1 <= self.sigma < math.inf:
            msg = (
                f"The option 'sigma' of '{self.name}' is a number from 0.1 up, not {self.sigma!r}."
            )
            raise InputError(msg)
        object.__setattr__(self, "sigma", float(self.sigma))


class GaussianAttention(PositionalSoftmax):
    """Weights of a normal density around the position `offset` tokens from the query's own.

    ::

        x_ij = exp(-(j - i - offset)^2 / (2 sigma^2)), normalised over the keys of the row

    The paper has sigma = 1 and, in an encoder, offsets -1 and 1 at half of the heads each; in
    cross-attention it moves the centre in proportion to the lengths, which is left out here.
    """

    specification: ClassVar[type[Specification] | None] = Gaussian
    source: ClassVar[str] = "You et al. 2020, arXiv 2005.00742"
    positions: ClassVar[Positions] = "offsets"

    def scores(self, rows: range, keys: int, like: Tensor) -> Tensor:
        """Exponents of the density: in 16 bits they would round to those of other keys."""
        wide = torch.promote_types(like.dtype, torch.float32)
        row = torch.arange(rows.start, rows.stop, device=like.device)[:, None]
        distance = torch.arange(keys, device=like.device) - row - self.spec.offset
        return -(distance.to(wide) / self.spec.sigma).square()[None] / 2
