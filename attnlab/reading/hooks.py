"""Modules whose outputs hold attention weights, by site and layer: found, and their weights taken off."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from attnlab.attention import (
    WATCHED,
    AttentionCall,
    Mechanism,
    always_returning_weights,
    asks_interface,
    layer_numbers,
    mechanisms_in,
    watching,
)
from attnlab.core import SITES, AttnlabError, InputError, Side, Site, sides_of
from attnlab.reading.calling import encoded, forward
from attnlab.reading.sentences import Sentence, Sentences, most_positions, reads_audio
from attnlab.reading.vocabulary import Axis
from attnlab.reading.weights import TOLERANCES

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

    def has_sink(self, site: Site, layer: int) -> bool:
        """Whether rows of a layer sum to less than 1, since a learned sink takes the rest."""
        return any(hook.has_sink for hook in self.hooks if (hook.site, hook.layer) == (site, layer))

    def moved(self, model: nn.Module, twin: nn.Module) -> "AttentionSites":
        """The hooks of another model of the same class and configuration."""
        paths = {module: path for path, module in model.named_modules()}
        modules = dict(twin.named_modules())
        hooks = tuple(replace(hook, module=modules[paths[hook.module]]) for hook in self.hooks)
        callers = tuple(modules[paths[caller]] for caller in self.callers)
        return replace(self, hooks=hooks, callers=callers)


@contextmanager
def ready_to_show(model: Any, attention: str = EAGER) -> Iterator[None]:
    """Puts a model in eval mode, with attention that returns the weights it applies; undone after.

    Fused kernels make room for eager attention, which is the same function. attnlab's mechanisms
    stay and return their implied matrices; attention that a user registered stays as it is.

    Args:
        model: a transformers model.
        attention: the name of another that is the same function.
    """
    modes = {module: module.training for module in model.modules()}
    fused = [config for config in _configurations(model) if _is_plain(config)]
    names = [config._attn_implementation_internal for config in fused]  # noqa: SLF001 - see below
    model.eval()
    try:
        for config in fused:
            # Some models, such as Falcon, heed the name but refuse `set_attn_implementation`.
            config._attn_implementation_internal = attention  # noqa: SLF001
        with always_returning_weights(model), _weights_for_scores(model):
            yield
    finally:
        for module, training in modes.items():
            module.training = training
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


def with_callers(model: Any, sentences: Sentences, attention: AttentionSites) -> AttentionSites:
    """The attention sites with the modules whose queries and keys give the weights that the hooks return.

    Both are computed of a few tokens and compared, with padding and without, so a model that computes
    weights in another way gets no callers; neither does one that computes any inside its own modules.
    """
    if not all(any(map(asks_interface, hook.module.modules())) for hook in attention.hooks):
        return attention
    short, long = _short_and_long(sentences, model.config)
    with torch.inference_mode():
        with ready_to_show(model):
            trials = [
                encoded(model, sentences.axes(batch, model.device))
                for batch in ([few_tokens(sentences)], [short, long])
            ]
        shown = [_shown(model, axes, attention) for axes in trials]
        for name in WATCHED:
            called = [_calls(model, axes, name) for axes in trials]
            callers = [
                _caller(hook, list(zip(trials, shown, called, strict=True)))
                for hook in attention.hooks
            ]
            complete = tuple(caller for caller in callers if caller is not None)
            if len(complete) == len(callers):
                biased = any(call.bias is not None for call in called[0].values())
                return replace(attention, callers=complete, watched_as=name, biased=biased)
    return attention


Calls = Mapping[tuple[nn.Module, int], AttentionCall]
Shown = Mapping[tuple[Site, int], Tensor]


def _shown(model: Any, axes: Mapping[Side, Axis], attention: AttentionSites) -> Shown:
    """The weights that every hook takes off in one forward pass."""
    shown: dict[tuple[Site, int], Tensor] = {}
    with (
        ready_to_show(model),
        opened(attention.hooks, lambda *at: shown.update({at[:2]: at[2]})),
    ):
        forward(model, axes, with_weights=True)
    return shown


def _calls(model: Any, axes: Mapping[Side, Axis], attention: str) -> Calls:
    """Calls of the attention function by every module in one forward pass, by the number of the call."""
    calls: Counter[nn.Module] = Counter()
    seen: dict[tuple[nn.Module, int], AttentionCall] = {}

    def note(module: nn.Module, call: AttentionCall) -> None:
        seen[module, calls[module]] = call
        calls[module] += 1

    with ready_to_show(model, attention), watching(note):
        forward(model, axes, with_weights=False)
    return seen


def _caller(
    hook: AttentionHook, trials: Sequence[tuple[Mapping[Side, Axis], Shown, Calls]]
) -> nn.Module | None:
    """The one module inside a hook's that attends with queries and keys of its weights in all trials."""
    inside = set(hook.module.modules())
    calling = {
        module
        for *_, seen in trials
        for module, call in seen
        if module in inside and call == hook.call
    }
    if len(calling) != 1:
        return None
    caller = calling.pop()
    for axes, shown, seen in trials:
        weights = shown[hook.site, hook.layer]
        real = sides_of(hook.site, axes)[0].real.to(weights.device)
        again = (
            seen[caller, hook.call]
            .of_heads()
            .weights(torch.arange(weights.shape[2]).to(weights.device))
        )
        if again.shape != weights.shape:
            return None
        # Eager attention in float64 gives NaN where windows hide all keys from padding, and then behind it.
        compared = real[:, None, :, None] & ~weights.isnan()
        change = (again - weights).masked_fill(~compared, 0.0).abs().amax()
        if not change <= TOLERANCES.get(weights.dtype, 1e-4):
            return None
    return caller


