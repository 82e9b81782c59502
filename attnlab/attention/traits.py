"""What a mechanism can do, and what it costs, as plain values."""

from dataclasses import dataclass
from typing import Literal

Form = Literal["auto", "dense", "fast", "flex"]


@dataclass(frozen=True)
class Traits:
    """What a mechanism can do; declared on its class, checked when one is made.

    Attributes:
        causal: has a form in which a query never depends on keys behind it.
        cross: works where queries and keys are different sentences.
        stochastic: the rows of its implied matrix that see a key are probabilities.
        support: which pairs it scores is known, so a budget of visible keys can be counted.
        subquadratic: time and memory of its fast form grow in proportion to the tokens; not so unless a
            mechanism says it.
        cached: one query at a time gives what all queries at once give.
        bias: numbers can be added to its scores (relative positions of T5).
        content_free: its weights follow from positions alone, whatever queries and keys are.
        learned: has parameters of its own, which have to be trained.
        trains_on_cpu: gradients exist on a machine without a GPU.
    """

    causal: bool = True
    cross: bool = True
    stochastic: bool = True
    support: bool = True
    subquadratic: bool = False
    cached: bool = True
    bias: bool = True
    content_free: bool = False
    learned: bool = False
    trains_on_cpu: bool = True

    @property
    def takes_scores(self) -> bool:
        """Whether scores can be handed to it that are no products of queries and keys, or it needs none."""
        return self.bias or self.content_free


@dataclass(frozen=True)
class Cost:
    """Work of one head on one sentence.

    Attributes:
        multiply_adds: multiplications with an addition, for scores and mixing.
        bytes: float32 numbers kept for the backward pass besides inputs and output, times 4.
    """

    multiply_adds: int
    bytes: int


@dataclass(frozen=True)
class Setup:
    """What a mechanism is made for.

    Attributes:
        causal: queries are kept from the keys behind them.
        cross: queries and keys belong to different sentences.
        dropout: probability with which a weight is dropped in training mode.
        heads: how many heads it serves, for mechanisms that keep something for each.
        vocabulary: number of token ids, for mechanisms that keep something for each.
        form: `"dense"` or `"fast"` fix how it is computed; `"auto"` takes the quicker one by
            length; `"flex"` is PyTorch's FlexAttention on a GPU.
    """

    causal: bool = False
    cross: bool = False
    dropout: float = 0.0
    heads: int | None = None
    vocabulary: int | None = None
    form: Form = "auto"
