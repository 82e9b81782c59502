"""Where the heads of a layer are still apart: the input of the attention's output projection.

Behind the projection the heads are summed and a slice of columns belongs to all of them, so zeroing
one there ablates no head (heads.md, trap 3). Nothing is known of class or attribute names: the
projection is the linear module whose output the attention module returns (BART, T5, Llama, attnlab),
or else the one that reads what the attention module returns (BERT).
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnlab.core import AttnlabError, Head
from attnlab.reading import find, ready_to_show

Layer = tuple[str, int]


@dataclass(frozen=True)
class Projection:
    """The output projection of one attention layer.

    Attributes:
        heads: how many heads it reads, side by side in its input.
        module: the linear module; its input is `[batch, query, heads * head_dim]`.
        attention: the attention module that it belongs to.
    """

    heads: int
    module: nn.Module
    attention: nn.Module


Projections = Mapping[Layer, Projection]
Change = Callable[[Float[Tensor, "batch query head dim"]], Float[Tensor, "batch query head dim"]]


def all_heads(projections: Projections) -> list[Head]:
    """Every head, layer by layer."""
    return [
        Head(site, layer, head)
        for (site, layer), projection in projections.items()
        for head in range(projection.heads)
    ]


def projections_of(model: nn.Module, run: Callable[[], Any]) -> dict[Layer, Projection]:
    """The output projection of every attention layer of a transformers model.

    Args:
        model: left as it is; while it is looked at it is in eval mode and returns weights.
        run: calls `model` with `output_attentions=True` on one sentence without padding; source and
            target differ in length, so that the sites can be told apart.

    Raises:
        InputError: the model returns no attention weights.
        AttnlabError: a projection cannot be told; the message names site and layer.
    """
    with ready_to_show(model), torch.no_grad():
        found = find(model, run)
        attentions: dict[Layer, nn.Module] = {
            (hook.site, hook.layer): hook.module for hook in found.hooks
        }
        if len(set(attentions.values())) < sum(found.layers.values()):
            msg = (
                f"The layers of {type(model).__name__} share an attention module or return no "
                "weights of their own, so heads of one layer cannot be ablated alone."
            )
            raise AttnlabError(msg)
        return find_projections(model, attentions, run)


def find_projections(
    model: nn.Module, attentions: Mapping[Layer, nn.Module], run: Callable[[], Any]
) -> dict[Layer, Projection]:
    """The output projection of every attention module, found by one forward pass on a few tokens.

    Args:
        model: in eval mode, so that dropout hands on what it gets.
        attentions: by site and layer the module that returns the layer's weights
            `[batch, head, query, key]`.
        run: calls `model` so that weights are returned.

    Raises:
        AttnlabError: a projection cannot be told; the message names site and layer.
    """
    # Tensors are kept until the end: freed memory is used again and would look like a match.
    calls: list[tuple[nn.Module, Tensor, Tensor]] = []
    returned: dict[nn.Module, tuple[Any, ...]] = {}

    def note_linear(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if inputs and isinstance(inputs[0], Tensor) and isinstance(output, Tensor):
            calls.append((module, inputs[0], output))

    def note_attention(module: nn.Module, _: Any, output: Any) -> None:
        returned[module] = output if isinstance(output, tuple) else ()

    hooks = [
        module.register_forward_hook(note_linear, prepend=True)
        for module in model.modules()
        if _is_linear(module)
    ]
    hooks += [
        module.register_forward_hook(note_attention, prepend=True) for module in attentions.values()
    ]
    try:
        with torch.no_grad():
            run()
    finally:
        for hook in hooks:
            hook.remove()
    return {
        layer: _projection_of(layer, module, returned.get(module, ()), calls)
        for layer, module in attentions.items()
    }


def _is_linear(module: nn.Module) -> bool:
    """A module that multiplies by one matrix and has no parts, such as nn.Linear or GPT-2's Conv1D."""
    weight = getattr(module, "weight", None)
    return isinstance(weight, Tensor) and weight.ndim == 2 and not list(module.children())


def _projection_of(
    layer: Layer,
    attention: nn.Module,
    returned: tuple[Any, ...],
    calls: list[tuple[nn.Module, Tensor, Tensor]],
) -> Projection:
    tensors = [part for part in returned if isinstance(part, Tensor)]
    mixed = [part for part in tensors if part.ndim == 3]
    weights = [part for part in tensors if part.ndim == 4]
    for written in (True, False):
        for module, read, wrote in calls:
            tensor = wrote if written else read
            if mixed and weights and _same_memory(tensor, mixed[0]):
                heads = weights[-1].shape[1]
                if read.shape[-1] % heads == 0:
                    return Projection(heads, module, attention)
    # BLOOM adds the residual inside its attention module, so that nobody returns what was projected.
    inside = set(attention.modules())
    fitting = {
        module
        for module, read, wrote in calls
        if module in inside and mixed and weights
        and wrote.shape == mixed[0].shape and read.shape[-1] % weights[-1].shape[1] == 0
    }  # fmt: skip
    if len(fitting) == 1:
        return Projection(weights[-1].shape[1], fitting.pop(), attention)
    msg = (
        f"{layer[0]} layer {layer[1]}: the output projection of {type(attention).__name__} cannot "
        "be found, so the heads of this model cannot be ablated."
    )
    raise AttnlabError(msg)


def _same_memory(one: Tensor, other: Tensor) -> bool:
    return one.data_ptr() == other.data_ptr() and one.shape == other.shape


@contextmanager
def changed_heads(projections: Projections, changes: Mapping[Layer, Change]) -> Iterator[None]:
    """While the block runs, every layer in `changes` has its heads' outputs changed before they are summed.

    A change gets the outputs of all heads `[batch, query, head, dim]` and returns what is projected
    instead.
    """

    def attach(projection: Projection, change: Change) -> Any:
        def hook(_: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
            apart = inputs[0].unflatten(-1, (projection.heads, -1))
            return (change(apart).flatten(-2), *inputs[1:])

        return projection.module.register_forward_pre_hook(hook)

    hooks = [attach(projections[layer], change) for layer, change in changes.items()]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def watched_heads(
    projections: Projections, watch: Callable[[Layer, Tensor], None]
) -> Iterator[None]:
    """While the block runs, `watch` gets every layer's head outputs `[batch, query, head, dim]`."""

    def watcher(layer: Layer) -> Change:
        def look(apart: Tensor) -> Tensor:
            watch(layer, apart)
            return apart

        return look

    with changed_heads(projections, {layer: watcher(layer) for layer in projections}):
        yield
