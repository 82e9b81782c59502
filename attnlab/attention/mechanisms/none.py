"""No attention: the output of the head is 0, as when it is ablated."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from attnlab.attention.kernels.union import NO_WINDOW, Union
from attnlab.attention.mechanism import Context, Cost, Form, Traits
from attnlab.attention.padding import PaddingSafeMechanism
from attnlab.attention.specification import Specification


@dataclass(frozen=True)
class Nothing(Specification):
    """No query sees any key; the output is 0."""

    name: ClassVar[str] = "none"


class NoAttention(PaddingSafeMechanism):
    """Zeros, whatever the queries, keys and values are.

    Source: Michel et al. 2019 (arXiv 1905.10650), whose ablation of a head this is.
    """

    specification: ClassVar[type[Specification] | None] = Nothing
    source: ClassVar[str] = "Michel et al. 2019, arXiv 1905.10650"
    # Its output is 0 whatever a model does to the scores, so it takes all of that.
    traits: ClassVar[Traits] = Traits(subquadratic=True, content_free=True)
    forms: ClassVar[tuple[Form, ...]] = ("auto", "flex")
    scored: ClassVar[bool] = True

    def union(self, query: Tensor, key: Tensor, context: Context) -> Union:  # noqa: ARG002 - all alike
        """No key, which FlexAttention takes beside the other heads of a layer."""
        return Union(NO_WINDOW)

    def mix(self, query: Tensor, key: Tensor, value: Tensor, context: Context) -> Tensor:  # noqa: ARG002
        """Zeros with a gradient of 0: the sum over no value at all."""
        zero = value[:, :, :0].sum(-2, keepdim=True)
        return zero.expand(-1, -1, query.shape[-2], -1)

    def matrix(self, query: Tensor, key: Tensor, context: Context) -> Tensor:  # noqa: ARG002
        """Zeros."""
        return query.new_zeros(*query.shape[:-1], key.shape[-2])

    def first_and_recent(self) -> tuple[int, int]:
        """No key."""
        return 0, 1

    def cost(self, queries: int, keys: int, dim: int) -> Cost:  # noqa: ARG002
        """Nothing is computed."""
        return Cost(multiply_adds=0, bytes=0)
