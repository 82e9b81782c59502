"""The heads of several models, or of the checkpoints of one, read on the same sentences."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from attnlab.core import (
    HEAD_COLUMNS,
    SITES,
    InputError,
    Note,
    Table,
    options_of,
    reason,
    site_order,
)
from attnlab.evaluation import (
    ABLATION_SENTENCES,
    LeftOut,
    PatternReading,
    Texts,
    changes_without_heads,
    evaluator_of,
    model_with_gold,
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
from attnlab.questions.across.matching import MOST_TEXTS, KeptTexts, heads_of_both, matched
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
    first, texts = model_with_gold(source, settings, scores=settings.ablation)
    reader = _Reader(settings, texts, translations=first.model.config.is_encoder_decoder)
    every = [*(reader.checkpoints(first) if settings.checkpoints else reader.models(first))]
    trained = sorted((one for one in every if one.kind != UNTRAINED), key=lambda one: one.step or 0)
    seeds = [one.name for one in trained if one.kind == SEED]
    tables = {
        table.name: pd.concat([one.tables[table] for one in trained if table in one.tables])
        for table in (ACROSS, DEGREES, MATCHING)
    }
    degrees, matching = tables[DEGREES.name], tables[MATCHING.name]
    notes = reader.notes
    if settings.checkpoints:
        twins = pd.concat([one.tables[DEGREES] for one in every if one.kind == UNTRAINED])
        tables[FORMATION.name] = formation(degrees, twins)
    else:
        tables[DIFFERENCES.name] = differences(degrees, matching, every[0].name, seeds)
        notes += [] if seeds else [NoSeeds()]
    read = {"" if settings.checkpoints else one.name: one.sentences for one in trained}
    names = ", ".join(one.name for one in trained)
    return Result(
        QUESTION.name,
        f"Heads of {f'{first.label} over its training' if settings.checkpoints else names}",
        {
            name: table.reset_index(drop=True)[[column for column in declared if column in table]]
            for declared in QUESTION.tables
            if (table := tables.get(name := declared.name)) is not None
        },
        {
            **first.facts,
            **first.history,
            "Texts": f"{len(every[0].sentences)} from {texts.origin}",
            "Matched": f"by {settings.match}, distances on {reader.texts_matched} texts",
        },
        (
            *notes_on_texts(first, texts, read, settings.sentences, settings.sites),
            *dict.fromkeys(note for one in trained for note in one.sentences.dropped),
            *dict.fromkeys(notes),
        ),
        {"first": every[0].name, "seeds": seeds},
        weights=first.weights,
    )


@dataclass(frozen=True)
class _HeadsRead:
    """Tables of the heads of a model, which outlast the model.

    Attributes:
        name: of the model in tables.
        kind: a model, one of another seed, or an untrained one.
        step: of its training, of a checkpoint.
        sentences: what it read.
        tables: a row per head; a row per head and label or pattern; and of all but the first model a row per
            head with that of the first model that it is matched with.
    """

    name: str
    kind: str
    step: int | None
    sentences: Sentences
    tables: Mapping[Table, pd.DataFrame]


class _Reader:
    """Reads models on the same texts, one after another, so that one is in memory beside the first.

    The first stays: the untrained models of checkpoints are drawn as it is built, and results name it.

    Args:
        settings: the options.
        texts: what is read.
        translations: whether pairs of texts are translations, which a model of one stack does not read.

    Attributes:
        notes: on models and patterns.
        texts_matched: on how many texts heads are matched.
    """

    def __init__(self, settings: AcrossSettings, texts: Texts, *, translations: bool) -> None:
        assert texts.gold is not None  # noqa: S101 - it was asked for
        self.settings, self.texts = settings, texts
        self.notes: list[Note] = []
        self.texts_matched = MOST_TEXTS
        self._gold, self._translations = texts.gold, translations
        self._names: Counter[str] = Counter()
        # Checkpoints have one untrained twin.
        self._untrained: HeadFunctions | None = None
        # The matrices of the first model.
        self._first: KeptTexts | None = None

    def models(self, first: Model) -> Iterator[_HeadsRead]:
        """Yields the tables of the models that are named."""
        yield self._heads_of(first)
        for kind, sources in ((MODEL, self.settings.others), (SEED, self.settings.seeds)):
            for source in sources:
                yield self._heads_of(source, kind=kind)

    def checkpoints(self, run: Model) -> Iterator[_HeadsRead]:
        """Yields the tables of the last checkpoint that a run keeps, of the others, and of untrained models.

        Raises:
            InputError: it is no run, or fewer than two can be read.
        """
        if not isinstance(run, Run):
            msg = (
                f"{run.label} is no run of attnlab, which alone keeps checkpoints; name its models."
            )
            raise InputError(msg)
        # All are loaded once, and let go, before one of them is read, which takes long.
        steps = [step for step in run.kept_steps if self._is_whole(run, step)]
        if len(steps) < 2:
            msg = (
                f"{run.label} keeps {len(steps)} checkpoints that can be read, and it takes two; train a run "
                "that keeps some (attnlab train --keep-checkpoints 12)."
            )
            raise InputError(msg)
        for step in (steps[-1], *steps[:-1]):
            yield self._heads_of(run.at_step(step), f"step {step}", step=step)
        for seed in range(1, TWINS + 1):
            twin = untrained_twin(run.model, self.settings.seed + CONTROL_SEED + seed)
            yield self._heads_of(replace(run, model=twin), f"untrained {seed}", UNTRAINED)

    def _is_whole(self, run: Run, step: int) -> bool:
        """Whether a checkpoint can be loaded; a note says why not."""
        try:
            run.at_step(step)
        except UNREADABLE as error:
            self.notes.append(DamagedCheckpoint(step, reason(error)))
            return False
        return True

    def _heads_of(
        self, source: Source, name: str = "", kind: str = MODEL, step: int | None = None
    ) -> _HeadsRead:
        """What the heads of a model do; it is named by its label, numbered where several have that."""
        settings, model = self.settings, model_of(source, scores=self.settings.ablation)
        model.move_to_named(settings.device, source)
        if not name:
            self._names[model.label] += 1
            number = self._names[model.label]
            name = model.label if number == 1 else f"{model.label} ({number})"
        reading = self._reading(model)
        patterns = PatternReading(settings, reading, self.texts, settings.parsed, words=True)
        kept = KeptTexts(patterns.known)
        labeller = Labeller(reading, self._gold, model.type_counts, HeadStructure(0), views=(ALL,))
        labeller.untrained = self._untrained

        def run(what: str, read: Reading, consumers: Sequence[Any]) -> Coverage:
            tell = settings.telling(f"{name}: {what}")
            return read.feed(consumers, batch_size=settings.batch_size, progress=tell)

        run("heads", reading, [labeller.functions, kept])
        controls = labeller.label(run, seed=settings.seed + CONTROL_SEED)["controls"]
        if settings.checkpoints:
            self._untrained = labeller.untrained
        heads = _roles(controls)
        if settings.ablation:
            heads = heads.merge(self._losses(model, reading), on=HEAD_COLUMNS, how="left")
        tables = {
            ACROSS: heads,
            DEGREES: pd.concat([_degrees(controls), *self._patterns(patterns, name)]),
        }
        self.texts_matched = min(self.texts_matched, kept.count)
        if self._first is None:
            self._first = kept
        elif kind != UNTRAINED:
            tables[MATCHING] = self._matching(self._first, kept, name)
        named = {"model": name} | ({} if step is None else {"training_step": step})
        tables = {table: rows.assign(**named) for table, rows in tables.items()}
        return _HeadsRead(name, kind, step, reading.sentences, tables)

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

    def _patterns(self, patterns: PatternReading, name: str) -> Iterator[pd.DataFrame]:
        """The hit and the mass of all heads for each pattern that rows meet; others are left out.

        Raises:
            InputError: no row meets any of them.
        """
        if not patterns.asked:
            return
        try:
            met, counts, unmet = patterns.counted(
                dict.fromkeys(patterns.reading.sites, self.settings.parsed)
            )
        except InputError as error:
            msg = f"{name}: {error}"
            raise InputError(msg, options=error.options) from error
        self.notes += (LeftOut(f"{what} of {name}", str(error)) for what, error in unmet)
        self.notes += patterns.notes
        for (pattern, site, layer), hits in counts.hits.items():
            if pattern in met.get(site, ()):
                figures = {"degree": hits, MASS.name: counts.masses[pattern, site, layer]}
                table = pd.DataFrame(
                    {column: rates.whole().ratio[0].tolist() for column, rates in figures.items()}
                )
                yield table.assign(site=site, layer=layer, head=table.index, what=pattern.text)

    def _matching(self, first: KeptTexts, kept: KeptTexts, name: str) -> pd.DataFrame:
        """A row per head of a model but the first, with the head of that which it is matched with."""
        by_tokens = first.has_tokens_of(kept)
        if not by_tokens:
            self.notes.append(ComparedByWords(name))
        tables: list[pd.DataFrame] = []
        for site in SITES:
            shapes = heads_of_both(first, kept, site)
            if shapes[0] != shapes[1]:
                self.notes.append(OtherShape(name, site, shared=all(shapes)))
            if all(shapes):
                tables += matched(
                    first, kept, site, shapes, self.settings.match, by_tokens=by_tokens
                )
        empty = pd.DataFrame(columns=[column for column in MATCHING if column != "training_step"])
        return pd.concat(tables or [empty])


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
        HEAD_COLUMNS, key=lambda column: column.map(site_order) if column.name == "site" else column
    )
    has = (best["status"] == CONFIRMED) | (best["strength"] > 0)
    return best[[*HEAD_COLUMNS, "strength"]].assign(
        role=best["function"].where(has, NO_ROLE),
        detail=best["detail"].where(has, ""),
        value=best["value"].where(has),
        significant=best["significance"] == CONFIRMED,
    )
