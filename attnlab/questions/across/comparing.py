"""The heads of several models, or of the checkpoints of one, read on the same sentences."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from itertools import islice, starmap
from typing import Any

import pandas as pd

from attnlab.core import HEAD_COLUMNS, SITES, InputError, Note, options_of, reason, site_order
from attnlab.evaluation import (
    ABLATION_SENTENCES,
    LeftOut,
    PatternReading,
    Texts,
    changes_without_heads,
    evaluator_of,
    model_and_texts,
    notes_on_texts,
)
from attnlab.labels import (
    BORDERLINE,
    CONFIRMED,
    MASS,
    NO_ROLE,
    HeadFunctions,
    HeadStructure,
    Labeller,
    strongest_functions,
    untrained_twin,
    with_strength,
)
from attnlab.models import UNREADABLE, Model, Run, Source, model_of
from attnlab.questions.across.degree_tables import differences, formation
from attnlab.questions.across.matching import (
    MOST_TEXTS,
    KeptTexts,
    heads_of_both,
    matched,
)
from attnlab.questions.across.question import (
    ACROSS,
    DEGREES,
    DIFFERENCES,
    FORMATION,
    MATCHING,
    QUESTION,
    AcrossSettings,
    ComparedByWords,
    DamagedCheckpoint,
    NoSeeds,
    OtherShape,
)
from attnlab.reading import ALL, Coverage, Reading, Sentences, prepare, read_sentences, source_of
from attnlab.results import Result

MODEL, SEED, UNTRAINED = "model", "seed", "untrained"
# Controls are drawn with other seeds than the first weights of what is read.
CONTROL_SEED, TWINS = 1000, 3


def _one_by_one(ask: Callable[..., Result]) -> Callable[..., Result]:
    """Lets the other models follow the first one by one, as on the command line."""

    @wraps(ask)
    def call(source: Source, /, *others: Any, **options: Any) -> Result:
        listed = not others or (len(others) == 1 and isinstance(others[0], list))
        return ask(source, *(others if listed else [others]), **options)

    return call


@_one_by_one
@options_of(AcrossSettings)
def across(source: Source, settings: AcrossSettings) -> Result:
    """What the heads of several models do on the same sentences, and which head of one is which of another.

    Args:
        source: the first model: a run or its folder, a transformers folder, the name of a model on the hub
            (of a revision: name@revision), or a pair (model, tokenizer). A loaded run or a pair is used on
            the device where it is. The others follow one by one, or as a list.
        settings: as keyword arguments.

    Returns:
        The tables `across` (a row per model and head), `degrees` (per model, head, and label or pattern),
        `matching` (a row per head of each model but the first), `differences` from the first model, and of
        checkpoints instead `formation` (a row per site, and label or pattern). Each model takes a pass over
        the sentences, one for its untrained twin, one for shuffled words, and one for patterns.

    Raises:
        InputError: a single model, one that cannot be loaded, fewer than two checkpoints, sentences that
            cannot be used, or a pattern that no row of the texts can meet in a model.
    """
    settings.check_source(source)
    first, texts = model_and_texts(
        source, sentences=settings.sentences, text=settings.text, corpus=settings.corpus,
        pair=settings.pair, treebank=settings.treebank, gold=True, scores=settings.ablation,
    )  # fmt: skip
    first.move_to_named(settings.device, source)
    asked = _Asked(settings, texts, translations=first.model.config.is_encoder_decoder)
    models = asked.checkpoints(first) if settings.checkpoints else asked.models(first)
    reference, *others = starmap(asked.heads_of, models)
    compared = [one for one in others if one.of.kind != UNTRAINED]
    every = sorted([reference, *compared], key=lambda one: one.of.step or 0)
    degrees = pd.concat([one.degrees for one in every])
    matching = pd.concat([one.matching for one in compared])
    tables = {ACROSS: pd.concat([one.heads for one in every]), DEGREES: degrees, MATCHING: matching}
    seeds = [one.of.name for one in compared if one.of.kind == SEED]
    read = {"" if settings.checkpoints else one.of.name: one.sentences for one in every}
    if settings.checkpoints:
        twins = pd.concat([one.degrees for one in others if one.of.kind == UNTRAINED])
        tables[FORMATION] = formation(degrees, twins)
    else:
        tables[DIFFERENCES] = differences(degrees, matching, reference.of.name, seeds)
        asked.notes += [] if seeds else [NoSeeds()]
    return Result(
        QUESTION.name,
        f"Heads of {first.label} over its training"
        if settings.checkpoints
        else f"Heads of {', '.join(one.of.name for one in every)}",
        {
            declared.name: table.reset_index(drop=True)[
                [name for name in declared if name in table]
            ]
            for declared, table in tables.items()
        },
        {
            **first.facts,
            **first.history,
            "Texts": f"{len(reference.sentences)} from {texts.origin}",
            "Matched": f"by {settings.match}, distances on {asked.texts_matched} texts",
        },
        (
            *notes_on_texts(first, texts, read, settings.sentences, settings.sites),
            *dict.fromkeys(note for one in every for note in one.sentences.dropped),
            *dict.fromkeys(asked.notes),
        ),
        {"first": reference.of.name, "seeds": seeds},
        weights=first.weights,
    )


@dataclass(frozen=True)
class _Named:
    """A model as tables name it.

    Attributes:
        name: in tables.
        step: of its training, of a checkpoint.
        kind: a model, one of another seed, or an untrained one.
    """

    name: str
    step: int | None = None
    kind: str = MODEL


@dataclass(frozen=True)
class _HeadsRead:
    """What was read of the heads of a model; the model itself may be gone.

    Attributes:
        of: which model.
        sentences: what it read.
        heads: a row per head.
        degrees: a row per head and label or pattern.
        matching: a row per head, with the head of the first model that it is matched with.
    """

    of: _Named
    sentences: Sentences
    heads: pd.DataFrame
    degrees: pd.DataFrame
    matching: pd.DataFrame


class _Asked:
    """Reads models on the same texts.

    Args:
        settings: the options.
        texts: what is read.
        translations: whether pairs of texts are translations, which a model of one stack does not read.
    """

    def __init__(self, settings: AcrossSettings, texts: Texts, *, translations: bool) -> None:
        assert texts.gold is not None  # noqa: S101 - it was asked for
        self.settings, self.texts = settings, texts
        self.notes: list[Note] = []
        self._gold, self._translations = texts.gold, translations
        self._names: Counter[str] = Counter()
        # Checkpoints have one untrained twin.
        self._untrained: HeadFunctions | None = None
        # The matrices of the first model.
        self._first: KeptTexts | None = None
        # On how many texts heads are matched.
        self.texts_matched = MOST_TEXTS

    def models(self, first: Model) -> Iterator[tuple[_Named, Model]]:
        """The models that are named, each loaded when it is its turn."""
        yield self._named(first.label), first
        given = [(one, MODEL) for one in self.settings.others]
        for source, kind in [*given, *((one, SEED) for one in self.settings.seeds)]:
            model = model_of(source, scores=self.settings.ablation)
            model.move_to_named(self.settings.device, source)
            yield self._named(model.label, kind), model

    def _named(self, label: str, kind: str = MODEL) -> _Named:
        """A model by its label, with a number where another one has it."""
        self._names[label] += 1
        number = self._names[label]
        return _Named(label if number == 1 else f"{label} ({number})", kind=kind)

    def checkpoints(self, run: Model) -> Iterator[tuple[_Named, Model]]:
        """The last checkpoint that a run keeps, then the others, then untrained models.

        Raises:
            InputError: it is no run, or fewer than two can be read.
        """
        if not isinstance(run, Run):
            msg = (
                f"{run.label} is no run of attnlab, which alone keeps checkpoints; name its models."
            )
            raise InputError(msg)
        readable = self._readable(run)
        # Whether there are two is known before one of them is read, which takes long.
        least = [*islice(readable, 2)]
        if len(least) < 2:
            msg = (
                f"{run.label} keeps {len(least)} checkpoints that can be read, and it takes two; train a run "
                "that keeps some (attnlab train --keep-checkpoints 12)."
            )
            raise InputError(msg)
        yield from least
        yield from readable
        for seed in range(1, TWINS + 1):
            twin = untrained_twin(run.model, self.settings.seed + CONTROL_SEED + seed)
            yield _Named(f"untrained {seed}", kind=UNTRAINED), replace(run, model=twin)

    def _readable(self, run: Run) -> Iterator[tuple[_Named, Model]]:
        """The checkpoints that are not damaged, the last of them first."""
        steps = run.kept_steps
        for step in (*steps[-1:], *steps[:-1]):
            try:
                model = run.at_step(step)
            except UNREADABLE as error:
                self.notes.append(DamagedCheckpoint(step, reason(error)))
            else:
                yield _Named(f"step {step}", step), model

    def heads_of(self, one: _Named, model: Model) -> _HeadsRead:
        """What the heads of a model do."""
        settings, reading = self.settings, self._reading(model)
        asked = PatternReading(settings, reading, self.texts, settings.parsed, words=True)
        kept = KeptTexts(asked.known)
        labeller = Labeller(reading, self._gold, model.type_counts, HeadStructure(0), views=(ALL,))
        labeller.untrained = self._untrained

        def run(what: str, read: Reading, consumers: Sequence[Any]) -> Coverage:
            tell = settings.telling(f"{one.name}: {what}")
            return read.feed(consumers, batch_size=settings.batch_size, progress=tell)

        run("heads", reading, [labeller.functions, kept])
        controls = labeller.label(run, seed=settings.seed + CONTROL_SEED)["controls"]
        if settings.checkpoints:
            self._untrained = labeller.untrained
        heads = _roles(controls)
        if settings.ablation:
            heads = heads.merge(self._losses(model, reading), on=HEAD_COLUMNS, how="left")
        degrees = pd.concat([_degrees(controls), *self._patterns(asked, one.name)])
        tables = (heads, degrees, self._matching(one, kept))
        return _HeadsRead(one, reading.sentences, *(_of_model(own, one) for own in tables))

    def _reading(self, model: Model) -> Reading:
        both = model.model.config.is_encoder_decoder or not self._translations
        texts = self.texts.texts if both else [*map(source_of, self.texts.texts)]
        read = read_sentences(model, texts, self.texts.origin)
        return prepare(model, read, self.settings.sites, memory=self.settings.memory)

    def _losses(self, model: Model, reading: Reading) -> pd.DataFrame:
        """The loss without each head."""
        settings = self.settings
        evaluator = evaluator_of(
            model, reading.sentences.first(ABLATION_SENTENCES), settings.batch_size,
            seed=settings.seed,
        )  # fmt: skip
        evaluator.check_finite()
        return changes_without_heads(evaluator, reading.sites, progress=settings.progress)

    def _patterns(self, asked: PatternReading, name: str) -> Iterator[pd.DataFrame]:
        """The hit and the mass of all heads for each pattern that rows meet; others are left out.

        Raises:
            InputError: no row meets any of them.
        """
        if not self.settings.parsed:
            return
        try:
            met, counts, unmet = asked.counted(
                dict.fromkeys(asked.reading.sites, self.settings.parsed)
            )
        except InputError as error:
            msg = f"{name}: {error}"
            raise InputError(msg, options=error.options) from error
        self.notes += (LeftOut(f"{what} of {name}", str(error)) for what, error in unmet)
        self.notes += asked.notes
        for (pattern, site, layer), hits in counts.hits.items():
            if pattern not in met.get(site, ()):
                continue
            found = {"degree": hits, MASS.name: counts.masses[pattern, site, layer]}
            table = pd.DataFrame(
                {column: one.whole().ratio[0].tolist() for column, one in found.items()}
            )
            yield table.assign(site=site, layer=layer, head=table.index, what=pattern.text)

    def _matching(self, one: _Named, kept: KeptTexts) -> pd.DataFrame:
        """A row per head of a model but the first, with the head of that which it is matched with."""
        empty = pd.DataFrame(columns=[name for name in MATCHING if name != "training_step"])
        self.texts_matched = min(self.texts_matched, kept.count)
        if self._first is None or one.kind == UNTRAINED:
            self._first = self._first or kept
            return empty
        by_tokens = self._first.has_tokens_of(kept)
        if not by_tokens:
            self.notes.append(ComparedByWords(one.name))
        for site in SITES:
            counts = heads_of_both(self._first, kept, site)
            if counts[0] != counts[1]:
                self.notes.append(OtherShape(one.name, site, shared=all(counts)))
        found = matched(self._first, kept, self.settings.match, by_tokens=by_tokens)
        return pd.concat([*found] or [empty])


def _of_model(table: pd.DataFrame, of: _Named) -> pd.DataFrame:
    """The table with the name of its model, and the step of a checkpoint."""
    step = {} if of.step is None else {"training_step": of.step}
    return table.assign(model=of.name, **step)


def _degrees(controls: pd.DataFrame) -> pd.DataFrame:
    """The strength of each head for each label, of the model and on shuffled words.

    On shuffled words the first figure of a label counts, on the same scale: on them any preference for a kind
    of word exceeds the best offset, so that what decides labels there is no status.
    """
    mixed = controls.assign(
        value=controls["shuffled_value"], significance=BORDERLINE, second_statistic=""
    )
    table = controls.assign(shuffled_degree=with_strength(mixed)["strength"])
    table = table.rename(columns={"label": "what", "strength": "degree"})
    return table[[*HEAD_COLUMNS, "what", "detail", "degree", "shuffled_degree", "value"]]


def _roles(controls: pd.DataFrame) -> pd.DataFrame:
    """The closest role of each head, as in the first table of an analysis."""
    best = strongest_functions(controls).sort_values(
        HEAD_COLUMNS, key=lambda own: own.map(site_order) if own.name == "site" else own
    )
    has = (best["status"] == CONFIRMED) | (best["strength"] > 0)
    return best[HEAD_COLUMNS].assign(
        role=best["function"].where(has, NO_ROLE),
        detail=best["detail"].where(has, ""),
        value=best["value"].where(has),
        strength=best["strength"],
        significant=best["significance"] == CONFIRMED,
    )
