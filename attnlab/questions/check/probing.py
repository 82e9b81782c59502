"""A model on drawn tokens: what it gives, and which rows of a layer move with the state at one position."""

import inspect
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import Cache, PreTrainedModel

from attnlab.core import InputError

# Cells of the matrices of all heads of one layer in one forward pass: 128 MiB in float64.
MOST_CELLS = 2**24
DRAWS = 3
# Tokens by which the source is longer than the target, so that the stacks can be told apart.
MORE = 8
# An argument that transformers takes of all models, named in few of them.
_WEIGHTS = "output_attentions"


@dataclass(frozen=True)
class Precision:
    """What counts as a change.

    Attributes:
        dtype: that the model computes in.
        moved: a row has moved that changed by more, as a share of the largest state. Both passes have the same
            shapes, so that rows which do not read the position come out the same to the last bit, but for the
            rounding of sums over other tokens of an expert.
        same: texts are read alike that differ by less. Lengths and kernels differ, and some models compute
            norms and softmax in float32 whatever they are given.
    """

    dtype: torch.dtype
    moved: float
    same: float


DOUBLE = Precision(torch.float64, 1e-11, 1e-5)
SINGLE = Precision(torch.float32, 1e-6, 1e-4)


class NeedsSingleError(RuntimeError):
    """A model whose states in float64 are no numbers: some turn the smallest float64 into float32."""


def of_precision(error: BaseException) -> bool:
    """Whether a model stopped since it turns states into float32 by itself, which weights of float64 do not take."""
    return (
        isinstance(error, NeedsSingleError)
        or isinstance(error, RuntimeError)
        and any(word in str(error) for word in ("dtype", "Double", "double", "overflow"))
    )


@contextmanager
def computing_in(model: nn.Module, dtype: torch.dtype) -> Iterator[None]:
    """The model in eval mode with all its numbers of one kind; afterwards, to the last bit, as it was."""
    tensors = [t for t in (*model.parameters(), *model.buffers()) if t.is_floating_point()]
    before = [tensor.data for tensor in tensors]
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        for tensor in tensors:
            tensor.data = tensor.data.to(dtype)
        yield
    finally:
        for tensor, data in zip(tensors, before, strict=True):
            tensor.data = data
        for module, training in modes.items():
            module.training = training


@dataclass(frozen=True)
class Probe:
    """A model with ids to read.

    Attributes:
        model: the model.
        ids: what is read, by the decoder where there are two stacks.
        others: another token at each position.
        source: what the encoder of two stacks reads.
        padding: the id that stands where nothing is.
        body: what is called: the part behind which tokens are scored, or the whole where it has none of its own.
        takes: names of the arguments of its body.
    """

    model: Any
    ids: Int[Tensor, " token"]
    others: Int[Tensor, " token"]
    source: Int[Tensor, " token"] | None
    padding: int
    body: Any
    takes: frozenset[str]

    @property
    def tokens(self) -> int:
        """How many tokens are read."""
        return len(self.ids)

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        device: torch.device = self.model.device
        return device

    def call(self, ids: Int[Tensor, "batch token"], **given: Any) -> Any:
        """What the body of the model gives, or the model where it has no body of its own."""
        own = {"decoder_input_ids" if self.source is not None else "input_ids": ids}
        if self.source is not None and "encoder_outputs" not in given:
            own["input_ids"] = self.source.expand(len(ids), -1)
        given = {"use_cache": False, **own, **given}
        return self.body(
            **{name: one for name, one in given.items() if name in self.takes | {_WEIGHTS}},
            return_dict=True,
        )

    def states(self, ids: Tensor, **given: Any) -> Float[Tensor, "batch token dim"]:
        """The last states, or scores where the model gives no states."""
        return last_states(self.call(ids, **given))


def last_states(outputs: Any) -> Tensor:
    """Of the stack that writes."""
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


@dataclass(frozen=True)
class LayerAt:
    """A layer: a module of a list that turns the states of all tokens into others.

    Attributes:
        module: the layer.
        call: at which of its calls in a forward pass; layers of ALBERT share one.
        site: encoder or decoder.
        layer: from 0.
        config: of its stack.
        length: how many tokens it reads.
        axes: of its states, batch and token.
    """

    module: nn.Module
    call: int
    site: str
    layer: int
    config: Any
    length: int
    axes: tuple[int, int]


Where = tuple[str, int | str]


