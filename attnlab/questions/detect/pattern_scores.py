"""Scores of every head against patterns of keys, beside the controls of claims."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pandas as pd

from attnlab.core import Head, InputError
from attnlab.evaluation import (
    LeftOut,
    PatternReading,
    Patterns,
    gold_texts,
    notes_on_texts,
    nothing_left,
)
from attnlab.labels import HIT, Pattern, PatternCounts, PatternFigures
from attnlab.models import Source
from attnlab.questions.detect.question import ABOVE_BAR, PATTERNS, QUESTION, DetectSettings
from attnlab.results import Result


def score_patterns(source: Source, settings: DetectSettings) -> Result:
    """How often every head of the model at `source` hits each pattern of the settings.

    Raises:
        InputError: no such model or sentences, or no pattern that some row of the texts can meet.
    """
    model, texts, reading = gold_texts(source, settings)
    asked = PatternReading(settings, reading, texts, settings.read[0])
    refused: list[tuple[str, InputError]] = [*settings.read[1]]
    every: Patterns = dict.fromkeys(map(str, reading.sites), settings.read[0])
    possible = _met(every, asked.unmet, refused)
    found = asked.counts(possible)
    met = _met(possible, partial(asked.unmet_in, found), refused)
    controls = asked.controls(met) if settings.controls else {}
    table = pd.DataFrame(_rows(met, found, controls))
    table[ABOVE_BAR.name] = (table[HIT.low] > table["bar"]).astype("boolean")
    # Without an interval nothing is known.
    table[ABOVE_BAR.name] = table[ABOVE_BAR.name].where(table[HIT.low].notna())
    read = reading.sentences
    return Result(
        QUESTION.name,
        f"Patterns of heads in {model.label}",
        {PATTERNS.name: table[[name for name in PATTERNS if name in table]]},
        {**model.facts, **model.history, "Texts": f"{len(read)} from {read.origin}"},
        (
            *notes_on_texts(model, texts, {"": read}, settings.sentences, settings.sites),
            *read.dropped,
            *(LeftOut(what, str(error)) for what, error in refused),
            *asked.notes,
        ),
        weights=model.weights,
    )


def _met(
    patterns: Patterns,
    reason: Callable[[Pattern, str], InputError | None],
    refused: list[tuple[str, InputError]],
) -> Patterns:
    """The patterns of each site that there is no reason against; one without a site is refused.

    Raises:
        InputError: none is left.
    """
    kept: dict[str, list[Pattern]] = {}
    against: dict[Pattern, list[str]] = {}
    for site, own in patterns.items():
        for pattern in own:
            error = reason(pattern, site)
            if error is None:
                kept.setdefault(site, []).append(pattern)
            else:
                against.setdefault(pattern, []).append(str(error))
    left = {pattern for own in kept.values() for pattern in own}
    refused += [
        (f"'{pattern.text}'", InputError(" ".join(errors)))
        for pattern, errors in against.items()
        if pattern not in left
    ]
    if not kept:
        raise nothing_left(refused)
    return kept


def _rows(
    patterns: Patterns, found: PatternCounts, controls: dict[str, PatternCounts]
) -> Iterator[dict[str, Any]]:
    """A row per head and pattern; intervals of all of them hold together (Bonferroni)."""
    heads = {
        (pattern, site, layer): range(hits.denominator.shape[1])
        for (pattern, site, layer), hits in found.hits.items()
        if pattern in patterns.get(site, ())
    }
    level = 1 - 0.05 / sum(map(len, heads.values()))
    for site, own in patterns.items():
        for pattern in own:
            figures = PatternFigures(pattern, site, found, controls, level)
            for layer in sorted(figures.hits):
                for number in heads[pattern, site, layer]:
                    yield figures.cells(Head(site, layer, number))[0]
