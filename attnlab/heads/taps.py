"""Where a model's attention weights come by: finds the modules that return them and takes them off."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from attnlab.errors import AttnlabError, InputError

# `unknown` is for matrices of a file, which does not say where they come from.
Site = Literal["encoder", "decoder", "cross", "unknown"]
SITES: tuple[Site, ...] = ("encoder", "decoder", "cross")
Receiver = Callable[[Site, int, Tensor], None]


def place_of(site: Site) -> int:
    """Where a site stands in tables: in the order that data flows."""
    return (*SITES, "unknown").index(site)


@dataclass(frozen=True)
class Tap:
    """One layer's weights stand at place `index` of what `module` returns."""

    site: Site
    layer: int
    module: nn.Module
    index: int


@dataclass(frozen=True)
class Plumbing:
    """Every layer that has weights, and the tap of each.

    Attributes:
        layers: number of layers by site.
        heads: most heads in one layer.
        taps: one for each layer, or empty when one could not be found; then weights are read from
            the model's outputs, all layers at once, and memory grows with the number of layers.
        causal: sites whose rows must not look ahead.
    """

    layers: Mapping[Site, int]
    heads: int
    taps: tuple[Tap, ...]
    causal: frozenset[Site]


@contextmanager
def ready_to_show(model: Any) -> Iterator[None]:
    """Puts a model in eval mode, with an attention implementation that returns weights; undone after."""
    modes = {module: module.training for module in model.modules()}
    implementation = getattr(model.config, "_attn_implementation", "eager")
    changes = implementation != "eager"
    model.eval()
    if changes:
        model.set_attn_implementation("eager")
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training
        if changes:
            model.set_attn_implementation(implementation)


def attentions_of(outputs: Any, *, causal: bool) -> dict[Site, tuple[Tensor, ...]]:
    """Weights by site from a model's outputs, sites without any left out."""
    named: dict[Site, Any] = {
        "encoder": getattr(outputs, "encoder_attentions", None),
        "decoder": getattr(outputs, "decoder_attentions", None),
        "cross": getattr(outputs, "cross_attentions", None),
    }
    alone = getattr(outputs, "attentions", None)
    if alone is not None:
        named["decoder" if causal else "encoder"] = alone
    return {site: tuple(weights) for site, weights in named.items() if weights}


def find(model: nn.Module, run: Callable[[], Any], *, causal: Callable[[Tensor], bool]) -> Plumbing:
    """The taps of `model`, found by one forward pass on a few tokens.

    The weights among the model's outputs are looked for in what every module returned; the innermost
    module that returned the same numbers is the tap. Nothing is known of class or attribute names.

    Args:
        model: in eval mode.
        run: calls the model with `output_attentions=True` on one sentence without padding.
        causal: says whether the weights of a model with one stack are those of a decoder.

    Raises:
        InputError: the model has no attention weights to show.
    """
    seen: list[tuple[nn.Module, int, Tensor]] = []

    def note(module: nn.Module, _: Any, output: Any) -> None:
        if isinstance(output, tuple):
            seen.extend(
                (module, index, part)
                for index, part in enumerate(output)
                if isinstance(part, Tensor) and part.ndim == 4
            )

    # Before any other hook: transformers collects outputs through hooks of its own.
    hooks = [module.register_forward_hook(note, prepend=True) for module in model.modules()]
    try:
        outputs = run()
    finally:
        for hook in hooks:
            hook.remove()
    alone = getattr(outputs, "attentions", None)
    decodes = alone is not None and len(alone) > 0 and causal(alone[0])
    shown = attentions_of(outputs, causal=decodes)
    if not shown or any(
        not isinstance(w, Tensor) or w.ndim != 4 for s in shown.values() for w in s
    ):
        msg = (
            f"{type(model).__name__} does not return attention weights [batch, head, query, key], "
            "so its heads cannot be analyzed; hand in a model with softmax attention."
        )
        raise InputError(msg)
    return Plumbing(
        layers={site: len(weights) for site, weights in shown.items()},
        heads=max(weights.shape[1] for layers in shown.values() for weights in layers),
        taps=_matched(shown, seen),
        causal=frozenset({"decoder"}),
    )


def _matched(
    shown: Mapping[Site, tuple[Tensor, ...]], seen: list[tuple[nn.Module, int, Tensor]]
) -> tuple[Tap, ...]:
    taps = []
    used: set[int] = set()
    for site, layers in shown.items():
        for layer, weights in enumerate(layers):
            for module, index, part in seen:
                if part.data_ptr() not in used and torch.equal(part, weights):
                    used.add(part.data_ptr())
                    taps.append(Tap(site, layer, module, index))
                    break
            else:
                return ()
    return tuple(taps)


@contextmanager
def opened(taps: tuple[Tap, ...], receive: Receiver) -> Iterator[None]:
    """Hands each layer's weights to `receive` as they come by, and lets the model forget them.

    Raises:
        AttnlabError: a module returned something else than on the first pass.
    """

    def attach(tap: Tap) -> Any:
        def hook(module: nn.Module, _: Any, output: Any) -> tuple[Any, ...]:
            weights = output[tap.index] if isinstance(output, tuple) else None
            if not isinstance(weights, Tensor) or weights.ndim != 4:
                msg = (
                    f"{tap.site} layer {tap.layer}: {type(module).__name__} returned no attention "
                    "weights on a later batch; report this model to attnlab."
                )
                raise AttnlabError(msg)
            receive(tap.site, tap.layer, weights)
            return (*output[: tap.index], None, *output[tap.index + 1 :])

        return tap.module.register_forward_hook(hook, prepend=True)

    hooks = [attach(tap) for tap in taps]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