def layers_of(probe: Probe, *, causal: bool | None) -> list[LayerAt]:
    """The outermost modules of lists that turn states of tokens into others, in the order of their calls."""
    names = dict(probe.model.named_modules())
    listed = {
        module: path
        for path, module in names.items()
        if path and isinstance(names[path.rpartition(".")[0]], nn.ModuleList)
    }
    lengths = (probe.tokens, -1 if probe.source is None else len(probe.source))
    seen: list[tuple[nn.Module, int, tuple[int, int]]] = []

    def note(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        entering = _entering(args, kwargs)
        leaving = _first(output)
        if entering is None or leaving is None or leaving.shape != entering[1].shape:
            return
        shape = list(leaving.shape[:-1])
        length = next((one for one in lengths if one in shape), None)
        if length is not None and 2 in shape:
            seen.append((module, length, (shape.index(2), shape.index(length))))

    with _hooked(listed, note):
        probe.states(probe.ids.expand(2, -1))
    paths = {listed[module] for module, *_ in seen}
    encoder = set(probe.model.get_encoder().modules()) if probe.source is not None else set()
    found, calls, numbers = [], Counter[nn.Module](), Counter[str]()
    for module, length, axes in seen:
        path = listed[module]
        if any(path.startswith(f"{other}.") for other in paths):
            continue
        site = "encoder" if module in encoder or causal is False else "decoder"
        config = _stack_of(probe.model, path).config.get_text_config()
        found.append(LayerAt(module, calls[module], site, numbers[site], config, length, axes))
        calls[module] += 1
        numbers[site] += 1
    return found


def _stack_of(model: PreTrainedModel, path: str) -> PreTrainedModel:
    """The innermost model that a module is part of."""
    parts = [
        (name, part)
        for name, part in model.named_modules()
        if isinstance(part, PreTrainedModel) and (not name or path.startswith(f"{name}."))
    ]
    return max(parts, key=lambda one: len(one[0]))[1]


def _entering(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Where, Tensor] | None:
    """Where the states stand among the arguments, and the states."""
    given: list[tuple[Where, Any]] = [(("args", index), one) for index, one in enumerate(args)]
    named = sorted(kwargs.items(), key=lambda one: one[0] != "hidden_states")
    given += [(("kwargs", name), one) for name, one in named]
    return next(((where, one) for where, one in given if _is_states(one)), None)


def _is_states(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point() and value.ndim >= 3


def _first(output: Any) -> Tensor | None:
    output = output[0] if isinstance(output, tuple) and output else output
    return output if _is_states(output) else None


def changes_by_layer(
    probe: Probe, layers: Sequence[LayerAt], positions: Mapping[int, Tensor], seed: int
) -> list[Float[Tensor, "position token"]]:
    """Of every layer: how far each row of what leaves it moves with what enters it at one position.

    Each layer is run again on the states that entered it, changed at one position in each text of the
    batch; what stands before it is as it was, so that windows of layers do not add up. The change is drawn
    `DRAWS` times, since a key may have next to no weight with one of them.

    Args:
        probe: the model.
        layers: of it.
        positions: which are changed, by the number of tokens of the stack; of all stacks as many.
        seed: of the change.

    Returns:
        The largest change of a row in all draws as a share of the largest state, by layer.
    """
    generator = torch.Generator().manual_seed(seed)
    count = len(next(iter(positions.values()), ()))
    heads = getattr(probe.model.config.get_text_config(), "num_attention_heads", None)
    cells = (heads if isinstance(heads, int) else 16) * (probe.tokens + MORE) ** 2
    parts = torch.arange(count).split(max(1, MOST_CELLS // cells))
    passes = [
        _one_pass(probe, layers, {n: own[part] for n, own in positions.items()}, generator)
        for part in parts
    ]
    return [torch.cat(rows).cpu() for rows in zip(*passes, strict=True)]


def _one_pass(
    probe: Probe,
    layers: Sequence[LayerAt],
    positions: Mapping[int, Tensor],
    generator: torch.Generator,
) -> list[Tensor]:
    by_call = {(at.module, at.call): number for number, at in enumerate(layers)}
    found = [torch.empty(0) for _ in layers]
    calls: Counter[nn.Module] = Counter()
    again = False

    def measure(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        nonlocal again
        if again:
            return
        number = by_call.get((module, calls[module]))
        calls[module] += 1
        if number is not None:
            again, at = True, layers[number]
            found[number] = _rows_moved(at, args, kwargs, output, positions[at.length], generator)
            again = False

    with _hooked({at.module for at in layers}, measure):
        probe.states(probe.ids.expand(len(next(iter(positions.values()), ())), -1))
    return found


def _rows_moved(
    at: LayerAt, args: Any, kwargs: Any, output: Any, positions: Tensor, generator: torch.Generator
) -> Tensor:
    (kind, name), states = _entering(args, kwargs)
    before = _first(output)
    # What the first pass put into a cache must not be read again.
    given = [None if isinstance(one, Cache) else one for one in args]
    named = {key: None if isinstance(one, Cache) else one for key, one in kwargs.items()}
    texts = torch.arange(len(positions), device=states.device)
    draws = []
    for _ in range(DRAWS):
        noise = torch.randn(states.shape[-1], generator=generator, dtype=torch.float64).to(states)
        moved = states.clone()
        moved.movedim(at.axes, (0, 1))[texts, positions.to(states.device)] += (
            2 * noise * states.std()
        )
        (given if kind == "args" else named)[name] = moved
        draws.append(_first(at.module(*given, **named)) - before)
    change = torch.stack(draws).abs().amax(0).movedim(at.axes, (0, 1))
    return change.flatten(2).amax(-1) / before.abs().max()


@contextmanager
def _hooked(modules: Iterable[nn.Module], hook: Any) -> Iterator[None]:
    handles = [module.register_forward_hook(hook, with_kwargs=True) for module in modules]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
