"""Whether a model attends to what its configuration says; as a result, and as an assertion for tests."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from typing import Any

import pandas as pd
import torch
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from attnlab.ablation import Layer, projections_of
from attnlab.attention import (
    AttentionAt,
    attention_modules,
    model_with_layer_types,
    plan_of,
    use,
)
from attnlab.core import (
    SITES,
    AttnlabError,
    InputError,
    Note,
    options_of,
    reason,
    seeded,
)
from attnlab.models import Model, Source, model_of
from attnlab.questions.check.expectations import Expected, expected_of, reads_back
from attnlab.questions.check.findings import Finding, every_layer
from attnlab.questions.check.moved_rows import LayerAt, layers_of
from attnlab.questions.check.probing import (
    DOUBLE,
    MORE,
    SINGLE,
    STOPS,
    Precision,
    Probe,
    compared,
    computing_in,
    last_states,
    of_precision,
    probe_of,
)
from attnlab.questions.check.question import (
    ABILITIES,
    FEWEST_TOKENS,
    PROPERTIES,
    QUESTION,
    CheckSettings,
    SinglePrecision,
    WiderThanTokens,
)
from attnlab.questions.check.whole_model import PADDING, whole_model
from attnlab.reading import (
    Sentence,
    Sentences,
    Vocabulary,
    most_positions,
    readable_sites,
    ready_to_show,
)
from attnlab.results import Result


def abilities(probe: Probe, layers: Iterable[LayerAt]) -> pd.DataFrame:
    """A row per attention layer; layers that cannot be told apart count as those of the model's lists."""
    tries = {
        "captured": lambda: _captured(probe, unreadable),
        "ablated": lambda: _ablated(probe),
        "replaced": lambda: _replaced(probe),
        "exported": lambda: _exported(probe),
    }
    unreadable: dict[Layer, str] = {}
    by_ability: dict[str, set[Layer]] = {}
    reasons: dict[str, str] = {}
    for name, attempt in tries.items():
        try:
            by_ability[name] = attempt()
        except (AttnlabError, *STOPS) as error:
            by_ability[name] = set()
            expected = isinstance(error, AttnlabError)
            reasons[name] = str(error) if expected else f"It cannot be {name} ({reason(error)})."
    every = set().union(*by_ability.values(), unreadable) or {(at.site, at.layer) for at in layers}
    rows = []
    for site, layer in sorted(every, key=lambda layer: (SITES.index(layer[0]), layer[1])):
        able = {name: (site, layer) in by_ability[name] for name in tries}
        why = [f"{unreadable[site, layer]}."] if (site, layer) in unreadable else []
        why += [reasons[name] for name in tries if not able[name] and name in reasons]
        rows.append({"site": site, "layer": layer, **able, "reason": " ".join(dict.fromkeys(why))})
    return pd.DataFrame(rows, columns=list(ABILITIES))


def _run(probe: Probe) -> Callable[[], Any]:
    mask = torch.ones_like(probe.ids if probe.source is None else probe.source)[None]
    given: dict[str, Any] = {"attention_mask": mask, "output_attentions": True}
    return lambda: probe.call(probe.ids[None], **given)


def _captured(probe: Probe, unreadable: dict[Layer, str]) -> set[Layer]:
    """The layers that `attnlab.capture` reads; why it does not read others is put into `unreadable`."""
    with ready_to_show(probe.model):
        sites, why = readable_sites(probe.model, _sentences(probe))
    every: set[Layer] = {(site, layer) for site, layers in sites.layers.items() for layer in layers}
    unreadable |= {at: why[at[0]] for at in every if at[0] in why}
    return every - {*unreadable}


