"""How well each attention mechanism stands in for full attention, head by head, at equal budgets."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from attnlab.devices import usable_device
from attnlab.extraction.batches import Encoding, encode
from attnlab.extraction.observing import Observed, additive_sites, observe, sites_of
from attnlab.notes import Note
from attnlab.options import options_of
from attnlab.representations import OneLine
from attnlab.studies.comparison.candidates import left_out
from attnlab.studies.comparison.learning import (
    Learned,
    Measured,
    SiteTypes,
    training_texts,
    types_of_site,
)
from attnlab.studies.comparison.notes import MechanismLeftOut, WhatBoundsAre
from attnlab.studies.comparison.scores import Scores
from attnlab.studies.comparison.settings import ComparisonSettings
from attnlab.studies.sources import load_subject
from attnlab.translation.runs.folder import refuse_without_sentences
from attnlab.translation.runs.run import Source


@dataclass(frozen=True, repr=False)
class Comparison(OneLine):
    """Tables of one comparison.

    Attributes:
        heads: one row per site, budget, mechanism and head, means over sentences, columns as in
            `attnlab.studies.comparison.columns`.
        summary: the same by mechanism, means over heads, with 95 % intervals over sentences.
        sentences: how many held-out sentences.
        calibration: how many training sentences.
        lengths: mean number of queries and of keys of the held-out sentences, by site.
        notes: how to read the tables and what was left out, see `attnlab.reporting.notes`.
        weights: checksum of the weights of the run that was studied; None for other models.
    """

    heads: pd.DataFrame
    summary: pd.DataFrame
    sentences: int
    calibration: int
    lengths: dict[str, tuple[int, int]]
    notes: tuple[Note, ...]
    weights: str | None


@options_of(ComparisonSettings)
def compare(source: Source, settings: ComparisonSettings) -> Comparison:
    """Every mechanism against the model's full attention, on held-out sentences.

    Queries, keys and values are the model's own; nothing is trained. Tables of sigma and the fixed
    pattern of each head are learned on training sentences alone; those that are held out too are
    left out. Each mechanism has the size at which rows of the held-out sentences see most keys within the
    budget, counted, and nothing else of these sentences chooses; `keys_over_budget` says by how much a
    row differs from the budget. The model reads training sentences once and held-out ones twice; memory
    does not grow with the number of sentences.

    Args:
        source: a run or its folder, a transformers folder, the name of a model on the hub, or a pair
            (model, tokenizer).
        settings: as keyword arguments.

    Raises:
        InputError: a budget below 5, no sentences, a site that is lacking, or a model that cannot
            be compared.
    """
    device = usable_device(settings.device)
    sentences, text = settings.sentences, settings.text
    if text is None and isinstance(sentences, int) and isinstance(source, str | Path):
        refuse_without_sentences(source, "text, a file with a sentence on each line")
    subject = load_subject(source, sentences=sentences, text=text)
    run, model = subject.run, subject.model.to(device)
    held_out = encode(model, subject.tokenizer, subject.texts)
    before = training_texts(source, subject, settings)
    learning = encode(model, subject.tokenizer, before)
    chosen = sites_of(model, held_out, settings.sites)
    chosen = sites_of(model, learning, chosen)
    levels = list(dict.fromkeys(settings.budgets))
    additive = additive_sites(model)
    by_site = {
        site: types_of_site(site, run, held_out, learning, additive=site in additive)
        for site in chosen
    }

    def pass_over(what: str, texts: Encoding, receive: Callable[[Observed], None]) -> None:
        progress = settings.progress
        tell = None if progress is None else (lambda done, total: progress(what, done, total))
        observe(model, texts, chosen, receive, batch_size=settings.batch_size, progress=tell)

    learned = Learned(by_site, levels)
    pass_over("calibrating", learning, learned.add)
    pass_over("counting keys", held_out, learned.count)
    measured = Measured(
        by_site, learned.candidates(), Scores([s.number for s in held_out.sentences])
    )
    pass_over("measuring", held_out, measured.add)
    return Comparison(
        measured.scores.heads(),
        measured.scores.summary(settings.seed),
        len(held_out.sentences),
        len(learning.sentences),
        {site: (one.statistics.queries, one.statistics.keys) for site, one in by_site.items()},
        _notes(by_site, held_out, learning),
        subject.weights,
    )


def _notes(
    by_site: Mapping[str, SiteTypes], held_out: Encoding, learning: Encoding
) -> tuple[Note, ...]:
    """How to read the rows, and what was left out: mechanisms by site, sentences of both parts."""
    notes: list[Note] = [WhatBoundsAre()]
    notes += [
        MechanismLeftOut(site, name, reason)
        for site, types in by_site.items()
        for name, reason in left_out(site, additive=types.statistics.additive).items()
    ]
    for part, encoding in (("held-out", held_out), ("training", learning)):
        notes += [replace(dropped, part=part) for dropped in encoding.dropped]
    return tuple(notes)