def probe(
    model: Any, sentences: Sentences, sites: Sequence[str] | None
) -> tuple[AttentionSites, tuple[Site, ...]]:
    """The hooks of the model, and the sites to look at: those wanted, None for all.

    Raises:
        InputError: a site that the model or the sentences lack, or weights that are no
            probabilities or depend on padding.
    """
    with ready_to_show(model), torch.inference_mode():
        attention, unreadable = readable_sites(model, sentences)
        sites_to_read = _check_sites(sites, attention, model, sentences)
    refused = [site for site in sites_to_read if site in unreadable]
    if refused:
        others = [site for site in SITES if site in {*attention.layers} - {*unreadable}]
        advice = "analyze another model"
        if others:
            advice = f"choose other sites: {', '.join(others)} (sites={others})"
        msg = f"{unreadable[refused[0]]}, so its heads cannot be analyzed; {advice}."
        raise InputError(msg)
    return attention, sites_to_read


def readable_sites(model: Any, sentences: Sentences) -> tuple[AttentionSites, dict[Site, str]]:
    """The hooks of a model that is ready to show, and why the weights of some sites cannot be read.

    Raises:
        InputError: the model has no weights to show, or changes its attention with the length of a text.
    """
    name = type(model).__name__
    _check_reads_all_keys(model)
    axes = encoded(model, sentences.axes([few_tokens(sentences)], model.device))
    attention = find(model, lambda: forward(model, axes, with_weights=True))
    others = _sites_without_probabilities(model)
    return attention, others | {
        site: f"{name} {why}"
        for site, why in _no_weights(model, sentences, attention).items()
        if site not in others
    }


def _check_reads_all_keys(model: Any) -> None:
    if any(getattr(part, "attention_type", None) == "block_sparse" for part in model.modules()):
        msg = (
            f"{type(model).__name__} attends to drawn blocks of keys (attention_type 'block_sparse') and, "
            "from the first short text on, to all keys, so its heads cannot be analyzed; load it with "
            'attention_type="original_full".'
        )
        raise InputError(msg)


def probe_in(model: Any, axes: Mapping[Side, Axis]) -> tuple[AttentionSites, tuple[Site, ...], Any]:
    """The hooks of a model that is ready to show, the sites that can be read, and its outputs, in one pass.

    Args:
        model: a transformers model.
        axes: a text without padding.

    Raises:
        InputError: the model has no weights to show.
    """
    _check_reads_all_keys(model)
    outputs: list[Any] = []

    def run() -> Any:
        outputs.append(forward(model, axes, with_weights=True))
        return outputs[0]

    attention = find(model, run)
    shown = attentions_of(outputs[0], causal="decoder" in attention.layers)
    others = _sites_without_probabilities(model)
    for site in attention.layers:
        sizes = tuple(axis.real.shape[1] for axis in sides_of(site, axes))
        unfit = [matrix for matrix in shown[site] if matrix.shape[2:] != sizes]
        if unfit:
            others[site] = f"{type(model).__name__} {_unfit(site, unfit[0], sizes)}"
    readable = tuple(site for site in SITES if site in {*attention.layers} - {*others})
    if not readable:
        msg = f"{next(iter(others.values()))}, so its heads cannot be shown; give another model."
        raise InputError(msg)
    return attention, readable, outputs[0]


