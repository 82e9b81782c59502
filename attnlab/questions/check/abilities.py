"""What attnlab can do with each attention layer: read it, switch its heads off, replace and export it."""

from collections.abc import Callable, Iterable
from typing import Any

import pandas as pd
import torch

from attnlab.ablation import Layer, projections_of
from attnlab.attention import (
    AttentionAt,
    attention_modules,
    model_with_layer_types,
    plan_of,
    use,
)
from attnlab.core import SITES, AttnlabError, InputError, reason
from attnlab.questions.check.moved_rows import LayerAt
from attnlab.questions.check.probing import STOPS, Probe, compared, last_states
from attnlab.questions.check.question import ABILITIES
from attnlab.reading import find, ready_to_show


def abilities(probe: Probe, layers: Iterable[LayerAt]) -> pd.DataFrame:
    """A row per attention layer; layers that cannot be told apart count as those of the model's lists."""
    tries = {
        "captured": lambda: _captured(probe),
        "ablated": lambda: _ablated(probe),
        "replaced": lambda: _replaced(probe),
        "exported": lambda: _exported(probe),
    }
    found: dict[str, set[Layer]] = {}
    reasons: dict[str, str] = {}
    for name, attempt in tries.items():
        try:
            found[name] = attempt()
        except (AttnlabError, *STOPS) as error:
            found[name] = set()
            told = isinstance(error, AttnlabError)
            reasons[name] = str(error) if told else f"It cannot be {name} ({reason(error)})."
    every = set().union(*found.values()) or {(at.site, at.layer) for at in layers}
    rows = []
    for site, layer in sorted(every, key=lambda one: (SITES.index(one[0]), one[1])):
        able = {name: (site, layer) in found[name] for name in tries}
        why = dict.fromkeys(reasons[name] for name in tries if not able[name] and name in reasons)
        rows.append({"site": site, "layer": layer, **able, "reason": " ".join(why)})
    return pd.DataFrame(rows, columns=list(ABILITIES))


def _run(probe: Probe) -> Callable[[], Any]:
    mask = torch.ones_like(probe.ids if probe.source is None else probe.source)[None]
    given: dict[str, Any] = {"attention_mask": mask, "output_attentions": True}
    return lambda: probe.call(probe.ids[None], **given)


def _captured(probe: Probe) -> set[Layer]:
    with ready_to_show(probe.model):
        sites = find(probe.model, _run(probe))
    return {(site, layer) for site, layers in sites.layers.items() for layer in range(layers)}


def _ablated(probe: Probe) -> set[Layer]:
    return set(projections_of(probe.model, _run(probe)))


def _replaced(probe: Probe) -> set[Layer]:
    """The layers where full attention of attnlab was put, if the model reads the same with it.

    Raises:
        InputError: it does not, or nothing can be put there.
    """
    ids = probe.ids[None]
    before = probe.states(ids)
    with use(probe.model, "full"):
        after = last_states(probe.call(ids))
    change, same = compared(before, after)
    if not same:
        msg = f"With full attention of attnlab in its place the states change by {change:.2g} of the largest."
        raise InputError(msg)
    return _every_layer(probe)


def _exported(probe: Probe) -> set[Layer]:
    """The layers for which a band was written into the configuration of a copy, if it reads as the plan.

    Raises:
        InputError: transformers alone cannot run it.
    """
    layers = _every_layer(probe)
    model_with_layer_types(probe.model, plan_of({site: "band(window=1)" for site, _ in layers}))
    return layers


def _every_layer(probe: Probe) -> set[Layer]:
    return {one for at in attention_modules(probe.model) for one in _layers(at)}


def _layers(at: AttentionAt) -> set[Layer]:
    return {(at.site, layer) for layer in at.layers}
