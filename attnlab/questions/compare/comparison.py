"""How well each attention mechanism stands in for full attention, head by head, at equal budgets."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from attnlab.budget.candidates import left_out
from attnlab.budget.notes import MechanismLeftOut
from attnlab.budget.scores import Scores
from attnlab.budget.sizes import Learned, Measured, SiteTypes, types_of_site
from attnlab.core.errors import InputError, Note
from attnlab.core.options import options_of
from attnlab.core.processes import usable_device
from attnlab.evaluation.sources import (
    Subject,
    first_pairs,
    load_subject,
    read_texts,
    source_in_words,
    source_of,
)
from attnlab.models.run import Source
from attnlab.models.run_folder import check_has_sentences
from attnlab.questions.compare.question import QUESTION, ComparisonSettings, WhatBoundsAre
from attnlab.reading.batches import Encoding, Text, encode
from attnlab.reading.observing import Observed, additive_sites, observe, sites_of
from attnlab.results.result import Result


@options_of(ComparisonSettings)
def compare(source: Source, settings: ComparisonSettings) -> Result:
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

    Returns:
        The tables `summary` (means over heads and sentences, with 95 % intervals over sentences) and
        `mechanisms_by_head`.

    Raises:
        InputError: a budget below 5, no sentences, a site that is lacking, or a model that cannot
            be compared.
    """
    device = usable_device(settings.device)
    sentences, text = settings.sentences, settings.text
    if text is None and isinstance(sentences, int) and isinstance(source, str | Path):
        check_has_sentences(source, "text, a file with a sentence on each line")
    subject = load_subject(source, sentences=sentences, text=text)
    model = subject.model.to(device)
    held_out = encode(model, subject.tokenizer, subject.texts)
    before = _training_texts(source, subject, settings)
    learning = encode(model, subject.tokenizer, before)
    chosen = sites_of(model, held_out, settings.sites)
    chosen = sites_of(model, learning, chosen)
    levels = list(dict.fromkeys(settings.budgets))
    additive = additive_sites(model)
    by_site = {
        site: types_of_site(
            site, subject.type_counts, held_out, learning, additive=site in additive
        )
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
    lengths = {site: (one.statistics.queries, one.statistics.keys) for site, one in by_site.items()}
    about = {
        "Held-out sentences": len(held_out.sentences),
        "Training sentences": len(learning.sentences),
        **{f"Mean tokens, {site}": f"{q} queries, {k} keys" for site, (q, k) in lengths.items()},
    }
    return Result(
        QUESTION.name,
        f"Mechanisms beside full attention of {source_in_words(source, subject.model)}",
        {
            "summary": measured.scores.summary(settings.seed),
            "mechanisms_by_head": measured.scores.heads(),
        },
        about,
        _notes(by_site, held_out, learning),
        {"mean_tokens": lengths},
        weights=subject.weights,
    )


def _training_texts(
    source: Source, subject: Subject, settings: ComparisonSettings
) -> Sequence[Text]:
    """The first training sentences that are not held out too."""
    wanted, path = settings.calibration, settings.calibration_text
    held_out = set(map(source_of, subject.texts))
    count = wanted if isinstance(wanted, int) else len(wanted)
    if not isinstance(wanted, int):
        texts = tuple(wanted)
    elif path is not None:
        run = subject.run
        texts = read_texts(path, lowercase=run is not None and run.settings.corpus.lowercase)
    elif subject.corpus is not None:
        texts = first_pairs(subject.corpus(), "train", count, without=held_out)
    else:
        name = source if isinstance(source, str | Path) else "A model without a folder"
        msg = f"{name} brings no training sentences; give calibration or calibration_text."
        raise InputError(msg)
    found = [text for text in texts if source_of(text) not in held_out][:count]
    if not found:
        msg = "There is no training sentence that is not held out too; give others."
        raise InputError(msg)
    return found


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
