"""Modules whose outputs hold attention weights, by site and layer: found, and their weights taken off."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from attnlab.attention import (
    AttentionCall,
    always_returning_weights,
    layer_numbers,
    mechanisms_in,
    watching,
)
from attnlab.core import AttnlabError, Head, InputError, Site, eval_mode

Receiver = Callable[[Site, int, Tensor], None]
CallReceiver = Callable[[Site, int, AttentionCall], None]
EAGER = "eager"
# Kernels of softmax attention that return no weights; eager attention computes the same.
FUSED_KERNELS = {
    "sdpa", "flex_attention", "flash_attention_2", "flash_attention_3", "flash_attention_4"
}  # fmt: skip


@dataclass(frozen=True)
class AttentionHook:
    """One layer's weights stand at index `index` of what `module` returns.

    Attributes:
        site: encoder, decoder or cross.
        layer: by the model's own count from 0.
        module: the attention module.
        index: where in the tuple that it returns.
        call: at which of its calls in a forward pass; layers of ALBERT share one module.
    """

    site: Site
    layer: int
    module: nn.Module
    index: int
    call: int = 0

    @property
    def has_sink(self) -> bool:
        """Whether a learned logit beside the keys takes part of each row (gpt-oss: `sinks`)."""
        return isinstance(getattr(self.module, "sinks", None), nn.Parameter)


class Returned(NamedTuple):
    """A tensor of four dimensions that a module returned at one of its calls."""

    module: nn.Module
    call: int
    slot: int
    part: Tensor


@dataclass(frozen=True)
class AttentionSites:
    """Every layer that has weights, and the hook of each.

    Attributes:
        layers: numbers of the layers by site, in the order in which they are called.
        heads: most heads in one layer.
        hooks: one for each layer, or empty when one could not be found; then weights are read from
            the model's outputs, all layers at once, and memory grows with the number of layers.
        causal: sites whose rows must not look ahead.
        heads_of: number of heads by site and layer.
        callers: for each hook the module that calls transformers' attention function with the layer's
            queries and keys; empty where that was not looked for, or some layer has none.
        watched_as: the name of the attention that these then call.
        biased: whether the model adds a number of its own to the score of each pair of tokens and head.
        unread: sites whose weights are no matrices [head, query, key], such as those of blocks of keys.
    """

    layers: Mapping[Site, tuple[int, ...]]
    heads: int
    hooks: tuple[AttentionHook, ...]
    causal: frozenset[Site]
    heads_of: Mapping[tuple[Site, int], int]
    callers: tuple[nn.Module, ...] = ()
    watched_as: str = ""
    biased: bool = False
    unread: tuple[Site, ...] = ()

    def heads_at(self, sites: Sequence[Site]) -> list[Head]:
        """The heads of some sites, site by site."""
        return [
            Head(site, layer, number)
            for site in sites
            for layer in sorted(self.layers.get(site, ()))
            for number in range(self.heads_of[site, layer])
        ]

    def has_sink(self, site: Site, layer: int) -> bool:
        """Whether rows of a layer sum to less than 1, since a learned sink takes the rest."""
        return any(hook.has_sink for hook in self.hooks if (hook.site, hook.layer) == (site, layer))

    def moved(self, model: nn.Module, twin: nn.Module) -> "AttentionSites":
        """The hooks of another model of the same class and configuration."""
        modules = twin_modules(model, twin)
        hooks = tuple(replace(hook, module=modules[hook.module]) for hook in self.hooks)
        callers = tuple(modules[caller] for caller in self.callers)
        return replace(self, hooks=hooks, callers=callers)


def twin_modules(model: nn.Module, twin: nn.Module) -> dict[nn.Module, nn.Module]:
    """The modules of another model of the same class and configuration, by those of a model."""
    modules = dict(twin.named_modules())
    return {module: modules[path] for path, module in model.named_modules() if path in modules}


@contextmanager
def ready_to_show(model: Any, attention: str = EAGER) -> Iterator[None]:
    """Puts a model in eval mode, with attention that returns the weights it applies; undone after.

    Fused kernels make room for eager attention, which is the same function. attnlab's mechanisms
    stay and return their implied matrices; attention that a user registered stays as it is.

    Args:
        model: a transformers model.
        attention: the name of another that is the same function.
    """
    fused = [config for config in _configurations(model) if _is_plain(config)]
    names = [config._attn_implementation_internal for config in fused]  # noqa: SLF001 - see below
    try:
        for config in fused:
            # Some models, such as Falcon, heed the name but refuse `set_attn_implementation`.
            config._attn_implementation_internal = attention  # noqa: SLF001
        with eval_mode(model), always_returning_weights(model), _weights_for_scores(model):
            yield
    finally:
        for config, name in zip(fused, names, strict=True):
            config._attn_implementation_internal = name  # noqa: SLF001


@contextmanager
def _weights_for_scores(model: Any) -> Iterator[None]:
    """While the block runs, attention of ProphetNet returns weights; by itself it returns masked scores.

    In its decoder rows of the streams that predict stand behind those of the stream that reads the target;
    the first rows are kept, whose self-attention is what the decoder returns too.
    """
    modules = [part for part in model.modules() if type(part).__name__ == "ProphetNetAttention"]
    predicted = getattr(model.config, "ngram", 0)
    before = [vars(module).get("forward") for module in modules]

    def show(forward: Callable[..., Any]) -> Callable[..., Any]:
        def weights_too(*args: Any, **named: Any) -> Any:
            mixed, scores = forward(*args, **named)
            if scores is None:
                return mixed, None
            streams = 1 if named.get("key_value_states") is None else 1 + predicted
            return mixed, scores[:, :, : scores.shape[2] // streams].softmax(-1)

        return weights_too

    for module in modules:
        module.forward = show(module.forward)
    try:
        yield
    finally:
        for module, forward in zip(modules, before, strict=True):
            del module.forward
            if forward is not None:
                module.forward = forward


def _configurations(model: nn.Module) -> list[Any]:
    """The configurations of a model and of its parts, each once."""
    configurations: dict[int, Any] = {}
    waiting = [part.config for part in model.modules() if isinstance(part, PreTrainedModel)]
    while waiting:
        config = waiting.pop()
        if config is not None and id(config) not in configurations:
            configurations[id(config)] = config
            waiting += [getattr(config, name, None) for name in config.sub_configs]
    return list(configurations.values())


def _is_plain(config: Any) -> bool:
    """Whether attention is a softmax that transformers or a kernel computes."""
    name = str(getattr(config, "_attn_implementation", None))
    # Kernels from the hub are named by their repository.
    return name == EAGER or name in FUSED_KERNELS or "/" in name


def attention_name(model: Any) -> str:
    """The name under which transformers knows the attention that stands in `model`."""
    return str(getattr(model.config, "_attn_implementation", None) or "eager")


def attentions_of(outputs: Any, *, causal: bool) -> dict[Site, tuple[Any, ...]]:
    """Attention weights among the outputs of a model, by site; sites without any are left out."""
    named: dict[Site, Any] = {
        "encoder": getattr(outputs, "encoder_attentions", None),
        "decoder": getattr(outputs, "decoder_attentions", None),
        "cross": getattr(outputs, "cross_attentions", None),
    }
    alone = getattr(outputs, "attentions", None)
    if alone is not None:
        named["decoder" if causal else "encoder"] = alone
    return {site: tuple(weights) for site, weights in named.items() if weights}


def find(model: Any, run: Callable[[], Any]) -> AttentionSites:
    """The hooks of `model`, found by one forward pass on a few tokens.

    The weights among the model's outputs are looked for in what every module returned; the innermost
    module that returned the same numbers gets the hook. Nothing is known of class or attribute names.

    Args:
        model: in eval mode.
        run: calls the model with `output_attentions=True` on one sentence without padding.

    Raises:
        InputError: the model has no attention weights to show.
    """
    seen: list[Returned] = []
    calls: Counter[nn.Module] = Counter()

    def note(module: nn.Module, _: Any, output: Any) -> None:
        if isinstance(output, tuple):
            seen.extend(
                Returned(module, calls[module], index, part)
                for index, part in enumerate(output)
                if isinstance(part, Tensor) and part.ndim == 4
            )
        calls[module] += 1

    # Before any other hook: transformers collects outputs through hooks of its own.
    handles = [module.register_forward_hook(note, prepend=True) for module in model.modules()]
    try:
        outputs = run()
    finally:
        for handle in handles:
            handle.remove()
    alone = getattr(outputs, "attentions", None)
    decodes = alone is not None and len(alone) > 0 and _reads_back(model, alone[0])
    returned = attentions_of(outputs, causal=decodes)
    shown = {
        site: layers
        for site, layers in returned.items()
        if all(isinstance(weights, Tensor) and weights.ndim == 4 for weights in layers)
    }
    if not shown:
        msg = (
            f"{type(model).__name__} with '{attention_name(model)}' attention does not return "
            "attention weights [batch, head, query, key], so its heads cannot be analyzed; hand in "
            "a model with softmax attention."
        )
        raise InputError(msg)
    hooks = _numbered(model, _matched(shown, seen))
    numbers: dict[Site, tuple[int, ...]] = {
        site: tuple(hook.layer for hook in hooks if hook.site == site) or tuple(range(len(weights)))
        for site, weights in shown.items()
    }
    return AttentionSites(
        layers=numbers,
        heads=max(weights.shape[1] for layers in shown.values() for weights in layers),
        hooks=hooks,
        causal=frozenset({"decoder"}),
        heads_of={
            (site, layer): weights.shape[1]
            for site, layers in shown.items()
            for layer, weights in zip(numbers[site], layers, strict=True)
        },
        unread=tuple(site for site in returned if site not in shown),
    )


def _reads_back(model: nn.Module, weights: Tensor) -> bool:
    """Whether the one stack that was called is a decoder; `weights` are those of its first layer.

    Of an encoder-decoder without translations it is the encoder. A mechanism that looks back alone
    makes no decoder of an encoder, so what modules say of themselves comes before what they showed.
    """
    if getattr(model.config, "is_encoder_decoder", False):
        return False
    sites = {at.site for at, _ in mechanisms_in(model)}
    declared = {
        module.is_causal
        for module in model.modules()
        if isinstance(vars(module).get("is_causal"), bool)
    }
    if sites:
        return "decoder" in sites
    if len(declared) == 1:
        return declared == {True}
    return not bool(weights.triu(1).any())


def _matched(
    shown: Mapping[Site, tuple[Tensor, ...]], seen: Sequence[Returned]
) -> tuple[AttentionHook, ...]:
    hooks = []
    used: set[int] = set()
    for site, layers in shown.items():
        for layer, weights in enumerate(layers):
            # The very tensor first: T5's cross-attention returns a bias of zeros beside its weights, which
            # are zeros too where no head attends.
            for entry in sorted(
                seen, key=lambda entry: entry.part.data_ptr() != weights.data_ptr()
            ):
                if entry.part.data_ptr() not in used and torch.equal(entry.part, weights):
                    used.add(entry.part.data_ptr())
                    hooks.append(AttentionHook(site, layer, entry.module, entry.slot, entry.call))
                    break
            else:
                return ()
    return tuple(hooks)


def _numbered(model: nn.Module, hooks: Sequence[AttentionHook]) -> tuple[AttentionHook, ...]:
    """Hooks of layers that were counted, with the model's own numbers of these, see `layer_numbers`."""
    numbered: list[AttentionHook] = []
    for site in dict.fromkeys(hook.site for hook in hooks):
        site_hooks = [hook for hook in hooks if hook.site == site]
        calls: dict[nn.Module, list[int]] = {}
        for hook in site_hooks:
            calls.setdefault(hook.module, []).append(hook.call)
        numbers = layer_numbers(model, [*calls])
        # A module that attends more often than it is listed serves layers without numbers (ALBERT).
        if numbers and all(len(numbers[module]) == len(calls[module]) for module in calls):
            site_hooks = [
                replace(hook, layer=numbers[hook.module][calls[hook.module].index(hook.call)])
                for hook in site_hooks
            ]
        numbered += site_hooks
    return tuple(numbered)


