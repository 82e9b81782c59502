"""How well each attention mechanism stands in for full attention, head by head, at equal budgets."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from jaxtyping import Int
from torch import Tensor

from attnlab.addresses import Side, sides_of
from attnlab.errors import InputError
from attnlab.extraction.batches import Encoding, Sentence, Text, encode
from attnlab.extraction.devices import usable_device
from attnlab.extraction.observing import Observed, observe, sites_of
from attnlab.options import options_of
from attnlab.representations import OneLine
from attnlab.studies.comparison.candidates import (
    Candidate,
    LayerCalibration,
    SiteStatistics,
    candidates,
    left_out,
)
from attnlab.studies.comparison.scores import Scores
from attnlab.studies.comparison.settings import ComparisonSettings
from attnlab.studies.sources import (
    Subject,
    load_subject,
    read_texts,
    type_counts_of,
)
from attnlab.translation.runs.folder import refuse_without_sentences
from attnlab.translation.runs.run import Run

Source = str | Path | tuple[Any, Any]


HOW_TO_READ = (
    "An oracle is the best of its own kind (top-k: of single keys, sigma oracle: of a window and two "
    "columns), not of all; rows of global tokens see every key, so on short sentences Longformer and "
    "BigBird see more than the budget (visible_keys in summary.csv)."
)


@dataclass(frozen=True, repr=False)
class Comparison(OneLine):
    """Tables of one comparison.

    Attributes:
        heads: one row a site, budget, mechanism and head: `mass_fraction`, the share of full
            attention that stands on the pairs the mechanism sees (NaN where it has no support);
            `output_error`, |X V - H V| / |H V| over a sentence (Frobenius norms); `visible_keys` a
            row; all mean over sentences. `multiply_adds` of a head at mean length.
        summary: the same by mechanism, mean over heads, with 95% intervals over sentences.
        sentences: how many held-out sentences.
        calibration: how many training sentences.
        lengths: mean number of queries and of keys of the held-out sentences, by site.
        notes: what was left out, in words.
    """

    heads: pd.DataFrame
    summary: pd.DataFrame
    sentences: int
    calibration: int
    lengths: dict[str, tuple[int, int]]
    notes: tuple[str, ...]


@options_of(ComparisonSettings)
def compare(source: Source, settings: ComparisonSettings) -> Comparison:
    """Every mechanism against the model's full attention, on held-out sentences.

    Queries, keys and values are the model's own; nothing is trained. Tables of sigma and the fixed
    pattern of each head are learned on training sentences alone; those that are held out too are
    left out. The model reads each set once; memory does not grow with the number of sentences.

    Args:
        source: a run folder, a transformers folder, the name of a model on the hub, or a pair
            (model, tokenizer).
        settings: as keyword arguments.

    Raises:
        InputError: a budget below 5, no sentences, a site that is lacking, or a model that cannot
            be compared.
    """
    device = usable_device(settings.device)
    sentences, text = settings.sentences, settings.text
    if text is None and isinstance(sentences, int) and isinstance(source, str | Path):
        refuse_without_sentences(source, "--text FILE (a sentence on each line)")
    subject = load_subject(source, sentences=sentences, text=text)
    run, model = subject.run, subject.model.to(device)
    held_out = encode(model, subject.tokenizer, subject.texts)
    before = _training(source, subject, settings)
    learning = encode(model, subject.tokenizer, before)
    chosen = sites_of(model, held_out, settings.sites)
    chosen = sites_of(model, learning, chosen)
    levels = list(dict.fromkeys(settings.budgets))
    by_site = {site: _types_of(site, run, held_out, learning) for site in chosen}

    def pass_over(what: str, texts: Encoding, receive: Callable[[Observed], None]) -> None:
        progress = settings.progress
        tell = None if progress is None else (lambda done, total: progress(what, done, total))
        observe(model, texts, chosen, receive, batch_size=settings.batch_size, progress=tell)

    learned = _Learned(by_site, levels)
    pass_over("calibrating", learning, learned.add)
    measured = _Measured(
        by_site, learned.candidates(), Scores([s.number for s in held_out.sentences])
    )
    pass_over("measuring", held_out, measured.add)
    return Comparison(
        measured.scores.heads(),
        measured.scores.summary(settings.seed),
        len(held_out.sentences),
        len(learning.sentences),
        {site: (one.statistics.queries, one.statistics.keys) for site, one in by_site.items()},
        _notes(chosen, held_out, learning),
    )


@dataclass(frozen=True)
class _SiteTypes:
    """A site, and its token types numbered from 0: the few that occur stand for the vocabulary."""

    statistics: SiteStatistics
    types: Int[Tensor, " type"]

    def numbered(self, layer: Observed) -> Observed:
        """The layer with the numbers of its token types; padding gets any."""
        places = torch.searchsorted(self.types.to(layer.token_ids.device), layer.token_ids)
        return replace(layer, token_ids=places.clamp(max=len(self.types) - 1))


class _Learned:
    """What every layer did on training sentences."""

    def __init__(self, by_site: dict[str, _SiteTypes], budgets: Sequence[int]) -> None:
        self.by_site, self.budgets = by_site, budgets
        self.layers: dict[tuple[str, int], LayerCalibration] = {}

    def add(self, layer: Observed) -> None:
        types_of_site, key = self.by_site[layer.site], (layer.site, layer.layer)
        if key not in self.layers:
            self.layers[key] = LayerCalibration(types_of_site.statistics, self.budgets)
        self.layers[key].add(types_of_site.numbered(layer))

    def candidates(self) -> dict[tuple[str, int], list[tuple[int, Candidate]]]:
        """Every budget's candidates, by site and layer."""
        return {
            (site, layer): [
                (budget, candidate)
                for budget in self.budgets
                for candidate in candidates(budget, self.by_site[site].statistics, learned)
            ]
            for (site, layer), learned in self.layers.items()
        }


