"""Which heads of a model are closed for good, so that what they look at changes nothing."""

import torch
from torch import nn

from attnlab.ablation.ablation import closed_heads
from attnlab.ablation.projections import Layer, find_projections
from attnlab.core.addresses import Head
from attnlab.core.errors import AttnlabError
from attnlab.reading.batches import forward
from attnlab.reading.capture import Reading
from attnlab.reading.hooks import few_tokens, ready_to_show


def closed_among(reading: Reading) -> tuple[Head, ...]:
    """The closed heads of the sites that are read, as a pruned run has them."""
    model, encoding = reading.model, reading.encoding
    attentions: dict[Layer, nn.Module] = {
        (tap.site, tap.layer): tap.module
        for tap in reading.plumbing.taps
        if tap.site in reading.sites
    }
    axes = encoding.axes([few_tokens(encoding)], model.device)
    with ready_to_show(model), torch.inference_mode():
        try:
            found = find_projections(
                model, attentions, lambda: forward(model, axes, with_weights=True)
            )
        except AttnlabError:
            # Heads are closed in output projections, so a model without known ones has none closed.
            return ()
    return tuple(closed_heads(found))