def few_tokens(sentences: Sentences) -> Sentence:
    """A sentence to try a model on; source and target differ in length to tell the sites apart."""
    first = sentences.usable[0]
    target = None if first.target is None else (first.target * 5)[:5]
    return replace(first, number=0, source=_cut(first, 3), target=target, labels=(), types=())


def _cut(sentence: Sentence, tokens: int, times: int = 3) -> tuple[int, ...]:
    """The first tokens of a source that is repeated; audio is always as long."""
    audio = sentence.features is not None
    return sentence.source if audio else (sentence.source * times)[:tokens]


def _check_sites(
    sites: Sequence[str] | None, attention: AttentionSites, model: Any, sentences: Sentences
) -> tuple[Site, ...]:
    available = (*attention.layers, *attention.unread)
    if sites is None:
        return tuple(site for site in SITES if site in available)
    for site in sites:
        if site not in available:
            lacking = model.config.is_encoder_decoder and not sentences.paired
            reason = (
                "the sentences have no translations" if lacking else "the model has no such site"
            )
            if site == "encoder" and reads_audio(model):
                reason = "weights between all frames of audio are not read"
            msg = (
                f"Site '{site}' cannot be analyzed, since {reason}; "
                f"choose from: {', '.join(attention.layers)}."
            )
            raise InputError(msg)
    return tuple(site for site in SITES if site in sites)


def _sites_without_probabilities(model: Any) -> dict[Site, str]:
    """Sites where rows of the matrix that a mechanism applies are no distributions over keys, and why."""
    return {
        cast(
            "Site", at.site
        ): f"The rows of the matrix that '{part.name}' applies in the {at.site} are no "
        "probabilities over keys"
        for at, mechanism in mechanisms_in(model)
        for part in mechanism.modules()
        if isinstance(part, Mechanism) and not part.traits.stochastic
    }


def _short_and_long(sentences: Sentences, config: Any) -> tuple[Sentence, Sentence]:
    """A sentence of a few tokens, and one that makes it be padded."""
    first = sentences.usable[0]
    short = replace(
        first,
        number=0,
        source=_cut(first, 3, 1),
        target=first.target and first.target[:5],
        types=(),
    )
    most = most_positions(config)
    target = first.target and (first.target[:5] * 3)[:most]
    return short, replace(short, number=1, source=_cut(short, most), target=target)


def _unfit(site: Site, matrix: Tensor, sizes: tuple[int, ...]) -> str:
    """What weights that are none of a query over keys are, in words."""
    queries, keys = matrix.shape[2:]
    return f"returns {queries} x {keys} weights in the {site} for {sizes[0]} queries and {sizes[1]} keys"


def _no_weights(model: Any, sentences: Sentences, attention: AttentionSites) -> dict[Site, str]:
    """Sites whose weights are none of a query over keys, or change beside a longer text, and why.

    Longformer returns weights of a window; convolutions over tokens (ConvBERT) and landmarks (Nystromformer)
    read padding.
    """
    short, long = _short_and_long(sentences, model.config)
    why: dict[Site, str] = {
        site: f"returns no weights [head, query, key] in the {site}" for site in attention.unread
    }

    def weights(batch: list[Sentence]) -> dict[Site, tuple[Tensor, ...]]:
        axes = sentences.axes(batch, model.device)
        outputs = forward(model, axes, with_weights=True)
        every = attentions_of(outputs, causal="decoder" in attention.layers)
        shown = {site: every[site] for site in attention.layers}
        for site, layers in shown.items():
            queries, keys = sides_of(site, axes)
            sizes = (queries.real.shape[1], keys.real.shape[1])
            unfit = [matrix for matrix in layers if matrix.shape[2:] != sizes]
            if unfit:
                why[site] = _unfit(site, unfit[0], sizes)
        return shown

    alone, in_batch, again = weights([short]), weights([short, long]), weights([short])
    for site, layers in alone.items():
        for matrix, padded, repeated in zip(layers, in_batch[site], again[site], strict=True):
            if site in why:
                continue
            queries, keys = matrix.shape[2:]
            change = (padded[:1, :, :queries, :keys] - matrix).abs().amax().item()
            # Weights that change by themselves, as with dropout that is active, are refused later on.
            if change > TOLERANCES.get(matrix.dtype, 1e-4) and torch.equal(matrix, repeated):
                why[site] = (
                    "has attention weights that depend on the padding of the batch (by up to "
                    f"{change:.2g} in the {site})"
                )
    return why
