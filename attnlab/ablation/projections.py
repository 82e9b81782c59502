"""Output projections of attention layers, before which the heads of a layer are still apart.

Behind the projection the heads are summed and a slice of columns belongs to all of them, so zeroing
one there ablates no head (heads.md, trap 3). Nothing is known of class or attribute names: the
projection is the linear module whose output the attention module returns (BART, T5, Llama, attnlab),
or the last one in it that does not project queries, keys or values (BLOOM, ALBERT), or else the one that
reads what the attention module returns (BERT).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import chain, cycle
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnlab.core import AttnlabError, Head
from attnlab.reading import find, ready_to_show

# Of how many rows slopes are compared, of a recording with 1,500 say.
_ROWS_COMPARED = 64
Layer = tuple[str, int]
Hook = Callable[..., Any]
# A linear module, what it read and what it wrote.
Call = tuple[nn.Module, Tensor, Tensor]


@dataclass(frozen=True)
class Projection:
    """The output projection of one attention layer.

    Attributes:
        heads: how many heads it reads, side by side in its input.
        module: the linear module; its input is `[batch, query, heads * head_dim]`.
        attention: the attention module that it belongs to.
        call: at which of the calls of the attention module, where layers share it.
        calls: how often a pass calls the attention module.
        module_calls: how often a pass calls the linear module.
        sharing: attention modules of other layers that share the linear module.
        model: whose calls begin the count anew.
    """

    heads: int
    module: nn.Module
    attention: nn.Module
    call: int = 0
    calls: int = 1
    module_calls: int = 1
    sharing: tuple[nn.Module, ...] = ()
    model: nn.Module | None = None

    def at_own_call(
        self, register: Callable[[Hook], Any], hook: Hook, *, inside: bool = False
    ) -> list[Any]:
        """Registers a hook that runs at the calls of this layer alone, of a module that others call too.

        It runs from this layer's call of its attention module on, until that of another layer.

        Args:
            register: a module's method that registers hooks.
            hook: runs at the layer's calls.
            inside: whether the module is called within the attention module alone.

        Returns:
            What removes it again.
        """
        turns, is_own_call = cycle(range(self.calls)), False

        def count_anew(*_: Any) -> None:
            nonlocal turns
            turns = cycle(range(self.calls))

        def begin(*_: Any) -> None:
            nonlocal is_own_call
            is_own_call = next(turns) == self.call

        def end(*_: Any) -> None:
            nonlocal is_own_call
            is_own_call = False

        def of_layer(*given: Any) -> Any:
            return hook(*given) if is_own_call else None

        handles = [] if self.model is None else [self.model.register_forward_pre_hook(count_anew)]
        handles += [other.register_forward_pre_hook(end) for other in self.sharing]
        handles += [self.attention.register_forward_pre_hook(begin), register(of_layer)]
        return [*handles, self.attention.register_forward_hook(end)] if inside else handles


Projections = Mapping[Layer, Projection]
Change = Callable[[Float[Tensor, "batch query head dim"]], Float[Tensor, "batch query head dim"]]


def all_heads(projections: Projections) -> list[Head]:
    """Every head, layer by layer."""
    return [
        Head(site, layer, head)
        for (site, layer), projection in projections.items()
        for head in range(projection.heads)
    ]


class _Passed(NamedTuple):
    """Tensors that an attention module was given and returned in one call, and linear calls in it."""

    given: list[Tensor]
    returned: list[Tensor]
    inside: list[Call]


def projections_of(model: nn.Module, run: Callable[[], Any]) -> dict[Layer, Projection]:
    """The output projection of every attention layer of a transformers model.

    Args:
        model: left as it is; while it is looked at it is in eval mode and returns weights.
        run: calls `model` with `output_attentions=True` on one sentence without padding; source and
            target differ in length, so that the sites can be told apart.

    Raises:
        InputError: the model returns no attention weights.
        AttnlabError: a projection cannot be told, or heads are mixed before it; the message names site
            and layer.
    """
    with ready_to_show(model), torch.no_grad():
        attention_sites = find(model, run)
        attentions: dict[Layer, tuple[nn.Module, int]] = {
            (hook.site, hook.layer): (hook.module, hook.call) for hook in attention_sites.hooks
        }
        if len(attentions) < sum(map(len, attention_sites.layers.values())):
            msg = (
                f"The layers of {type(model).__name__} return no weights of their own, so heads of one "
                "layer cannot be ablated alone."
            )
            raise AttnlabError(msg)
        projections = find_projections(model, attentions, run)
        check_apart(projections, run)
        return projections


def find_projections(
    model: nn.Module, attentions: Mapping[Layer, tuple[nn.Module, int]], run: Callable[[], Any]
) -> dict[Layer, Projection]:
    """The output projection of every attention module, found by one forward pass on a few tokens.

    Args:
        model: in eval mode, so that dropout hands on what it gets.
        attentions: by site and layer the module that returns the layer's weights
            `[batch, head, query, key]`, and at which of its calls.
        run: calls `model` so that weights are returned.

    Raises:
        AttnlabError: a projection cannot be told; the message names site and layer.
    """
    # Tensors are kept until the end: freed memory is used again and would look like a match.
    calls: list[Call] = []
    passed: dict[nn.Module, list[_Passed]] = {}
    begun: dict[nn.Module, int] = {}

    def note_linear(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if inputs and isinstance(inputs[0], Tensor) and isinstance(output, Tensor):
            calls.append((module, inputs[0], output))

    def note_beginning(module: nn.Module, _: Any) -> None:
        begun[module] = len(calls)

    def note_attention(module: nn.Module, args: Any, named: dict[str, Any], output: Any) -> None:
        returned = output if isinstance(output, tuple) else ()
        given = _tensors((*args, *named.values()))
        call_record = _Passed(given, _tensors(returned), calls[begun[module] :])
        passed.setdefault(module, []).append(call_record)

    hooks = [
        module.register_forward_hook(note_linear, prepend=True)
        for module in model.modules()
        if _is_linear(module)
    ]
    for module in {module: None for module, _ in attentions.values()}:
        hooks += [
            module.register_forward_pre_hook(note_beginning),
            module.register_forward_hook(note_attention, prepend=True, with_kwargs=True),
        ]
    try:
        with torch.no_grad():
            run()
    finally:
        for hook in hooks:
            hook.remove()
    projections = {}
    for layer, (module, call) in attentions.items():
        seen = passed.get(module, [])
        call_record = seen[call] if call < len(seen) else _Passed([], [], [])
        projection = _projection_of(layer, module, call_record, calls)
        projections[layer] = replace(projection, call=call, calls=len(seen), model=model)
    every = projections.values()
    return {layer: _add_sharing(part, every, calls) for layer, part in projections.items()}


def _add_sharing(
    projection: Projection, every: Iterable[Projection], calls: Sequence[Call]
) -> Projection:
    """The projection with what shares its linear module, and how often a pass calls that."""
    alike = {other.attention: None for other in every if other.module is projection.module}
    sharing = tuple(module for module in alike if module is not projection.attention)
    module_calls = sum(call[0] is projection.module for call in calls)
    return replace(projection, sharing=sharing, module_calls=module_calls)


def check_apart(projections: Projections, run: Callable[[], Any]) -> None:
    """Raises AttnlabError where the part of a head, as a projection reads it, depends on other heads.

    ConvBERT joins heads with a convolution, DiffLlama takes one head from another, and DeepSeek V4 projects
    groups of heads before. With the weights w_b of each head, d(part of head a) / d w_b is 0 where heads are
    apart, across the direction of that part; it is not asked of mechanisms whose weights do not stand in what
    they compute, nor of tensors made in inference mode, which have no gradients.

    Cost: a forward pass with gradients, and from each layer 1 + log2(heads) passes back to its weights.

    Args:
        projections: of the model, which must be in eval mode and show its weights.
        run: calls it so that weights are returned.
    """
    models = {part.model for part in projections.values() if part.model is not None}
    if torch.is_inference_mode_enabled() or any(
        parameter.is_inference() for model in models for parameter in model.parameters()
    ):
        return
    with torch.enable_grad():
        for (site, layer), (weights, read) in _traced(projections, models, run).items():
            part = projections[site, layer]
            if _mixed(read, weights, part.heads):
                msg = (
                    f"{site} layer {layer}: {type(part.attention).__name__} mixes its heads before the "
                    "output projection, so no head of this model can be ablated alone."
                )
                raise AttnlabError(msg)


def _traced(
    projections: Projections, models: Iterable[nn.Module], run: Callable[[], Any]
) -> dict[Layer, tuple[Tensor, Tensor]]:
    """Weights and projection input of each layer, with the gradients between them.

    Parameters may be frozen: what linear modules write begins the graph then.
    """
    weights: dict[Layer, Tensor] = {}
    read: dict[Layer, Tensor] = {}

    def note(layer: Layer, projection: Projection) -> list[Any]:
        def note_weights(_: nn.Module, __: Any, output: Any) -> None:
            weights[layer] = next(part for part in reversed(_tensors(output)) if part.ndim == 4)

        def note_read(_: nn.Module, inputs: tuple[Any, ...]) -> None:
            read[layer] = inputs[0]

        return [
            *projection.at_own_call(
                lambda hook: projection.attention.register_forward_hook(hook, prepend=True),
                note_weights,
            ),
            *projection.at_own_call(projection.module.register_forward_pre_hook, note_read),
        ]

    def begin(_: nn.Module, __: Any, output: Any) -> Any:
        plain = (
            isinstance(output, Tensor) and output.is_floating_point() and not output.requires_grad
        )
        # A copy may be changed in place, which a leaf may not.
        return output.detach().requires_grad_().clone() if plain else None

    with ExitStack() as stack:
        for layer, projection in projections.items():
            for handle in note(layer, projection):
                stack.callback(handle.remove)
        for part in chain.from_iterable(model.modules() for model in models):
            if _is_linear(part):
                stack.callback(part.register_forward_hook(begin).remove)
        run()
    return {layer: (weights[layer], read[layer]) for layer in projections}


def _mixed(read: Tensor, weights: Tensor, heads: int) -> bool:
    """Whether some slice of what a projection reads depends on the weights of another slice's head.

    A factor that all heads share is no mixing (BitNet: a norm over all of them), so slices are looked at
    across the direction in which they point.
    """
    if not (read.requires_grad and weights.requires_grad):
        return False
    apart = read.unflatten(-1, (heads, -1))
    some = torch.arange(1, apart.shape[-1] + 1, device=read.device, dtype=torch.double).cos()
    place = apart.detach().double()
    along = place / place.norm(dim=-1, keepdim=True).clamp(min=torch.finfo(torch.double).tiny)
    across = some - (some * along).sum(-1, keepdim=True) * along
    parts = (apart * across.to(read.dtype)).sum(-1).flatten(0, -2).sum(0)
    # A norm over all heads in bfloat16 leaves up to two of its steps.
    tolerance = max(1e-4, 8 * torch.finfo(read.dtype).eps)
    # With the slices of some heads turned round, the slope of a head that is apart turns with its own slice,
    # to the last bit. Any two heads are told apart by a bit of their numbers.
    numbers = torch.arange(heads, device=read.device)
    step = max(1, weights.shape[2] // _ROWS_COMPARED)
    turned: list[Tensor] = []
    for bit in (None, *range((heads - 1).bit_length())):
        signs = torch.ones(heads, device=read.device, dtype=read.dtype)
        if bit is not None:
            signs[(numbers >> bit) % 2 == 1] = -1
        slopes: list[Tensor | None] = [
            *torch.autograd.grad(parts, weights, signs, retain_graph=True, allow_unused=True)
        ]
        if slopes[0] is None:
            return False
        turned.append(slopes[0][:, :, ::step] * signs[:, None, None])
    largest = turned[0].abs().max()
    return any(bool((slope - turned[0]).abs().max() > tolerance * largest) for slope in turned)


def _tensors(parts: Iterable[Any]) -> list[Tensor]:
    return [part for part in parts if isinstance(part, Tensor)]


def _is_linear(module: nn.Module) -> bool:
    """A module that multiplies by one matrix and has no parts, such as nn.Linear or GPT-2's Conv1D."""
    weight = getattr(module, "weight", None)
    return isinstance(weight, Tensor) and weight.ndim == 2 and not list(module.children())


