"""Finds where a model's attention weights come by, and refuses models whose weights are no use."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from attnlab.addresses import SITES, Site
from attnlab.attention.bridge.installing import mechanisms_in
from attnlab.attention.mechanism import Mechanism
from attnlab.errors import InputError
from attnlab.extraction.batches import Encoding, Sentence, most_positions
from attnlab.extraction.forward import forward
from attnlab.extraction.taps import Plumbing, attentions_of, find, ready_to_show
from attnlab.extraction.weights import TOLERANCES


def probe(
    model: Any, encoding: Encoding, sites: Sequence[str] | None
) -> tuple[Plumbing, tuple[Site, ...]]:
    """The taps of the model, and the sites to look at: those wanted, None for all.

    Raises:
        InputError: a site that the model or the sentences lack, or weights that are no
            probabilities or depend on padding.
    """
    with ready_to_show(model), torch.inference_mode():
        plumbing = _plumbing(model, encoding)
        wanted = _wanted(sites, plumbing, model, encoding)
        _refuse_other_than_probabilities(model, wanted)
        _refuse_weights_that_read_padding(model, encoding, plumbing)
    return plumbing, wanted


def _plumbing(model: Any, encoding: Encoding) -> Plumbing:
    axes = encoding.axes([few_tokens(encoding)], model.device)
    return find(model, lambda: forward(model, axes, with_weights=True))


def few_tokens(encoding: Encoding) -> Sentence:
    """A sentence to try a model on; source and target differ in length to tell the sites apart."""
    first = encoding.sentences[0]
    target = None if first.target is None else (first.target * 5)[:5]
    return Sentence(0, (first.source * 3)[:3], target)


def _wanted(
    sites: Sequence[str] | None, plumbing: Plumbing, model: Any, encoding: Encoding
) -> tuple[Site, ...]:
    if sites is None:
        return tuple(site for site in SITES if site in plumbing.layers)
    for site in sites:
        if site not in plumbing.layers:
            lacking = model.config.is_encoder_decoder and not encoding.paired
            reason = (
                "the sentences have no translations" if lacking else "the model has no such site"
            )
            msg = (
                f"Site '{site}' cannot be analyzed, since {reason}; "
                f"choose from: {', '.join(plumbing.layers)}."
            )
            raise InputError(msg)
    return tuple(site for site in SITES if site in sites)


def _refuse_other_than_probabilities(model: Any, wanted: Sequence[Site]) -> None:
    """Raises where rows of the matrix that a mechanism applies are no distributions over keys."""
    others = {
        at.site: part.name
        for at, mechanism in mechanisms_in(model)
        for part in mechanism.modules()
        if isinstance(part, Mechanism) and not part.traits.stochastic and at.site in wanted
    }
    if others:
        site, name = next(iter(others.items()))
        rest = ", ".join(site for site in wanted if site not in others)
        msg = (
            f"The rows of the matrix that '{name}' applies in the {site} are no probabilities over "
            "keys, so its heads cannot be analyzed; "
            f"{f'choose other sites: {rest}' if rest else 'analyze a model with another mechanism'}."
        )
        raise InputError(msg)


def _refuse_weights_that_read_padding(model: Any, encoding: Encoding, plumbing: Plumbing) -> None:
    """Raises where the weights of a short sentence change beside a longer one in the batch.

    Convolutions over tokens (ConvBERT) and landmarks (Nystromformer) do that.
    """
    first = encoding.sentences[0]
    short = Sentence(0, first.source[:3], first.target and first.target[:5])
    most = most_positions(model.config)
    target = first.target and (first.target[:5] * 3)[:most]
    long = Sentence(1, (first.source[:3] * 3)[:most], target)

    def weights(sentences: list[Sentence]) -> dict[Site, tuple[Tensor, ...]]:
        outputs = forward(model, encoding.axes(sentences, model.device), with_weights=True)
        return attentions_of(outputs, causal="decoder" in plumbing.layers)

    beside, again = weights([short, long]), weights([short])
    for site, layers in weights([short]).items():
        for alone, padded, repeated in zip(layers, beside[site], again[site], strict=True):
            queries, keys = alone.shape[2:]
            change = (padded[:1, :, :queries, :keys] - alone).abs().amax().item()
            # Weights that change by themselves, as with dropout that is active, are refused later on.
            if change > TOLERANCES.get(alone.dtype, 1e-4) and torch.equal(alone, repeated):
                msg = (
                    f"The attention weights of {type(model).__name__} depend on the padding of the "
                    f"batch (by up to {change:.2g} in the {site}), so its heads cannot be analyzed."
                )
                raise InputError(msg)
