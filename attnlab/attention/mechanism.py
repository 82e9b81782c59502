"""The contract of attention mechanisms: queries, keys, values in; mixed values out; the matrix applied."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Protocol, TypedDict, Unpack, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnlab.attention.specification import Specification
from attnlab.core import InputError

Form = Literal["auto", "dense", "fast", "flex"]


@dataclass(frozen=True)
class Traits:
    """Abilities of a mechanism, declared on its class and checked when one is made.

    Attributes:
        causal: has a form in which a query never depends on keys behind it.
        cross: works where queries and keys are different sentences.
        stochastic: the rows of its implied matrix that see a key are probabilities.
        support: which pairs it scores is known, so a budget of visible keys can be counted.
        subquadratic: time and memory of its fast form grow in proportion to the tokens; not so unless a
            mechanism says it.
        cached: one query at a time gives what all queries at once give.
        bias: numbers can be added to its scores (relative positions of T5).
        content_free: its weights follow from positions and token ids, whatever queries and keys are.
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
    """Sizes and options that a mechanism is made for.

    Attributes:
        causal: queries are kept from the keys behind them.
        cross: queries and keys belong to different sentences.
        dropout: probability with which a weight is dropped in training mode.
        heads: how many heads it serves, for mechanisms that keep something for each.
        vocabulary: number of token ids, for mechanisms that keep something for each.
        form: `"dense"` or `"fast"` fix how it is computed; `"auto"` takes the quicker one by
            length; `"flex"` is PyTorch's FlexAttention.
    """

    causal: bool = False
    cross: bool = False
    dropout: float = 0.0
    heads: int | None = None
    vocabulary: int | None = None
    form: Form = "auto"


@dataclass(frozen=True)
class Scoring:
    """Changes that a model's own attention makes to its scores besides padding, causality and a bias.

    ::

        s_ij = softcap * tanh(q_i . k_j / sqrt(dim) / softcap) + bias_ij
        weight_ij = exp(s_ij) / (exp(sink) + sum over allowed k of exp(s_ik))

    Attributes:
        allowed: True at the pairs that the model lets through; None for all.
        softcap: what scores are squeezed below in size (Gemma 2, arXiv 2408.00118); None for no bound.
        sinks: of each head, the score of a key without a value; rows then sum to less than 1
            (gpt-oss, arXiv 2508.10925).
    """

    allowed: Bool[Tensor, "#batch #head query key"] | None = None
    softcap: float | None = None
    sinks: Float[Tensor, " head"] | None = None

    def of_heads(self, heads: Sequence[int]) -> "Scoring":
        """The scoring of these heads alone."""
        return replace(
            self,
            allowed=part_of_heads(self.allowed, heads),
            sinks=None if self.sinks is None else self.sinks[list(heads)],
        )


def part_of_heads(pairs: Tensor | None, heads: Sequence[int]) -> Tensor | None:
    """The part of `[batch, 1 or head, query, key]` that these heads have; one part for all heads stays."""
    return pairs if pairs is None or pairs.shape[1] == 1 else pairs[:, list(heads)]


@runtime_checkable
class KeySums(Protocol):
    """Sums over earlier keys that a cache keeps in place of the keys."""

    def earlier(self) -> Float[Tensor, "batch head feature width"] | None:
        """The sum of features times values over the keys before the call; None where there are none."""

    def add(self, sums: Float[Tensor, "batch head feature width"]) -> None:
        """Adds the sum over the keys of the call."""


class CallContext(TypedDict, total=False):
    """Optional arguments of a mechanism besides queries, keys, values and padding.

    Attributes:
        first_query: position of the first query, so that cached decoding attends as uncached decoding does.
        token_ids: ids of the keys, which only mechanisms that choose keys by token read.
        bias: added to the scores, where the mechanism has any.
        scoring: what a model's own attention does to its scores; only for mechanisms with a softmax
            over single keys.
        real_queries: in cross-attention, True at real tokens of the sentence of the queries, those
            before `first_query` included; only for mechanisms that count positions.
        key_sums: of the keys before the call, where a cache keeps them instead of keys; only for
            mechanisms that say `sums_over_keys`.
    """

    first_query: int
    token_ids: Int[Tensor, "batch key"] | None
    bias: Float[Tensor, "#batch #head query key"] | None
    scoring: Scoring | None
    real_queries: Bool[Tensor, "batch token"] | None
    key_sums: KeySums | None


@dataclass(frozen=True)
class Context:
    """Arguments of a mechanism besides queries, keys and values, packed; see `CallContext`."""

    visible: Tensor | None = None
    first_query: int = 0
    token_ids: Tensor | None = None
    bias: Tensor | None = None
    scoring: Scoring | None = None
    real_queries: Tensor | None = None
    key_sums: KeySums | None = None


# What a mechanism depends on: no positions (or only those of real tokens among each other), offsets
# between queries and keys, positions of keys, or positions of queries and keys alike.
Positions = Literal["none", "offsets", "keys", "pairs"]


