"""Which rows of a layer move with the state at one position of what enters it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import Cache, PreTrainedModel

from attnlab.questions.check.probing import MORE, Probe

# Cells of the matrices of all heads of one layer in one forward pass: 128 MiB in float64.
MOST_CELLS = 2**24
DRAWS = 3


@dataclass(frozen=True)
class LayerAt:
    """A layer: a module of a list that turns the states of all tokens into others.

    Attributes:
        module: the layer.
        call: at which of its calls in a forward pass; layers of ALBERT share one.
        site: encoder or decoder; or cross, where its decoder layer reads what the encoder gave.
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


def layers_of(probe: Probe, *, causal: bool | None) -> list[LayerAt]:
    """The outermost modules of lists that turn states of tokens into others, in the order of their calls."""
    names = dict(probe.model.named_modules())
    listed: dict[nn.Module, str] = {
        module: path
        for path, module in names.items()
        if path and isinstance(names[path.rpartition(".")[0]], nn.ModuleList)
    }
    lengths = (probe.tokens, -1 if probe.source is None else len(probe.source))
    seen: list[tuple[nn.Module, int, tuple[int, int], bool]] = []

    def note(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        (_, entering), leaving = _entering(args, kwargs), _first(output)
        if entering is None or leaving is None or leaving.shape != entering.shape:
            return
        shape = list(leaving.shape[:-1])
        length = next((count for count in lengths if count in shape), None)
        if length is not None and 2 in shape:
            axes = (shape.index(2), shape.index(length))
            _, memory = _memory(args, kwargs, lengths[1], axes[1])
            seen.append((module, length, axes, length == lengths[0] and memory is not None))

    with _hooked(listed, note):
        probe.states(probe.ids.expand(2, -1))
    paths = {listed[module] for module, *_ in seen}
    encoder = set(probe.model.get_encoder().modules()) if probe.source is not None else set()
    layers, calls, numbers = [], Counter[nn.Module](), Counter[str]()
    for module, length, axes, memory in seen:
        path = listed[module]
        if any(path.startswith(f"{other}.") for other in paths):
            continue
        site = "encoder" if module in encoder or causal is False else "decoder"
        config = _stack_of(probe.model, path).config.get_text_config()
        layers.append(LayerAt(module, calls[module], site, numbers[site], config, length, axes))
        if memory:
            layers.append(replace(layers[-1], site="cross", length=lengths[1]))
        calls[module] += 1
        numbers[site] += 1
    return layers


def _stack_of(model: PreTrainedModel, path: str) -> PreTrainedModel:
    """The innermost model that a module is part of."""
    parts = [
        (name, part)
        for name, part in model.named_modules()
        if isinstance(part, PreTrainedModel) and (not name or path.startswith(f"{name}."))
    ]
    return max(parts, key=lambda part: len(part[0]))[1]


def _entering(args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Index or name of the states among the arguments, and the states; None and None without any."""
    named = sorted(kwargs.items(), key=lambda item: item[0] != "hidden_states")
    return next(
        ((at, value) for at, value in (*enumerate(args), *named) if _is_states(value)), (None, None)
    )


def _memory(args: Any, kwargs: Any, length: int, axis: int) -> tuple[Any, Any]:
    """Index or name of the argument that has the states of an encoder, and these; None and None without."""
    return next(
        (
            (at, value)
            for at, value in (*enumerate(args), *kwargs.items())
            if _is_states(value) and value.ndim == 3 and value.shape[axis] == length
        ),
        (None, None),
    )


def _is_states(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point() and value.ndim >= 3


def _first(output: Any) -> Any:
    """The states among what a layer returns."""
    output = output[0] if isinstance(output, tuple | list) and output else output
    return output if _is_states(output) else None


def changes_by_layer(
    probe: Probe,
    layers: Sequence[LayerAt],
    positions: Mapping[int, Tensor],
    seed: int,
    *,
    flat: bool = False,
) -> list[Float[Tensor, "position token"]]:
    """How far each row of what leaves a layer moves with what enters at one position, for every layer.

    Each layer is run again on the states that entered it, changed at one position in each text of the
    batch; what stands before it is as it was, so that windows of layers do not add up. The change is drawn
    `DRAWS` times, since a key may have next to no weight with one of them. A layer that attends to keys and
    values of an earlier one is given those that the earlier one makes of the changed state.

    Args:
        probe: the model.
        layers: of it.
        positions: which are changed, by the number of tokens of the stack; of all stacks as many.
        seed: of the change.
        flat: whether one drawn state enters at all positions, another in each draw, so that no key outweighs
            the others by its content as in the text.

    Returns:
        The largest change of a row in all draws as a share of the largest state, by layer.
    """
    if not layers:
        return []
    generator = torch.Generator().manual_seed(seed)
    count = len(next(iter(positions.values()), ()))
    heads = getattr(probe.model.config.get_text_config(), "num_attention_heads", None)
    cells = (heads if isinstance(heads, int) else 16) * (probe.tokens + MORE) ** 2
    parts = torch.arange(count).split(max(1, MOST_CELLS // cells))
    passes = [
        _one_pass(probe, layers, {n: at[part] for n, at in positions.items()}, generator, flat)
        for part in parts
    ]
    return [torch.cat(rows).cpu() for rows in zip(*passes, strict=True)]


def _one_pass(
    probe: Probe,
    layers: Sequence[LayerAt],
    positions: Mapping[int, Tensor],
    generator: torch.Generator,
    flat: bool,
) -> list[Tensor]:
    by_call: dict[tuple[nn.Module, int], list[int]] = {}
    for number, at in enumerate(layers):
        by_call.setdefault((at.module, at.call), []).append(number)
    moved = [torch.empty(0) for _ in layers]
    calls: Counter[nn.Module] = Counter()
    stores = [(_Stores(), _Stores()) for _ in range(DRAWS)]
    again = False

    def measure(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        nonlocal again
        if again:
            return
        numbers = by_call.get((module, calls[module]), ())
        calls[module] += 1
        again, call = True, (args, kwargs, _first(output))
        for number in numbers:
            at = layers[number]
            moved[number] = _rows_moved(
                at, call, positions[at.length], generator, stores, flat=flat
            )
        again = False

    with _hooked({at.module for at in layers}, measure):
        probe.states(probe.ids.expand(len(next(iter(positions.values()), ())), -1))
    return moved


@dataclass
class _Stores:
    """What the layers of one draw hand on to each other in mappings, such as shared keys and values.

    Attributes:
        copies: of each mapping, by its id, the mapping itself and what stands in for it.
    """

    copies: dict[int, tuple[Any, Any]] = field(default_factory=dict)

    def replaced(self, value: Any) -> Any:
        """What a layer is given in place of an argument when it is run again."""
        # What the first pass put into a cache must not be read again.
        if isinstance(value, Cache):
            return None
        if not isinstance(value, MutableMapping):
            return value
        _, made = self.copies.setdefault(id(value), (value, copy(value)))
        made.update({key: item for key, item in value.items() if key not in made})
        return made


def _rows_moved(
    at: LayerAt,
    call: tuple[Any, Any, Tensor],
    positions: Tensor,
    generator: torch.Generator,
    stores: Sequence[tuple[_Stores, _Stores]],
    *,
    flat: bool,
) -> Tensor:
    """How far each row moves in a layer that was called so and returned these states."""
    args, kwargs, before = call
    name, states = _entering(args, kwargs)
    if at.site == "cross":
        name, states = _memory(args, kwargs, at.length, at.axes[1])
    texts = torch.arange(len(positions), device=states.device)

    def drawn() -> Tensor:
        noise = torch.randn(states.shape[-1], generator=generator, dtype=torch.float64)
        return noise.to(states) * states.std()

    def run(entering: Tensor, store: _Stores) -> Tensor:
        given: Any = [store.replaced(value) for value in args]
        named: Any = {key: store.replaced(value) for key, value in kwargs.items()}
        (given if isinstance(name, int) else named)[name] = entering
        return _first(at.module(*given, **named))

    draws = []
    for unchanged, changed in stores:
        if flat:
            states = drawn().expand_as(states)
            before = run(states, unchanged)
        moved = states.clone()
        moved.movedim(at.axes, (0, 1))[texts, positions.to(states.device)] += 2 * drawn()
        draws.append(run(moved, changed) - before)
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
