"""Scores of every head against patterns of keys, beside the controls of claims."""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from attnlab.core import Head
from attnlab.evaluation import (
    LeftOut,
    PatternReading,
    Patterns,
    gold_texts,
    notes_on_texts,
)
from attnlab.labels import HIT, PatternCounts, PatternFigures
from attnlab.models import Source
from attnlab.questions.detect.question import ABOVE_BAR, PATTERNS, QUESTION, DetectSettings
from attnlab.results import Result


def score_patterns(source: Source, settings: DetectSettings) -> Result:
    """How often every head of the model at `source` hits each pattern of the settings.

    Raises:
        InputError: no such model or sentences, or no pattern that some row of the texts can meet.
    """
    model, texts, reading = gold_texts(source, settings)
    patterns, unread = settings.read
    reader = PatternReading(settings, reading, texts, patterns)
    met, counts, refused = reader.counted(dict.fromkeys(reading.sites, patterns), unread)
    controls = reader.controls(met) if settings.controls else {}
    table = pd.DataFrame(_rows(met, counts, controls))
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
            *reader.notes,
        ),
        weights=model.weights,
    )


def _rows(
    patterns: Patterns, counts: PatternCounts, controls: dict[str, PatternCounts]
) -> Iterator[dict[str, Any]]:
    """A row per head and pattern; intervals of all of them hold together (Bonferroni)."""
    heads = {
        (pattern, site, layer): range(hits.denominator.shape[1])
        for (pattern, site, layer), hits in counts.hits.items()
        if pattern in patterns.get(site, ())
    }
    level = 1 - 0.05 / sum(map(len, heads.values()))
    for site, site_patterns in patterns.items():
        for pattern in site_patterns:
            figures = PatternFigures(pattern, site, counts, controls, level)
            for layer in sorted(figures.hits):
                for number in heads[pattern, site, layer]:
                    yield figures.cells(Head(site, layer, number))[0]
