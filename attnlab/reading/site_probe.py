"""Which attention of a model can be read, found on a few tokens: sites, hooks, and the calls behind them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from attnlab.attention import (
    WATCHED,
    AttentionCall,
    Mechanism,
    asks_interface,
    mechanisms_in,
    watching,
)
from attnlab.core import SITES, InputError, Side, Site, sides_of
from attnlab.reading.calling import encoded, forward
from attnlab.reading.hooks import (
    AttentionHook,
    AttentionSites,
    attentions_of,
    find,
    opened,
    ready_to_show,
)
from attnlab.reading.sentences import Sentence, Sentences, most_positions, reads_audio
from attnlab.reading.vocabulary import Axis
from attnlab.reading.weights import TOLERANCES


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
