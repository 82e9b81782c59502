"""Whether a model attends to what its configuration says; as a result, and as an assertion for tests."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import nn

from attnlab.core import InputError, Note, options_of, seeded, usable_device
from attnlab.evaluation import versions_in_words
from attnlab.models import Model, Source, model_of
from attnlab.questions.check.abilities import abilities
from attnlab.questions.check.expectations import expected_of, reads_back
from attnlab.questions.check.findings import Finding, every_layer
from attnlab.questions.check.moved_rows import layers_of
from attnlab.questions.check.probing import (
    DOUBLE,
    MORE,
    SINGLE,
    Precision,
    computing_in,
    of_precision,
    probe_of,
)
from attnlab.questions.check.question import (
    FEWEST_TOKENS,
    PROPERTIES,
    QUESTION,
    CheckSettings,
    SinglePrecision,
    WiderThanTokens,
)
from attnlab.questions.check.whole_model import PADDING, whole_model
from attnlab.reading import most_positions
from attnlab.results import Result

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

    Args:
        source: a transformers model, alone or in a pair (model, tokenizer), a run or its folder, a
            transformers folder, or the name of a model on the hub.
        settings: as keyword arguments.

    Returns:
        The tables `properties` (a row per layer for the keys that it reads, and one per property of the whole
        model) and `abilities` (a row per attention layer). With n tokens it takes about 2 n passes.

    Raises:
        InputError: no such model, it does not read tokens, has other outputs each time, or the device cannot
            be used.
    """
    loaded = (
        Model(source, None)
        if isinstance(source, nn.Module)
        else model_of(source, scores=False, tokenizes=False)
    )
    model = loaded.model
    if isinstance(source, str | Path):
        model.to(usable_device(settings.device))
    with torch.no_grad(), seeded(settings.seed):
        try:
            rows, able, notes = _checked(model, settings, DOUBLE)
        except (RuntimeError, TypeError) as error:
            if not of_precision(error):
                raise
            rows, able, notes = _checked(model, settings, SINGLE)
    table = pd.DataFrame(map(asdict, rows))[list(PROPERTIES)].astype(
        {"layer": "Int64", "change": float}
    )
    return Result(
        QUESTION.name,
        f"What {loaded.label} attends to",
        {"properties": table, "abilities": able},
        {**loaded.facts, **versions_in_words()},
        notes,
        weights=loaded.weights,
    )


def assert_attends(source: Source | nn.Module, **settings: Any) -> None:
    """Nothing where `check` finds no mismatch, for test suites.

    Args:
        source: as of `check`.
        settings: as of `check`.

    Raises:
        AssertionError: a property of the model is not as its configuration says; one sentence names it.
        InputError: as of `check`.
    """
    from attnlab.questions.check.view import mismatches

    found = mismatches(check(source, **settings))
    if found:
        more = f" ({len(found) - 1} more like this)" if len(found) > 1 else ""
        raise AssertionError(f"{found[0].removesuffix('.')}{more}.")


def _checked(
    model: Any, settings: CheckSettings, precision: Precision
) -> tuple[list[Finding], pd.DataFrame, tuple[Note, ...]]:
    with computing_in(model, precision.dtype):
        causal = reads_back(model)
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
    """Enough to see beyond the widest window, where that is not too much."""
    widest = max(
        (width for width in _windows(model, causal) if width + _MARGIN <= MOST_TOKENS), default=0
    )
    return max(FEWEST_TOKENS, min(_most_tokens(model), max(FEW_TOKENS, widest + _MARGIN)))


def _most_tokens(model: Any) -> int:
    """What a text may have where padding and more tokens are put beside it."""
    return most_positions(model.config.get_text_config()) - MORE - PADDING


def _windows(model: Any, causal: bool | None) -> Iterator[int]:
    config = model.config.get_text_config()
    for one in (config, *(getattr(config, name, None) for name in config.sub_configs)):
        layers = len(
            getattr(one, "layer_types", None) or getattr(one, "attention_layers", None) or [0]
        )
        for layer in range(layers if one is not None else 0):
            yield expected_of(one, layer, layers, causal=causal).reach


def _notes(model: Any, tokens: int, causal: bool | None, precision: Precision) -> Iterator[Note]:
    widest = max(_windows(model, causal), default=0)
    if widest >= tokens - 1:
        yield WiderThanTokens(tokens, widest)
    if precision is SINGLE:
        yield SinglePrecision()