@dataclass(frozen=True)
class _Measured:
    """Measures each layer's candidates on what it did on held-out sentences."""

    by_site: dict[str, _SiteTypes]
    candidates: dict[tuple[str, int], list[tuple[int, Candidate]]]
    scores: Scores

    def add(self, layer: Observed) -> None:
        numbered = self.by_site[layer.site].numbered(layer)
        for budget, candidate in self.candidates[layer.site, layer.layer]:
            self.scores.add(candidate, budget, numbered)


def _source(text: Text) -> str:
    return text if isinstance(text, str) else text[0]


def _training(source: Source, subject: Subject, settings: ComparisonSettings) -> Sequence[Text]:
    """The first training sentences that are not held out too."""
    wanted, path = settings.calibration, settings.calibration_text
    count, texts = (wanted, ()) if isinstance(wanted, int) else (len(wanted), tuple(wanted))
    if not isinstance(wanted, int):
        pass
    elif path is not None:
        run = subject.run
        texts = read_texts(path, lowercase=run is not None and run.settings.corpus.lowercase)
    elif subject.corpus is not None:
        rows = subject.corpus().train
        chosen = rows.select(range(min(2 * count, len(rows))))
        texts = tuple(zip(chosen["source"], chosen["target"], strict=True))
    else:
        name = "A model without a folder" if isinstance(source, tuple) else source
        msg = f"{name} brings no training sentences; add --calibration-text FILE."
        raise InputError(msg)
    held_out = set(map(_source, subject.texts))
    found = [text for text in texts if _source(text) not in held_out][:count]
    if not found:
        msg = "There is no training sentence that is not held out too; give others."
        raise InputError(msg)
    return found


def _types_of(site: str, run: Run | None, held_out: Encoding, learning: Encoding) -> _SiteTypes:
    """The site with the types that occur in its keys, and how often each does in training text."""
    held, before = ([_ids(site, s) for s in e.sentences] for e in (held_out, learning))
    types = torch.tensor(sorted({token for _, ids in [*held, *before] for token in ids}))
    if run is not None:
        counts = type_counts_of(run)[site == "decoder"][types]
    else:
        tokens = torch.tensor([token for _, ids in before for token in ids])
        counts = torch.bincount(tokens, minlength=int(types.max()) + 1)[types]
    queries, keys = (
        max(1, round(sum(len(side[part]) for side in held) / len(held))) for part in (0, 1)
    )
    longest = max(len(ids) for _, ids in [*held, *before])
    return _SiteTypes(SiteStatistics(site, counts, queries, keys, longest), types)


def _ids(site: str, sentence: Sentence) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Ids of the queries and of the keys of one sentence."""
    pair: dict[Side, tuple[int, ...]] = {"source": sentence.source}
    if sentence.target is not None:
        pair["target"] = sentence.target
    return sides_of(site, pair)


def _notes(sites: Sequence[str], held_out: Encoding, learning: Encoding) -> tuple[str, ...]:
    """How to read the rows, and what was left out: mechanisms by site, sentences by reason."""
    notes = [HOW_TO_READ]
    notes += [
        f"{site}: {name} is left out, since {reason}."
        for site in sites
        for name, reason in left_out(site).items()
    ]
    for which, encoding in (("held-out", held_out), ("training", learning)):
        notes += [
            f"{count} {which} sentences were not used: {reason}."
            for reason, count in encoding.dropped.items()
        ]
    return tuple(notes)