def _projection_of(
    layer: Layer, attention: nn.Module, passed: _Passed, calls: list[Call]
) -> Projection:
    mixed = next((part for part in passed.returned if part.ndim == 3), None)
    weights = [part for part in passed.returned if part.ndim == 4]
    if mixed is not None and weights:
        heads = weights[-1].shape[1]
        apart = [call for call in calls if call[1].shape[-1] % heads == 0]
        candidates = [
            *(module for module, _, wrote in apart if _same_memory(wrote, mixed)),
            *_last_inside(passed, mixed, heads),
            *(module for module, read, _ in apart if _same_memory(read, mixed)),
        ]
        if candidates:
            return Projection(heads, candidates[0], attention)
    msg = (
        f"{layer[0]} layer {layer[1]}: the output projection of {type(attention).__name__} cannot "
        "be found, so the heads of this model cannot be ablated."
    )
    raise AttnlabError(msg)


def _last_inside(passed: _Passed, mixed: Tensor, heads: int) -> list[nn.Module]:
    """The last linear module in an attention module, unless it projects queries, keys or values.

    BLOOM and ALBERT add the residual inside, so that nobody returns what was projected. Queries, keys and
    values are projected from what the module was given, or from states that another of them reads too.
    """
    divisible = [call for call in passed.inside if call[1].shape[-1] % heads == 0]
    others = {part.data_ptr() for part in passed.given} | {
        read.data_ptr() for _, read, _ in divisible[:-1]
    }
    return [
        module
        for module, read, wrote in divisible[-1:]
        if wrote.shape == mixed.shape and read.data_ptr() not in others
    ]


def _same_memory(first: Tensor, other: Tensor) -> bool:
    return first.data_ptr() == other.data_ptr() and first.shape == other.shape


@contextmanager
def changed_heads(projections: Projections, changes: Mapping[Layer, Change]) -> Iterator[None]:
    """While the block runs, every layer in `changes` has its heads' outputs changed before they are summed.

    A change gets the outputs of all heads `[batch, query, head, dim]` and returns what is projected
    instead.
    """

    def attach(projection: Projection, change: Change) -> list[Any]:
        def hook(_: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
            apart = inputs[0].unflatten(-1, (projection.heads, -1))
            return (change(apart).flatten(-2), *inputs[1:])

        return projection.at_own_call(projection.module.register_forward_pre_hook, hook)

    hooks = [
        handle for layer, change in changes.items() for handle in attach(projections[layer], change)
    ]
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
