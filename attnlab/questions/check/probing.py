"""A model on drawn tokens, in a precision that shows small changes."""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnlab.core import InputError, eval_mode

# Tokens by which the source is longer than the target, so that the stacks can be told apart.
MORE = 8
# An argument that transformers takes of all models, named in few of them.
_WEIGHTS = "output_attentions"
# Of BigBird and BigBirdPegasus.
_TURNS = "set_attention_type"
# What a model may stop with where something is tried that it cannot do.
STOPS = (
    ArithmeticError, AttributeError, ImportError, LookupError, NotImplementedError, RuntimeError, TypeError,
    ValueError,
)  # fmt: skip


@dataclass(frozen=True)
class Precision:
    """What counts as a change.

    Attributes:
        dtype: that the model computes in.
        moved: a row has moved that changed by more, as a share of the largest state. Both passes have the
            same shapes, so that rows which do not read the position come out the same to the last bit, but
            for the rounding of sums over other tokens of an expert.
    """

    dtype: torch.dtype
    moved: float


DOUBLE = Precision(torch.float64, 1e-11)
SINGLE = Precision(torch.float32, 1e-6)
# States of up to 100 tokens that differ by less, as a share of the largest, are the same. Lengths and
# kernels differ, and many models compute norms, softmax and recurrences in float32 whatever they are given:
# of 196 small ones the largest difference by rounding is 3e-5, the smallest by a cause 1e-2 (results/check).
SAME_CHANGE = 3e-4


def compared(one: Tensor, other: Tensor) -> tuple[float, bool]:
    """The largest difference of states, as a share of the largest, and whether they are the same.

    More is allowed of longer texts in proportion, since angles of positions are rounded in float32.
    """
    change = float((one - other).abs().max() / one.abs().max())
    return change, change <= SAME_CHANGE * max(1.0, one.shape[1] / 100)


class NeedsSingleError(RuntimeError):
    """A model whose states in float64 are no numbers: some turn the smallest float64 into float32."""


def of_precision(error: BaseException) -> bool:
    """Whether a model, or the device that it is on, stopped since it does not compute in float64."""
    words = ("dtype", "Double", "double", "overflow", "float64")
    refused = isinstance(error, RuntimeError | TypeError) and any(
        word in str(error) for word in words
    )
    return refused or isinstance(error, NeedsSingleError)


@contextmanager
def computing_in(model: nn.Module, dtype: torch.dtype) -> Iterator[None]:
    """The model in eval mode with all its numbers of one kind; afterwards, to the last bit, as it was."""
    tensors = [t for t in (*model.parameters(), *model.buffers()) if t.is_floating_point()]
    before = [tensor.data for tensor in tensors]
    try:
        for tensor in tensors:
            tensor.data = tensor.data.to(dtype)
        with eval_mode(model):
            yield
    finally:
        for tensor, data in zip(tensors, before, strict=True):
            tensor.data = data


@dataclass(frozen=True)
class Probe:
    """A model with ids to read.

    Attributes:
        model: the model.
        ids: what is read, by the decoder where there are two stacks.
        others: another token at each position.
        source: what the encoder of two stacks reads.
        padding: the id that stands where nothing is.
        body: what is called: what tokens are scored behind, or the whole where it has no such part.
        takes: names of the arguments of its body.
    """

    model: Any
    ids: Int[Tensor, " token"]
    others: Int[Tensor, " token"]
    source: Int[Tensor, " source"] | None
    padding: int
    body: Any
    takes: frozenset[str]

    @property
    def tokens(self) -> int:
        """How many tokens are read."""
        return len(self.ids)

    @property
    def device(self) -> torch.device:
        """The device that the model is on."""
        return self.ids.device

    def call(self, ids: Int[Tensor, "batch token"], **given: Any) -> Any:
        """What the body of the model gives."""
        inputs = {"decoder_input_ids" if self.source is not None else "input_ids": ids}
        if self.source is not None and "encoder_outputs" not in given:
            inputs["input_ids"] = self.source.expand(len(ids), -1)
        given = {"use_cache": False, **inputs, **given}
        with _same_attention_type(self.model):
            return self.body(
                **{name: value for name, value in given.items() if name in self.takes | {_WEIGHTS}},
                return_dict=True,
            )

    def states(self, ids: Tensor, **given: Any) -> Float[Tensor, "batch token dim"]:
        """The last states, or scores where the model gives no states."""
        return last_states(self.call(ids, **given))


@contextmanager
def _same_attention_type(model: nn.Module) -> Iterator[None]:
    """Undoes that BigBird turns to full attention for good where a text is short."""
    types = {part: part.attention_type for part in model.modules() if hasattr(part, _TURNS)}
    try:
        yield
    finally:
        for part, kind in types.items():
            getattr(part, _TURNS)(kind)


def last_states(outputs: Any) -> Tensor:
    """The last states of the stack that writes."""
    states = outputs.get("last_hidden_state")
    return outputs.logits if states is None else states


def probe_of(model: Any, tokens: int, seed: int) -> Probe:
    """The model with drawn ids, none of a special token.

    Raises:
        InputError: it reads something else than text.
    """
    if getattr(model, "main_input_name", "input_ids") != "input_ids":
        msg = f"{type(model).__name__} reads {model.main_input_name}, not tokens; give a model of text."
        raise InputError(msg)
    config = model.config.get_text_config()
    generator = torch.Generator().manual_seed(seed)
    special = {value for name, value in _entries(model.config) if name.endswith("token_id")}
    sizes = [
        int(value)
        for name, value in _entries(model.config)
        if name.endswith("vocab_size") and "type" not in name and value
    ]
    sizes.append(model.get_input_embeddings().weight.shape[0])
    usable = torch.tensor([number for number in range(min(sizes)) if number not in special])
    if len(usable) < 2:
        msg = f"{type(model).__name__} has a vocabulary of {min(sizes)}, too few to change a token."
        raise InputError(msg)
    drawn = torch.randint(len(usable), (tokens,), generator=generator)
    steps = torch.randint(1, len(usable), (tokens,), generator=generator)
    source = usable[torch.randint(len(usable), (tokens + MORE,), generator=generator)]
    padding = getattr(config, "pad_token_id", None)
    # Some bodies hand all on to a decoder.
    named = "input_ids" in inspect.signature(model.base_model.forward).parameters
    body = model.base_model if named else model
    return Probe(
        model,
        usable[drawn].to(model.device),
        usable[(drawn + steps) % len(usable)].to(model.device),
        source.to(model.device) if model.config.is_encoder_decoder else None,
        padding if isinstance(padding, int) and 0 <= padding < min(sizes) else 0,
        body,
        frozenset(inspect.signature(body.forward).parameters),
    )


def _entries(config: Any) -> Iterator[tuple[str, Any]]:
    """Whole numbers of a configuration and of those within it."""
    for name, value in config.to_dict().items():
        if isinstance(value, int) and not isinstance(value, bool):
            yield name, value
    for name in config.sub_configs:
        if getattr(config, name, None) is not None:
            yield from _entries(getattr(config, name))
