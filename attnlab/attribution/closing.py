"""Taking heads out of a model for good, so that what is saved no longer holds them."""

from collections.abc import Iterable

import torch
from torch import nn

from attnlab.addresses import Head
from attnlab.attribution.projections import Projections
from attnlab.errors import AttnlabError


def close_heads(projections: Projections, heads: Iterable[Head]) -> None:
    """Sets the columns of the output projection that read each head to 0, in place.

    ::

        MultiHead(X) = [head_1 ... head_h] W_O,   rows of W_O that belong to a closed head = 0

    (`torch.nn.Linear` stores W_O transposed, so the rows are columns of its weight.) The layer then
    gives what ablation by `zero` gives, without a hook; its bias stays.

    Raises:
        AttnlabError: a projection is no `torch.nn.Linear`, so its columns are not known.
    """
    for head in heads:
        projection = projections[head.site, head.layer]
        module = projection.module
        if not isinstance(module, nn.Linear):
            msg = (
                f"{head.site} layer {head.layer}: heads can be closed for good in torch.nn.Linear "
                f"only, not in {type(module).__name__}."
            )
            raise AttnlabError(msg)
        with torch.no_grad():
            module.weight.unflatten(1, (projection.heads, -1))[:, head.head] = 0.0


def closed_heads(projections: Projections) -> list[Head]:
    """The heads that `close_heads` has closed: no column that reads them holds anything but 0."""
    found = []
    for (site, layer), projection in projections.items():
        module = projection.module
        # Other classes, of quantized weights say, may not store a column for every input.
        if type(module) is nn.Linear:
            parts = module.weight.detach().unflatten(1, (projection.heads, -1))
            closed = (parts == 0).all(-1).all(0).nonzero().flatten().tolist()
            found += [Head(site, layer, head) for head in closed]
    return found
