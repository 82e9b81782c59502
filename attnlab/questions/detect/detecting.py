"""Scores of every head as what the literature calls it, with controls; and how far detectors agree."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Int
from torch import Tensor

from attnlab.ablation import rank_agreement
from attnlab.core import HEAD_KEYS, Column, InputError, Note, options_of, site_order
from attnlab.evaluation import (
    Texts,
    model_and_texts,
    notes_on_training,
    notes_on_unknown,
)
from attnlab.labels import MODEL, SHUFFLED, UNTRAINED, untrained_twin
from attnlab.models import Model, Run, Source, model_of
from attnlab.questions.detect.head_scores import Scores, emitted, figures, only_emitted
from attnlab.questions.detect.learned_gates import learned_gates
from attnlab.questions.detect.pattern_scores import score_patterns
from attnlab.questions.detect.planted import (
    Planted,
    Side,
    Targets,
    copied,
    needles,
    repeated,
    room,
    sides_of_model,
)
from attnlab.questions.detect.question import (
    AGREEMENT,
    COPY,
    DETECTORS,
    FEWEST_CONTEXT,
    FEWEST_COUNTED,
    GATE,
    GATE_UNTRAINED,
    MOST_OF_TEXT,
    NEEDLE,
    OUTSIDE,
    QUESTION,
    TABLE,
    Detector,
    DetectSettings,
    FewCopied,
    FewEmitted,
    NoPairs,
    Shortened,
)
from attnlab.reading import Reading, prepare, read_sentences, source_of, tokens_of
from attnlab.results import Result


@options_of(DetectSettings)
def detect(source: Source, settings: DetectSettings) -> Result:
    """Scores of every head of the model at `source` as what the literature calls heads, or for patterns.

    Self-attention is scored on random tokens that are read twice (previous token, duplicate token, induction;
    Olsson et al. 2022), decoders on texts with a needle (weight outside first and recent keys, after Xiao et
    al. 2024; retrieval, Wu et al. 2024), cross-attention on words that a translation takes over unchanged.
    Beside each score stand those of an untrained model and of shuffled texts. With patterns, sets of keys for
    each query, it is counted on sentences how often a head's largest weight lies in each, beside the controls
    of `attnlab.claim`.

    Args:
        source: a run or its folder, a transformers folder, the name of a model on the hub, or a pair (model,
            tokenizer). A loaded run or a pair is used on the device where it is.
        settings: as keyword arguments.

    Returns:
        The tables `detectors` (a row per head; NaN where a detector does not apply at its site) and
        `agreement` (a row per pair of detectors of a site: rank correlation over heads). It takes a pass
        over each text for the model, one for the untrained twin and one for shuffled texts. With patterns
        the table `patterns` alone (a row per head and pattern).

    Raises:
        InputError: no such model or sentences, sentences for an encoder, which has no use for them without
            patterns, no head to score, or no pattern that some row of the texts can meet.
    """
    if settings.patterns:
        return score_patterns(source, settings)
    loaded = model_of(source)
    loaded.move_to_named(settings.device, source)
    task = _Asked(loaded, settings)
    scored = [*_on_generated(task), *_on_pairs(task)]
    if not scored:
        msg = f"There is nothing to score in {loaded.label}; choose other sites, or give sentence pairs."
        raise InputError(msg)
    frames = [frame for scores in scored for frame in _frames(scores)] + task.gates
    heads = reduce(partial(pd.merge, how="outer", on=list(HEAD_KEYS)), frames)
    heads = heads.sort_values(
        list(HEAD_KEYS), key=lambda keys: keys.map(site_order) if keys.name == "site" else keys
    ).reset_index(drop=True)
    heads = heads[[name for name in TABLE if name in heads]]
    return Result(
        QUESTION.name,
        f"Detectors of head types in {loaded.label}",
        {"detectors": heads, "agreement": _agreement(heads, settings.seed)},
        {**loaded.facts, **loaded.history, **task.about},
        (*notes_on_training(loaded), *task.notes),
        task.details,
        weights=loaded.weights,
    )


@dataclass
class _Asked:
    """The model, and what is found out about its texts on the way."""

    model: Model
    settings: DetectSettings
    notes: list[Note] = field(default_factory=list)
    about: dict[str, str] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)
    gates: list[pd.DataFrame] = field(default_factory=list)

    def __post_init__(self) -> None:
        seed, controls = self.model.seed, self.settings.controls
        self.twin = untrained_twin(self.model.model, seed) if controls else None

    @property
    def given(self) -> bool:
        """Whether sentences were handed in."""
        mine = self.settings
        return bool(mine.text or mine.corpus) or not isinstance(mine.sentences, int)

    def texts(self) -> Texts:
        """The sentences that were handed in, or those of a run."""
        mine = self.settings
        return model_and_texts(
            self.model, sentences=mine.sentences, text=mine.text, corpus=mine.corpus, pair=mine.pair
        )[1]

    def wants(self, site: str) -> bool:
        """Whether a site is to be scored."""
        return self.settings.sites is None or site in self.settings.sites

    def used(self, what: str, most: int, context: int | None = None) -> int:
        """The number that a setting asks for, or `most` where that is less."""
        requested = int(getattr(self.settings, what))
        if most < requested:
            self.notes.append(Shortened(what, requested, most, context))
        return min(requested, most)

    def reading(self, planted: Planted) -> Reading:
        """The model ready to read planted texts."""
        memory, sites = self.settings.memory, list(planted.targets)
        return prepare(self.model, planted.sentences, sites, memory=memory, whole=False)

    def scored(
        self,
        what: str,
        planted: Planted,
        shuffled: Planted | None = None,
        targets: Targets | None = None,
    ) -> "_Scored":
        """Scores beside those of the controls; `targets` are of the model alone."""
        reading = self.reading(planted)
        model_targets = planted.targets if targets is None else targets
        scores = {MODEL: self._score(what, reading, model_targets)}
        if self.twin is not None:
            twin = reading.by(self.twin)
            scores[UNTRAINED] = self._score(f"{what}, untrained", twin, planted.targets)
        if shuffled is not None:
            mixed = self.reading(shuffled)
            scores[SHUFFLED] = self._score(f"{what}, shuffled", mixed, shuffled.targets)
        return scores

    def _score(self, what: str, reading: Reading, targets: Targets) -> Scores:
        scores, settings = Scores(targets), self.settings
        reading.feed([scores], batch_size=settings.batch_size, progress=settings.telling(what))
        return scores


# Of the model, and of the controls that there are.
_Scored = dict[str, Scores]


def _generator(settings: DetectSettings) -> torch.Generator:
    return torch.Generator().manual_seed(settings.seed)


def _on_generated(task: _Asked) -> Iterator[_Scored]:
    """Scores of self-attention."""
    model, settings = task.model, task.settings
    every = sides_of_model(model)
    sides = [side for side in every if task.wants(side.site)]
    if not sides:
        return
    space = room(model, every)
    if space < FEWEST_CONTEXT:
        msg = (
            f"{model.label} has room for {space} ordinary tokens; detectors need {FEWEST_CONTEXT}."
        )
        raise InputError(msg)
    types = min(len(side.types) for side in every)
    tokens = task.used("tokens", min(space // 2, types))
    twice, mixed = (
        repeated(model, every, settings.sequences, tokens, _generator(settings), shuffle=shuffle)
        for shuffle in (False, True)
    )
    chosen = {side.site for side in sides}
    task.about["Random sequences"] = f"{settings.sequences} of {tokens} tokens that are read twice"
    yield task.scored(
        "Repeated tokens", _at(twice, chosen), _at(mixed, chosen) if settings.controls else None
    )
    if sides[-1].site == "decoder":
        yield _on_needles(task, every, space)
    elif settings.gate_steps:
        msg = "Gates are learned for heads of a decoder, and there is none; leave gate_steps out."
        raise InputError(msg, options=["gate_steps"])
    elif task.given and not model.model.config.is_encoder_decoder:
        msg = "Sentences are for needles of language models and pairs of encoder-decoders; leave them out."
        raise InputError(msg)


def _at(planted: Planted, sites: set[str]) -> Planted:
    """What is planted at these sites."""
    kept = {site: texts for site, texts in planted.targets.items() if site in sites}
    return Planted(planted.sentences, kept)


def _on_needles(task: _Asked, sides: Sequence[Side], space: int) -> _Scored:
    """Scores of a decoder on texts with needles."""
    model, settings = task.model, task.settings
    two = model.model.config.is_encoder_decoder
    context = task.used("context", space)
    share = min(1.0, MOST_OF_TEXT * context / (settings.first + settings.recent))
    first, recent = (
        task.used(name, max(1, round(share * getattr(settings, name))), context)
        for name in ("first", "recent")
    )
    haystack = None if two or not task.given else _haystack(task)
    planted = needles(
        model,
        sides,
        settings.sequences,
        context,
        window=(first, recent),
        generator=_generator(settings),
        haystack=haystack,
    )
    around = "random tokens" if haystack is None else f"{len(haystack):,} tokens of the sentences"
    task.about["Needles"] = f"{settings.sequences} in texts of {context} tokens, among {around}"
    task.about["Window"] = f"first {first} and recent {recent} keys"
    if settings.gate_steps:
        _learn_gates(task, planted, (first, recent))
    rows = (
        None if two else emitted(task.reading(planted), planted, NEEDLE.name, settings.batch_size)
    )
    if rows is None:
        outside = [{OUTSIDE.name: text[OUTSIDE.name]} for text in planted.targets["decoder"]]
        return task.scored("Texts with needles", Planted(planted.sentences, {"decoder": outside}))
    count, total = sum(int(hits.sum()) for hits in rows), sum(map(len, rows))
    task.details["emitted"] = [count, total]
    if 2 * count < total:
        task.notes.append(FewEmitted(count, total))
    targets = only_emitted(planted, NEEDLE.name, rows)
    return task.scored("Texts with needles", planted, targets=targets)


def _learn_gates(task: _Asked, planted: Planted, window: tuple[int, int]) -> None:
    """Adds the gate of each head of the decoder, and that of the untrained model."""
    mine, tell, reading = task.settings, task.settings.progress, task.reading(planted)

    def frame(column: Column, what: str, reading: Reading) -> pd.DataFrame:
        by_layer = learned_gates(
            reading,
            planted,
            window,
            steps=mine.gate_steps,
            penalty=mine.gate_penalty,
            batch_size=mine.batch_size,
            progress=lambda done, total: None if tell is None else tell(what, done, total),
        )
        rows = [
            ("decoder", layer, head, gate)
            for layer, gates in by_layer.items()
            for head, gate in enumerate(gates.tolist())
        ]
        return pd.DataFrame(rows, columns=[*HEAD_KEYS, column.name])

    task.about["Gates"] = f"learned in {mine.gate_steps} steps of up to {mine.batch_size} texts"
    task.gates.append(frame(GATE, "Learning gates", reading))
    if task.twin is not None:
        twin = reading.by(task.twin)
        task.gates.append(frame(GATE_UNTRAINED, "Learning gates, untrained", twin))


def _haystack(task: _Asked) -> Int[Tensor, " token"]:
    """The tokens of the sentences that were handed in, one after another."""
    texts = list(map(source_of, task.texts().texts))
    made = tokens_of(task.model.both_tokenizers.source, texts)
    ids = [
        i for text in made for i, special in zip(text.ids, text.special, strict=True) if not special
    ]
    return torch.tensor(ids)


def _on_pairs(task: _Asked) -> Iterator[_Scored]:
    """Scores of cross-attention."""
    model, mine = task.model, task.settings
    if not model.model.config.is_encoder_decoder or not task.wants("cross"):
        return
    if not task.given and not isinstance(model, Run):
        task.notes.append(NoPairs())
        return
    pairs = task.texts()
    read = read_sentences(model, pairs.texts, pairs.origin)
    task.notes += [*pairs.notes, *read.dropped, *notes_on_unknown({"": read})]
    if not read.paired:
        task.notes.append(NoPairs())
        return
    planted = copied(model, read)
    tokens = sum(len(text[COPY.name].rows) for text in planted.targets["cross"])
    task.about["Sentence pairs"] = f"{len(read)} from {read.origin}, {tokens} copied tokens"
    if tokens < FEWEST_COUNTED:
        task.notes.append(FewCopied(tokens))
    mixed = copied(model, read, shuffle=True) if mine.controls else None
    yield task.scored("Sentence pairs", planted, mixed)


def _frames(scored: _Scored) -> Iterator[pd.DataFrame]:
    """A table of heads for each detector."""
    layers = scored[MODEL].sums
    names = {name for sums in layers.values() for name in sums}
    for detector in DETECTORS:
        if detector.name in names:
            tables = [_frame(scored, detector, *layer) for layer in layers]
            yield _compared(pd.concat(tables, ignore_index=True), detector)


def _frame(scored: _Scored, detector: Detector, site: str, layer: int) -> pd.DataFrame:
    """The figures of a detector for the heads of a layer, with what tells them from the controls."""
    name, estimate = detector.name, detector.estimate

    def of(scores: Scores) -> np.ndarray:
        sums, totals = scores.sums[site, layer][name], scores.totals(site, name)
        return figures(sums, totals, share=detector in (NEEDLE, COPY)).T.numpy()

    measured = of(scored[MODEL])
    columns: dict[str, Any] = {"site": site, "layer": layer, "head": range(measured.shape[1])}
    columns |= dict(zip((estimate.name, estimate.low, estimate.high), measured, strict=True))
    columns["rows"] = int(scored[MODEL].totals(site, name).sum())
    if SHUFFLED in scored and detector.shuffled:
        columns[detector.control], _, columns["bar"] = of(scored[SHUFFLED])
    if UNTRAINED in scored:
        untrained = scored[UNTRAINED]
        columns[detector.untrained] = (
            untrained.sums[site, layer][name].sum(1) / untrained.totals(site, name).sum()
        ).numpy()
    return pd.DataFrame(columns)


def _compared(table: pd.DataFrame, detector: Detector) -> pd.DataFrame:
    """The table with whether a head is above its controls, where there are any."""
    if detector.untrained in table:
        bar = table.groupby("site")[detector.untrained].transform("max")
        if "bar" in table:
            bar = bar.clip(lower=table["bar"])
        low = table[detector.estimate.low]
        above = ((low > bar) & (table["rows"] >= FEWEST_COUNTED)).astype("boolean")
        # Without an interval of the head or of its control nothing is known.
        decided = low.notna() & (table["bar"].notna() if "bar" in table else True)
        table = table.assign(**{detector.above: above.where(decided)})
    return table.drop(columns=["rows", "bar"], errors="ignore")


def _agreement(heads: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Rank correlations of the detectors of each site."""
    tables = []
    for site, table in heads.groupby("site", sort=False):
        used = [one for one in DETECTORS if one.name in table and table[one.name].notna().any()]
        columns = [detector.estimate.column for detector in used] + [GATE] * (GATE.name in table)
        measures = pd.DataFrame({column.heading: table[column.name] for column in columns})
        tables.append(rank_agreement(measures, seed=seed).assign(site=site))
    # The columns of a table without rows have a type of their own.
    filled = [part for part in tables if len(part)] or tables
    return pd.concat(filled, ignore_index=True)[list(AGREEMENT)]