def _sentences(probe: Probe) -> Sentences:
    """The drawn ids as sentences, of a vocabulary without words."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel

    inner = Tokenizer(WordLevel({}, ""))
    words = Vocabulary(PreTrainedTokenizerFast(tokenizer_object=inner))
    words.padding = probe.padding
    ids = tuple(probe.ids.tolist())
    source = ids if probe.source is None else tuple(probe.source.tolist())
    sentence = Sentence(0, source, None if probe.source is None else ids)
    return Sentences((), (sentence,), (), words, words, len(source))


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
    return {layer for at in attention_modules(probe.model) for layer in _layers(at)}


def _layers(at: AttentionAt) -> set[Layer]:
    return {(at.site, layer) for layer in at.layers}


FEW_TOKENS, MOST_TOKENS = 24, 1_040
# Behind the edge of the widest window.
_MARGIN = 8


@options_of(CheckSettings)
def check(source: Source | nn.Module, settings: CheckSettings) -> Result:
    """Whether the model at `source` attends to what its configuration says.

    A layer is run twice on what enters it, the second time changed at one position: the rows that move
    are those of the queries that read it. This is repeated for positions all over the text, with what
    stands before the layer held still, so that windows of layers do not add up. Of the whole model
    a token is changed, and the text is read with padding, packed, with a cache, and by other kernels
    of attention. Weights may be random; token ids are drawn. Everything is computed in float64, and the
    model is left as it was.

    What runs is the `forward` of `model.base_model`, such as `model.model` of a language model, and of the
    modules in it. That of the class around it, which scores tokens, does not run: nothing is said of masks or
    positions that a class of your own makes there.

    Args:
        source: a transformers model, alone or in a pair (model, tokenizer), a run or its folder, a
            transformers folder, or the name of a model on the hub.
        settings: as keyword arguments.

    Returns:
        The tables `properties` (a row per layer for the keys that it reads, and one per property of the whole
        model) and `abilities` (a row per attention layer). With n tokens it takes about 2 n passes.

    Raises:
        InputError: no such model, it does not read tokens, has other outputs each time, or the device cannot
            be used; a module of torch that is no model of transformers.
    """
    if isinstance(source, nn.Module) and not isinstance(source, PreTrainedModel):
        msg = f"{type(source).__name__} is no model of transformers; give the one that is in it."
        raise InputError(msg)
    loaded = (
        Model(source, None)
        if isinstance(source, nn.Module)
        else model_of(source, scores=False, tokenizes=False)
    )
    model = loaded.model
    loaded.move_to_named(settings.device, source)
    with torch.no_grad(), seeded(settings.seed):
        try:
            rows, able, notes = _checked(model, settings, DOUBLE)
        except (RuntimeError, TypeError) as error:
            if not of_precision(error):
                raise
            rows, able, notes = _checked(model, settings, SINGLE)
    table = pd.DataFrame(map(asdict, rows))[list(PROPERTIES)].astype(
        {"layer": "Int64", "distance": "Int64", "change": float}
    )
    return Result(
        QUESTION.name,
        f"What {loaded.label} attends to",
        {"properties": table, "abilities": able},
        {**loaded.facts},
        notes,
        weights=loaded.weights,
    )


def assert_attends(source: Source | nn.Module, **settings: Any) -> None:
    """Raises an AssertionError where `check` finds a mismatch, for test suites.

    Args:
        source: as of `check`.
        settings: as of `check`.

    Raises:
        AssertionError: a property of the model is not as its configuration says; one sentence names it.
        InputError: as of `check`.
    """
    from attnlab.questions.check.view import mismatches

    faults = mismatches(check(source, **settings))
    if faults:
        more = f" ({len(faults) - 1} more like this)" if len(faults) > 1 else ""
        raise AssertionError(f"{faults[0].removesuffix('.')}{more}.")


def _checked(
    model: Any, settings: CheckSettings, precision: Precision
) -> tuple[list[Finding], pd.DataFrame, tuple[Note, ...]]:
    with computing_in(model, precision.dtype):
        causal = reads_back(model)
        _check_windows(model, causal)
        limit = _most_tokens(model)
        if settings.tokens is not None and settings.tokens > limit:
            msg = (
                f"tokens must be at most {limit}, not {settings.tokens}: the model has no more positions, "
                "and some are needed for padding and a next token."
            )
            raise InputError(msg)
        tokens = settings.tokens or _tokens_for(model, causal)
        probe = probe_of(model, tokens, settings.seed)
        ids = probe.ids[None]
        if not torch.equal(probe.states(ids), probe.states(ids)):
            msg = f"{type(model).__name__} gives other states each time, so that nothing can be compared."
            raise InputError(msg)
        layers = layers_of(probe, causal=causal)
        rows = [
            *every_layer(probe, layers, precision, settings.seed, causal),
            *whole_model(probe, precision, causal),
        ]
        able = abilities(probe, layers)
    return rows, able, tuple(_notes(model, tokens, causal, precision))


def _tokens_for(model: Any, causal: bool | None) -> int:
    """The number of tokens that shows what is beyond the widest window, where that is not too much.

    One that the configuration names counts where all layers are full, since they may heed it all the same.
    """
    named = getattr(model.config.get_text_config(), "sliding_window", None)
    widths = [*_windows(model, causal), named if isinstance(named, int) else 0]
    widest = max((width for width in widths if width + _MARGIN <= MOST_TOKENS), default=0)
    return max(FEWEST_TOKENS, min(_most_tokens(model), max(FEW_TOKENS, widest + _MARGIN)))


def _most_tokens(model: Any) -> int:
    """The most tokens of a text that padding and more tokens are put beside."""
    return most_positions(model.config.get_text_config()) - MORE - PADDING


def _check_windows(model: Any, causal: bool | None) -> None:
    """Raises InputError for a sliding window in which no query reads any key."""
    windows = (expected.window for expected in _expected(model, causal))
    if any(window is not None and window < 0 for window in windows):
        msg = (
            f"The sliding_window in the configuration of {type(model).__name__} is below 1, so that its "
            "layers read no key; set it to 1 or more, or to None for full attention."
        )
        raise InputError(msg)


def _windows(model: Any, causal: bool | None) -> Iterator[int]:
    """How many keys away each layer leaves something unread, as the configuration says."""
    return (expected.reach for expected in _expected(model, causal))


def _expected(model: Any, causal: bool | None) -> Iterator[Expected]:
    """What each layer reads, as the configuration says."""
    config = model.config.get_text_config()
    for part in (config, *(getattr(config, name, None) for name in config.sub_configs)):
        layers = len(
            getattr(part, "layer_types", None) or getattr(part, "attention_layers", None) or [0]
        )
        for layer in range(layers if part is not None else 0):
            yield expected_of(part, layer, layers, causal=causal)


def _notes(model: Any, tokens: int, causal: bool | None, precision: Precision) -> Iterator[Note]:
    widest = max(_windows(model, causal), default=0)
    if widest >= tokens - 1:
        yield WiderThanTokens(tokens, widest)
    if precision is SINGLE:
        yield SinglePrecision()