@contextmanager
def opened(hooks: tuple[AttentionHook, ...], receive: Receiver) -> Iterator[None]:
    """Hands each layer's weights to `receive` in one forward pass, and lets the model forget them.

    Raises:
        AttnlabError: a module returned something else than on the first pass.
    """
    by_module: dict[nn.Module, dict[int, AttentionHook]] = {}
    for hook in hooks:
        by_module.setdefault(hook.module, {})[hook.call] = hook

    def attach(hooked: nn.Module, by_call: Mapping[int, AttentionHook]) -> Any:
        calls = count()

        def take(module: nn.Module, _: Any, output: Any) -> Any:
            hook = by_call.get(next(calls))
            if hook is None:
                return output
            weights = output[hook.index] if isinstance(output, tuple) else None
            if not isinstance(weights, Tensor) or weights.ndim != 4:
                msg = (
                    f"{hook.site} layer {hook.layer}: {type(module).__name__} returned no attention "
                    "weights on a later batch; report this model to attnlab."
                )
                raise AttnlabError(msg)
            receive(hook.site, hook.layer, weights)
            return (*output[: hook.index], None, *output[hook.index + 1 :])

        return hooked.register_forward_hook(take, prepend=True)

    handles = [attach(module, by_call) for module, by_call in by_module.items()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def watched(sites: AttentionSites, receive: CallReceiver) -> Iterator[None]:
    """Hands what each layer calls its attention function with to `receive` in one forward pass.

    The model must be ready to show the attention that is named `watched_as`.

    Raises:
        AttnlabError: a layer called none.
    """
    by_caller: dict[nn.Module, dict[int, AttentionHook]] = {}
    for hook, caller in zip(sites.hooks, sites.callers, strict=True):
        by_caller.setdefault(caller, {})[hook.call] = hook
    calls: Counter[nn.Module] = Counter()

    def watch(module: nn.Module, call: AttentionCall) -> None:
        hook = by_caller.get(module, {}).pop(calls[module], None)
        calls[module] += 1
        if hook is not None:
            receive(hook.site, hook.layer, call)

    with watching(watch):
        yield
    for left in by_caller.values():
        for hook in left.values():
            msg = (
                f"{hook.site} layer {hook.layer}: {type(hook.module).__name__} called no attention "
                "function on a later batch; report this model to attnlab."
            )
            raise AttnlabError(msg)
