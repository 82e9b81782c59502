"""Random Synthesizer (Tay et al. 2020, arXiv 2005.00743, section 3): one matrix for all sentences."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from attnlab.attention.mechanism import Positions, Setup, Traits
from attnlab.attention.mechanisms.position_scores import PositionalSoftmax
from attnlab.attention.specification import Specification
from attnlab.core import InputError

# A table of a head has as many numbers as the square of it.
MOST_LENGTH = 2**12


@dataclass(frozen=True)
class Synthesizer(Specification):
    """A random matrix of scores for each head, trained or left; `max_length` is the longest sentence."""

    name: ClassVar[str] = "synthesizer"
    max_length: Any
    trained: Any = True

    def __post_init__(self) -> None:
        self.check_integer("max_length", 1)
        self.check_at_most(MOST_LENGTH, "max_length")
        if type(self.trained) is not bool:
            msg = f"The option 'trained' of '{self.name}' is True or False, not {self.trained!r}."
            raise InputError(msg)


class SynthesizerAttention(PositionalSoftmax):
    """Softmax of a matrix that knows neither queries nor keys.

    ::

        x_i = softmax over the keys j of the row of R_ij,     R of shape max_length x max_length

    A sentence of n tokens uses the first n rows and columns, wherever it starts. R starts standard
    normal, from torch's current generator; `trained=False` leaves it so, the paper's "fixed" form.
    """

    specification: ClassVar[type[Specification] | None] = Synthesizer
    source: ClassVar[str] = "Tay et al. 2020, arXiv 2005.00743"
    traits: ClassVar[Traits] = Traits(
        causal=False, bias=False, content_free=True, cached=False, learned=True
    )
    positions: ClassVar[Positions] = "pairs"
    refusals: ClassVar[Mapping[str, str]] = {
        "causal": "its rows are counted from the start of a sentence, of which a cache holds keys alone"
    }

    def __init__(self, spec: Synthesizer, setup: Setup) -> None:
        super().__init__(spec, setup)
        if setup.heads is None:
            msg = f"'{spec}' has a matrix for each head: say how many with make(spec, heads=...)."
            raise InputError(msg)
        drawn = torch.randn(setup.heads, spec.max_length, spec.max_length)
        if spec.trained:
            self.table = nn.Parameter(drawn)
        else:
            self.register_buffer("table", drawn)

    def scores(self, rows: range, keys: int, like: Tensor) -> Tensor:
        """The upper left part of each head's matrix."""
        self.spec.check_length(max(rows.stop, keys))
        return self.table[:, rows.start : rows.stop, :keys].to(like.dtype)