class Mechanism(nn.Module, ABC):
    """One way of mixing values, the same for every head it is called with.

    Tensors are `[batch, head, token, dim]`. `visible` is True where a key is a real token. A causal
    mechanism lets a query attend to keys up to its own position. `CallContext` says what else there may be.

    The law of every mechanism, in eval mode: `forward(q, k, v) == implied_matrix(q, k) @ v`.

    Attributes:
        specification: its options, for a mechanism that can be written as text.
        name: how the mechanism is written in a specification, whose own it is by default.
        source: the paper, or the section of the thesis, that it comes from.
        traits: what it can do.
        forms: ways of computing it that may be asked for.
        refusals: for what it cannot do (`"causal"`, `"cross"`), why.
        scored: whether `forward` and `implied_matrix` take `scoring`.
        positions: which positions it depends on.
        causal: whether a query is kept from keys behind it.
        cross: whether queries and keys belong to different sentences.
        dropout: probability with which a weight is dropped in training mode.
    """

    specification: ClassVar[type[Specification] | None] = None
    name: ClassVar[str]
    source: ClassVar[str] = ""
    traits: ClassVar[Traits] = Traits()
    forms: ClassVar[tuple[Form, ...]] = ("auto",)
    refusals: ClassVar[Mapping[str, str]] = {}
    scored: ClassVar[bool] = False
    positions: ClassVar[Positions] = "none"

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.specification is not None and "name" not in vars(cls):
            cls.name = cls.specification.name

    def __init__(self, *, causal: bool = False, cross: bool = False, dropout: float = 0.0) -> None:
        super().__init__()
        for requested, possible, what in (
            (causal, self.traits.causal, "causal"),
            (cross, self.traits.cross, "cross"),
        ):
            if requested and not possible:
                why = self.refusals.get(what, "it is not defined")
                msg = (
                    f"The mechanism '{self.name}' has no {what} form: {why}; choose another "
                    "mechanism there (`attnlab mechanisms` lists what each can do)."
                )
                raise InputError(msg)
        if causal and cross:
            msg = (
                "Cross-attention has no future to hide: ask for causal or for cross, not for both."
            )
            raise InputError(msg)
        if not 0.0 <= dropout < 1.0:
            msg = f"The attention dropout is a probability from 0 up to below 1, not {dropout}."
            raise InputError(msg)
        self.causal = causal
        self.cross = cross
        self.dropout = dropout

    @classmethod
    def at_budget(cls, keys: int, *, causal: bool) -> Specification | None:  # noqa: ARG003
        """The specification with which `attnlab compare` compares it at so many keys per row.

        None leaves it to the list of `attnlab compare` (`attnlab.budget.uniform`); a new mechanism says it
        here. It asks for several numbers and takes the best within the budget it counts. `attnlab plan`
        gives such settings to heads where `--families` has its name, if its keys can be counted and it
        learns nothing.
        """
        return None

    @abstractmethod
    def forward(
        self,
        query: Float[Tensor, "batch head query dim"],
        key: Float[Tensor, "batch head key dim"],
        value: Float[Tensor, "batch head key value_dim"],
        visible: Bool[Tensor, "batch key"] | None = None,
        **call_context: Unpack[CallContext],
    ) -> Float[Tensor, "batch head query value_dim"]:
        """Mixed values, one row per query; a query that sees no key gets 0."""

    @abstractmethod
    def implied_matrix(
        self,
        query: Float[Tensor, "batch head query dim"],
        key: Float[Tensor, "batch head key dim"],
        visible: Bool[Tensor, "batch key"] | None = None,
        **call_context: Unpack[CallContext],
    ) -> Float[Tensor, "batch head query key"]:
        """The matrix that `forward` multiplies the values by, without dropout."""

    def first_and_recent(self) -> tuple[int, int] | None:
        """Numbers of first keys of a text, and of keys up to its own, that a causal row may attend to.

        None where it may be any; a mechanism says it where a cache can let go the others.
        """
        return None

    def sums_over_keys(self) -> bool:
        """Whether a causal row needs no more of earlier keys than sums, which `KeySums` keeps."""
        return False

    def cost(self, queries: int, keys: int, dim: int) -> Cost:
        """Work for one head and one sentence; a mechanism that does not say is taken as dense."""
        return Cost(multiply_adds=2 * queries * keys * dim, bytes=4 * queries * keys)


def visible_or_all(key: Tensor, visible: Tensor | None) -> Bool[Tensor, "batch key"]:
    """`visible` itself, or True for every key of the batch."""
    if visible is not None:
        return visible
    return torch.ones(key.shape[0], key.shape[-2], dtype=torch.bool, device=key.device)


def ordinals(visible: Bool[Tensor, "batch key"]) -> Int[Tensor, "batch key"]:
    """Number of real tokens before each key: its position when padding is not counted.

    >>> ordinals(torch.tensor([[False, True, True]])).tolist()
    [[0, 0, 1]]
    """
    return (visible.cumsum(-1) - 1).clamp(min=0)


def sentence_ends(visible: Bool[Tensor, "batch key"]) -> Int[Tensor, " batch"]:
    """One past the last real token of each sentence; 0 for an empty one.

    >>> sentence_ends(torch.tensor([[False, True, False], [False, False, False]])).tolist()
    [2, 0]
    """
    positions = torch.arange(1, visible.shape[-1] + 1, device=visible.device)
    return (visible * positions).amax(-1)


def nearest_real(
    targets: Int[Tensor, " query"], visible: Bool[Tensor, "batch key"]
) -> Int[Tensor, "batch query"]:
    """Positions moved into each sentence: those before it to its first token, those behind to its last.

    >>> nearest_real(torch.tensor([-1, 1, 5]), torch.tensor([[False, True, True]])).tolist()
    [[1, 1, 2]]
    """
    begins = visible.long().argmax(-1, keepdim=True)
    last = (sentence_ends(visible)[:, None] - 1).clamp(min=0)
    return torch.minimum(torch.maximum(targets, begins), last)


def without_keys(value: Tensor, dropout: float) -> Tensor:
    """Values with whole keys dropped at random, the same for every query, the rest scaled up.

    Mechanisms that never form single weights drop keys: the expected output is the same.
    """
    kept = nn.functional.dropout(torch.ones_like(value[..., :1]), dropout)
    return value * kept
