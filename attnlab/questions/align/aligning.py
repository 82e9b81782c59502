"""Which cross-attention heads of a model say what a word translates: what `attnlab align` computes."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Int
from torch import Tensor

from attnlab.ablation import Difference
from attnlab.alignment import (
    AlignmentHeads,
    FoundLinks,
    FromWord,
    GoldGrid,
    GoldLinks,
    GreedyPath,
    HeadProperties,
    Link,
    Row,
    StatisticalAligner,
    Words,
    WordWeights,
    align_both,
    count_heads,
    count_links,
    count_set,
    ctranslate2_heads,
    diagonal_links,
    engine_sets,
    fit_statistical_aligner,
    gold_grid,
    gold_links,
    greedy_path,
    head_properties,
    linked,
    links_in,
    pharaoh_line,
    read_heads,
    score_differences,
    score_intervals,
    scored,
    symmetrized,
    turned,
    whisper_heads,
    without_gold,
    words_of,
    write_heads,
)
from attnlab.core import InputError, Note, options_of, usable_device, write_text
from attnlab.evaluation import Progress, Steps, versions_in_words
from attnlab.labels import AER, untrained_twin
from attnlab.models import Model, Run, Source, model_of
from attnlab.questions.align.alignment_files import HEADS_FILE, LINKS_FILE
from attnlab.questions.align.corpus_links import CorpusLinks, weighed_links, write_links
from attnlab.questions.align.generated_words import compare_generated
from attnlab.questions.align.question import (
    AER_CHANGE,
    BEST_ROW,
    CALIBRATION_SIZES,
    CHOICE_NAMES,
    CHOSEN,
    ORACLE,
    QUESTION,
    SCORES,
    SYMMETRIZATIONS,
    SYSTEMS,
    AlignmentSettings,
    NoGold,
    PairsNotAligned,
    SeveralLayers,
)
from attnlab.questions.align.word_reading import AlignedPairs, ReadPairs, WordPairs, pairs_of
from attnlab.questions.align.word_times import align_audio
from attnlab.reading import reads_audio
from attnlab.results import Result

# Of so many pairs the page shows the links.
SHOWN = 8
# How often calibration pairs are drawn for one point of the curve.
DRAWN = 20
# Pairs of the training text that the statistical aligner learns from, and the fewest that it can.
MOST_TRAINING, FEWEST_TRAINING = 200_000, 500
Counts = Int[Tensor, "pair 4"]
_NOTHING_TELLS = "No pair has two words with tokens on both sides, so nothing tells heads apart."


@options_of(AlignmentSettings)
def align(source: Source, settings: AlignmentSettings) -> Result:
    """The heads whose weights say what a target word translates, their links, and how good these are.

    From every target word a link goes to the source word with the largest mean weight over the chosen heads
    (`attnlab.alignment.word_weights`), under teacher forcing. Heads are chosen on every other pair by AER,
    greedily, and scored on the rest, beside what engines take by default, the diagonal, a statistical aligner
    trained on the run's own training text, an untrained twin and shuffled pairs, which are chosen alike.

    Of Whisper see `align_audio`: when words were spoken.

    Cost: a pass over the pairs, a second one for the twin and a third for shuffled pairs; the statistical
    aligner takes minutes on 100,000 pairs.

    Args:
        source: a run or its folder, a transformers encoder-decoder, by folder, hub name, or as a pair
            (model, tokenizer).
        settings: as keyword arguments.

    Returns:
        The tables `systems` (a row per way to align), `heads` (a row per head and row of the weights), and
        with gold links `steps` (the greedy choice) and `calibration` (AER by the number of pairs that heads
        are chosen on) and, unless `quick`, `generation` (links of what the model wrote itself); as `extra`
        `heads.json` and the links.

    Raises:
        InputError: the source has no cross-attention, a file cannot be read, or no pair can be aligned.
    """
    device = usable_device(settings.device)
    loaded = model_of(source, scores=False)
    if reads_audio(loaded.model):
        return align_audio(loaded, settings)
    model = _model(loaded, settings)
    model.model.to(device)
    if settings.heads is not None:
        return _with_given_heads(model, settings)
    pairs = pairs_of(model, settings.pairs, settings.gold, settings.sentences)
    if not pairs.links:
        return _without_gold(model, pairs, settings)
    return _with_gold(model, pairs, settings)


def _model(source: Source, settings: AlignmentSettings) -> Model:
    """The model, its tokenizer set to the languages.

    Raises:
        InputError: it is no encoder-decoder, or its tokenizer does not know a language.
    """
    model = model_of(source, scores=False)
    if not model.model.config.is_encoder_decoder:
        msg = (
            f"{model.label} is no encoder-decoder, so it has no cross-attention that could align; give a "
            "translation model."
        )
        raise InputError(msg)
    for name, code in (
        ("src_lang", settings.source_language),
        ("tgt_lang", settings.target_language),
    ):
        if code is None:
            continue
        tokenizer = model.tokenizer
        if not hasattr(tokenizer, name):
            msg = (
                f"The tokenizer of {model.label} has no languages to choose from; leave {code} out."
            )
            raise InputError(msg)
        if tokenizer.convert_tokens_to_ids(code) == tokenizer.unk_token_id:
            msg = f"The tokenizer of {model.label} does not know the language '{code}'."
            raise InputError(msg)
        setattr(tokenizer, name, code)
    return model


class _Part(NamedTuple):
    """Sentence pairs with the attention between their words.

    Attributes:
        pairs: all that were given.
        numbers: those that are meant, in the order of the weights.
        weights: of every head, by row of the weights.
        gold: their links.
    """

    pairs: WordPairs
    numbers: tuple[int, ...]
    weights: Mapping[Row, WordWeights]
    gold: GoldGrid

    @property
    def words(self) -> list[tuple[Words, Words]]:
        """The words of both sides."""
        return [self.pairs.words[number] for number in self.numbers]

    @property
    def links(self) -> list[GoldLinks]:
        """The gold links."""
        return [self.pairs.links[number] for number in self.numbers]

    def of(self, chosen: Sequence[int] | slice) -> "_Part":
        """Some of the pairs."""
        index = chosen if isinstance(chosen, slice) else list(chosen)
        weights = {
            row: WordWeights(one.weights[index], one.targets[index], one.sources[index])
            for row, one in self.weights.items()
        }
        gold = GoldGrid(self.gold.sure[index], self.gold.possible[index])
        numbers = tuple(np.array(self.numbers)[index].tolist())
        return _Part(self.pairs, numbers, weights, gold)

    def with_links(self, links: Sequence[frozenset[Link]]) -> "_Part":
        """The same pairs with other links in place of gold."""
        shape = next(iter(self.weights.values())).weights.shape[-2:]
        return self._replace(gold=gold_grid([gold_links(one) for one in links], *shape))


@dataclass(frozen=True)
class _Chosen:
    """Heads of one row of the weights, numbered layer by layer."""

    row: Row
    heads: tuple[int, ...]


@dataclass(frozen=True)
class _System:
    """A way to align, and the links that it gives: |A|, |S|, |A n S|, |A n P| of each pair."""

    name: str
    kind: str
    counts: Counts
    chosen: _Chosen | None = None


class _Halves(NamedTuple):
    """What a model attends to, in the pairs that heads are chosen on and in those that are reported on."""

    aligned: AlignedPairs
    read: ReadPairs
    calibration: _Part
    report: _Part


def _halves(
    model: Model,
    pairs: WordPairs,
    settings: AlignmentSettings,
    *,
    what: str = "Reading pairs",
    twin: object = None,
    turned: bool = False,
) -> _Halves:
    """Every other pair each, or the pairs and those of the calibration file.

    Args:
        model: with its tokenizer.
        pairs: with gold links.
        settings: those of the question.
        what: is being done, for the progress.
        twin: another model of the same class and configuration that reads them; None: `model`.
        turned: whether source and target are exchanged.

    Raises:
        InputError: there are too few pairs.
    """
    pairs = pairs.turned() if turned else pairs
    aligned = AlignedPairs(model, pairs, memory=settings.memory)
    read = _read(aligned, settings, what, twin)
    whole = _part(pairs, read)
    if settings.calibration is None:
        if len(whole.numbers) < 2:
            msg = "Heads are chosen on one half of the pairs and scored on the other; give at least two."
            raise InputError(msg)
        # By number, so that no pair is in the one half here and in the other for another model.
        halves = [
            whole.of([place for place, number in enumerate(whole.numbers) if number % 2 == odd])
            for odd in (0, 1)
        ]
        if not all(half.numbers for half in halves):
            msg = "None of the pairs of one half can be aligned; give more of them."
            raise InputError(msg)
        return _Halves(aligned, read, *halves)
    others = pairs_of(model, None, settings.calibration, None)
    others = others.turned() if turned else others
    beside = AlignedPairs(model, others, memory=settings.memory)
    return _Halves(aligned, read, _part(others, _read(beside, settings, what, twin)), whole)


def _with_gold(model: Model, pairs: WordPairs, settings: AlignmentSettings) -> Result:
    aligned, read, calibration, report = _halves(model, pairs, settings)
    others = [] if settings.calibration is None else calibration.words
    statistical = _statistical(model, [*pairs.words, *others], settings)
    paths = _paths(calibration)
    choices = _choices(calibration, paths, statistical)
    wanted = settings.choose or "set"
    if wanted not in choices:
        raise InputError(_NOTHING_TELLS)
    chosen = choices[wanted]
    shape = aligned.layers, aligned.reading.attention_sites.heads
    systems = [
        _System(CHOSEN, "choice", _counted(report, chosen), chosen),
        *_others(report, choices, wanted, shape),
        *_baselines(report, statistical),
        *_both_directions(pairs, report, chosen, wanted, settings),
        *_controls(model, pairs, report, chosen, settings, how=(wanted, statistical)),
    ]
    score = _score(systems[0], settings, pairs) | {"sentences": len(calibration.numbers)}
    by = "gold links" if wanted != "unsupervised" else _without_links(statistical)
    heads_file = _heads_file(model, chosen, shape, settings, by=by, score=score)
    beside = "that stand between them" if settings.calibration is None else calibration.pairs.origin
    return _result(
        model,
        settings,
        tables={
            "systems": _system_rows(systems, shape[1], settings.seed),
            "heads": _head_rows(calibration, report, chosen, shape[1], settings.seed),
            "steps": _step_rows(paths, report, shape[1]),
            "calibration": _curve(calibration, report, _best_row(paths), settings),
            **_generation(model, report, chosen, settings),
        },
        about={
            "Pairs": f"{len(report.numbers)} from {pairs.origin}",
            "Heads chosen on": f"{len(calibration.numbers)} pairs, {beside}",
        },
        notes=_unaligned(read, pairs),
        shown=_shown(pairs, read, report.numbers, shape[1], chosen),
        heads_file=heads_file,
        found=_found(pairs, read, chosen),
    )


def _read(
    aligned: AlignedPairs, settings: AlignmentSettings, what: str, model: object = None
) -> ReadPairs:
    return aligned.read(
        _rows(settings),
        _from_word(settings),
        batch_size=settings.batch_size,
        memory=settings.memory,
        progress=settings.progress,
        what=what,
        model=model,
    )


def _rows(settings: AlignmentSettings) -> tuple[Row, ...]:
    return tuple(row for row in ("output", "input") if settings.row in {row, BEST_ROW})


def _from_word(settings: AlignmentSettings) -> FromWord:
    return "first" if settings.from_word == "first" else "mean"


def _part(pairs: WordPairs, read: ReadPairs) -> _Part:
    return _Part(pairs, read.numbers, read.weights, read.grid(pairs))


def _path(part: _Part, row: Row) -> GreedyPath:
    return greedy_path(part.weights[row], part.gold)


def _paths(part: _Part) -> dict[Row, GreedyPath]:
    return {row: _path(part, row) for row in part.weights}


def _best_row(paths: Mapping[Row, GreedyPath]) -> Row:
    """The row whose chosen set has the lower AER on the calibration pairs, of equal ones the first."""
    return min(paths, key=lambda row: min(paths[row].aers))


def _best(paths: Mapping[Row, GreedyPath]) -> _Chosen:
    row = _best_row(paths)
    return _Chosen(row, paths[row].chosen)


def _choices(
    calibration: _Part,
    paths: Mapping[Row, GreedyPath],
    statistical: "_Statistical | None",
) -> dict[str, _Chosen]:
    """What can be chosen, by name: the best set, the best single head, and heads without gold links."""
    single = min(paths, key=lambda row: paths[row].aers[0])
    choices = {"set": _best(paths), "single": _Chosen(single, (paths[single].single,))}
    unsupervised = _unsupervised(calibration, statistical)
    return choices if unsupervised is None else {**choices, "unsupervised": unsupervised}


def _unsupervised(part: _Part, statistical: "_Statistical | None") -> _Chosen | None:
    """The set that is nearest to the links of a statistical aligner, which has learned from text alone.

    Without one the head of the highest score (`head_properties`), in the row in which it links more of the
    words that are written alike on both sides: nothing else there tells the rows apart. None where no pair
    has two words with tokens on both sides.
    """
    if statistical is not None:
        silver = part.with_links(statistical.both(part.words))
        return _best(_paths(silver))
    alike = part.with_links([_written_alike(*words) for words in part.words])
    properties = {row: head_properties(words) for row, words in part.weights.items()}
    if not any(one.score.any() for one in properties.values()):
        return None
    heads = {row: without_gold(one, 1) for row, one in properties.items()}
    found = {row: _counted(alike, _Chosen(row, one)) for row, one in heads.items()}
    row = max(heads, key=lambda one: float(scored(found[one], "recall")))
    return _Chosen(row, heads[row])


def _written_alike(source: Words, target: Words) -> frozenset[Link]:
    """Links between words that stand once on both sides: names, numbers, punctuation."""
    once = {
        word for word in set(source) & set(target) if source.count(word) == target.count(word) == 1
    }
    return frozenset((source.index(word), target.index(word)) for word in once)


def _counted(part: _Part, chosen: _Chosen) -> Counts:
    return count_set(part.weights[chosen.row], chosen.heads, part.gold)


def _others(
    report: _Part, choices: Mapping[str, _Chosen], taken: str, shape: tuple[int, int]
) -> Iterator[_System]:
    """Other choices, what engines take, and the bound."""
    layers, heads = shape
    for name, one in choices.items():
        if name != taken:
            yield _System(CHOICE_NAMES[name], "choice", _counted(report, one), one)
    row: Row = "output" if "output" in report.weights else "input"
    for default, addresses in engine_sets(layers, heads).items():
        one = _Chosen(row, tuple(layer * heads + head for layer, head in addresses))
        yield _System(default, "default", _counted(report, one), one)
    oracle = _best(_paths(report))
    yield _System(ORACLE, "bound", _counted(report, oracle), oracle)


class _Statistical(NamedTuple):
    """A statistical aligner of both directions."""

    forward: StatisticalAligner
    backward: StatisticalAligner

    def both(self, words: Sequence[tuple[Words, Words]]) -> list[frozenset[Link]]:
        """The links of both directions made one."""
        return align_both(self.forward, self.backward, words, "grow-diag-final-and")


def _statistical(
    model: Model, words: Sequence[tuple[Words, Words]], settings: AlignmentSettings
) -> _Statistical | None:
    """An aligner that learned from the model's own training text and these pairs; None for too few."""
    if settings.quick:
        return None
    training = [(words_of(one), words_of(other)) for one, other in _training_texts(model)]
    learned = [pair for pair in [*training, *words] if all(pair)]
    if len(learned) < FEWEST_TRAINING:
        return None
    backwards = [(target, source) for source, target in learned]
    return _Statistical(
        *(
            fit_statistical_aligner(one, progress=_named(settings.progress, name))
            for one, name in ((learned, "source to target"), (backwards, "target to source"))
        )
    )


def _baselines(report: _Part, statistical: _Statistical | None) -> Iterator[_System]:
    """The diagonal and the statistical aligner."""
    diagonal = [diagonal_links(len(source), len(target)) for source, target in report.words]
    yield _System("diagonal", "baseline", count_links(diagonal, report.links))
    if statistical is None:
        return
    forward = statistical.forward.align(report.words)
    yield _System("statistical aligner", "baseline", count_links(forward, report.links))
    name = "statistical aligner, both directions (grow-diag-final-and)"
    both = statistical.both(report.words)
    yield _System(name, "baseline", count_links(both, report.links))


def _training_texts(model: Model) -> Iterator[tuple[str, str]]:
    """The first training pairs of a run; none of another model."""
    if not isinstance(model, Run):
        return
    rows = model.corpus().train
    count = min(len(rows), MOST_TRAINING)
    yield from zip(rows[:count]["source"], rows[:count]["target"], strict=True)


def _named(progress: Progress | None, direction: str) -> Progress | None:
    if progress is None:
        return None
    return lambda what, done, total: progress(f"{what}, {direction}", done, total)


def _both_directions(
    pairs: WordPairs, report: _Part, chosen: _Chosen, wanted: str, settings: AlignmentSettings
) -> Iterator[_System]:
    """The chosen links made one with those of a model of the other direction, chosen alike."""
    if settings.reverse is None:
        return
    exchanged = replace(
        settings,
        source_language=settings.target_language,
        target_language=settings.source_language,
    )
    model = _model(settings.reverse, exchanged)
    model.model.to(usable_device(settings.device))
    _, read, calibration, _ = _halves(
        model, pairs, settings, what="Reading the other direction", turned=True
    )
    own = _choices(calibration, _paths(calibration), None).get(wanted)
    if own is None:
        return
    back = _links_of(read, own)
    forward = _linked(report, chosen)
    for how in SYMMETRIZATIONS:
        links = [
            symmetrized(own, turned(back.get(number, {})), how)
            for number, own in zip(report.numbers, forward, strict=True)
        ]
        name = f"chosen heads of both directions ({how})"
        yield _System(name, "choice", count_links(links, report.links))


def _controls(
    model: Model,
    pairs: WordPairs,
    report: _Part,
    chosen: _Chosen,
    settings: AlignmentSettings,
    *,
    how: tuple[str, "_Statistical | None"],
) -> Iterator[_System]:
    """What is found where there is nothing to find: in an untrained twin, and between other sentences."""
    if settings.quick:
        return
    twin = untrained_twin(model.model, model.seed)
    found = _halves(model, pairs, settings, what="Control: untrained model", twin=twin)
    wanted, statistical = how
    own = _choices(found.calibration, _paths(found.calibration), statistical)[wanted]
    yield _System("untrained twin, chosen alike", "control", _counted(found.report, own), own)
    others = AlignedPairs(model, pairs.with_other_sources(), memory=settings.memory)
    links = _links_of(_read(others, settings, "Control: shuffled pairs"), chosen)
    shuffled = [links.get(number, {}) for number in report.numbers]
    name = "chosen heads, sources of other pairs"
    yield _System(name, "control", count_links(shuffled, report.links), chosen)


def _generation(
    model: Model, report: _Part, chosen: _Chosen, settings: AlignmentSettings
) -> dict[str, pd.DataFrame]:
    """The table of what the model wrote itself; a model of several languages is not told which to write."""
    begins = model.model.config.decoder_start_token_id
    if settings.quick or settings.target_language is not None or begins is None:
        return {}
    links = dict(zip(report.numbers, _linked(report, chosen), strict=True))
    found = compare_generated(model, report.pairs, links, (chosen.row, chosen.heads), settings)
    return {} if found.empty else {"generation": found}


def _linked(part: _Part | ReadPairs, chosen: _Chosen) -> list[dict[Link, float]]:
    return weighed_links(part.weights[chosen.row].of_heads(chosen.heads))


def _links_of(read: ReadPairs, chosen: _Chosen) -> dict[int, dict[Link, float]]:
    """The links of every pair that was read, by number."""
    return dict(zip(read.numbers, _linked(read, chosen), strict=True))


def _found(pairs: WordPairs, read: ReadPairs, chosen: _Chosen) -> list[FoundLinks]:
    """The links of every pair that was given."""
    links = _links_of(read, chosen)
    return [FoundLinks(*words, links.get(number, {})) for number, words in enumerate(pairs.words)]


def _unaligned(read: ReadPairs | AlignedPairs, pairs: WordPairs) -> list[Note]:
    if not read.unaligned:
        return []
    number, why = next(iter(read.unaligned.items()))
    return [PairsNotAligned(len(read.unaligned), len(pairs), number + 1, why)]


def _system_rows(systems: Sequence[_System], heads: int, seed: int) -> pd.DataFrame:
    counts = torch.stack([one.counts for one in systems])
    rows: list[dict[str, Any]] = [
        {
            "system": one.name,
            "kind": one.kind,
            "row": "" if one.chosen is None else one.chosen.row,
            "heads": "" if one.chosen is None else _addresses(one.chosen.heads, heads),
            "pairs": len(one.counts),
            "links": int(one.counts[:, 0].sum()),
        }
        for one in systems
    ]
    _add_scores(rows, counts, seed)
    changes = score_differences(counts[0], counts[1:], "aer", seed=seed)
    none = AER_CHANGE.cells(float("nan"), p=float("nan"))
    for row, change in zip(rows, [None, *changes], strict=True):
        row.update(none if change is None else change.cells(AER_CHANGE))
    return pd.DataFrame(rows)[[name for name in SYSTEMS if name in rows[0]]]


def _add_scores(rows: Sequence[dict[Any, Any]], counts: Tensor, seed: int) -> None:
    for estimate in SCORES:
        for row, one in zip(rows, _intervals(counts, estimate.name, seed), strict=True):
            row.update(estimate.cells(one.change, one.low, one.high))


def _intervals(counts: Tensor, metric: Any, seed: int) -> list[Difference]:
    return score_intervals(counts, metric, seed=seed)


def _addresses(heads: Sequence[int], per_layer: int) -> str:
    return ", ".join(f"{head // per_layer}.{head % per_layer}" for head in heads)


def _head_rows(
    calibration: _Part, report: _Part, chosen: _Chosen, per_layer: int, seed: int
) -> pd.DataFrame:
    tables = []
    for row, words in report.weights.items():
        table = _property_rows(head_properties(calibration.weights[row]), row, chosen, per_layer)
        rows = table.to_dict("records")
        _add_scores(rows, count_heads(words, report.gold), seed)
        tables.append(pd.DataFrame(rows))
    return _ordered(pd.concat(tables, ignore_index=True))


def _property_rows(
    properties: HeadProperties, row: Row, chosen: _Chosen, per_layer: int
) -> pd.DataFrame:
    count = len(properties.score)
    return pd.DataFrame(
        {
            "layer": [head // per_layer for head in range(count)],
            "head": [head % per_layer for head in range(count)],
            "row": row,
            "confidence": properties.confidence,
            "coverage": properties.coverage,
            "monotonicity": properties.monotonicity,
            "agreement": properties.agreement,
            "score_without_gold": properties.score,
            "chosen": [row == chosen.row and head in chosen.heads for head in range(count)],
        }
    )


def _ordered(table: pd.DataFrame) -> pd.DataFrame:
    return table[[name for name in QUESTION.table("heads") if name in table]]


def _step_rows(paths: Mapping[Row, GreedyPath], report: _Part, per_layer: int) -> pd.DataFrame:
    rows = []
    for row, path in paths.items():
        for step, head in enumerate(path.heads, start=1):
            counts = count_set(report.weights[row], path.heads[:step], report.gold)
            rows.append(
                {
                    "row": row,
                    "step": step,
                    "layer": head // per_layer,
                    "head": head % per_layer,
                    "calibration_aer": path.aers[step - 1],
                    "aer": float(scored(counts, "aer")),
                }
            )
    return pd.DataFrame(rows)


def _curve(
    calibration: _Part, report: _Part, row: Row, settings: AlignmentSettings
) -> pd.DataFrame:
    """AER of heads that were chosen on so many calibration pairs, drawn several times."""
    there = len(calibration.numbers)
    sizes = [size for size in CALIBRATION_SIZES if size < there]
    generator = torch.Generator().manual_seed(settings.seed)
    own = calibration._replace(weights={row: calibration.weights[row]})
    rows = []
    steps = Steps("Choosing heads on fewer pairs", DRAWN * len(sizes) + 1, settings.progress)
    for size in [*sizes, there]:
        draws = DRAWN if size < there else 1
        found, numbers = [], []
        for _ in range(draws):
            drawn = own.of(torch.randperm(there, generator=generator)[:size].tolist())
            heads = steps.of(partial(_path, drawn, row))().chosen
            found.append(float(scored(_counted(report, _Chosen(row, heads)), "aer")))
            numbers.append(len(heads))
        low, high = np.quantile(found, [0.025, 0.975])
        rows.append(
            {
                "pairs": size,
                "draws": draws,
                "aer": float(np.mean(found)),
                "aer_low": low,
                "aer_high": high,
                "heads": float(np.mean(numbers)),
            }
        )
    return pd.DataFrame(rows)


def _shown(
    pairs: WordPairs, read: ReadPairs, numbers: Sequence[int], per_layer: int, chosen: _Chosen
) -> list[dict[str, Any]]:
    """The first pairs with the links of the chosen heads and of every head alone."""
    links = _links_of(read, chosen)
    places = {number: place for place, number in enumerate(read.numbers)}
    words = read.weights[chosen.row]
    found = []
    for number in numbers[:SHOWN]:
        place = places[number]
        one = WordWeights(
            words.weights[place : place + 1],
            words.targets[place : place + 1],
            words.sources[place : place + 1],
        )
        alone = {
            _addresses([head], per_layer): _listed(links_in(grid))
            for head, grid in enumerate(linked(one)[0])
        }
        gold = pairs.links[number] if pairs.links else None
        found.append(
            {
                "source": list(pairs.words[number][0]),
                "target": list(pairs.words[number][1]),
                "sure": [] if gold is None else _listed(gold.sure),
                "possible": [] if gold is None else _listed(gold.possible),
                "links": {"chosen": _listed(links[number]), **alone},
            }
        )
    return found


def _listed(links: Collection[Link]) -> list[list[int]]:
    return [list(link) for link in sorted(links)]


def _score(system: _System, settings: AlignmentSettings, pairs: WordPairs) -> dict[str, Any]:
    (one,) = _intervals(system.counts[None], AER.name, settings.seed)
    return {
        "aer": one.change,
        "aer_low": one.low,
        "aer_high": one.high,
        "scored_on": f"{len(system.counts)} pairs of {pairs.origin}",
    }


def _without_links(statistical: "_Statistical | None") -> str:
    """What heads are chosen by where there are no gold links."""
    return "what heads look like" if statistical is None else "a statistical aligner"


def _heads_file(
    model: Model,
    chosen: _Chosen,
    shape: tuple[int, int],
    settings: AlignmentSettings,
    *,
    by: str,
    score: Mapping[str, Any],
) -> AlignmentHeads:
    """`score`: AER and on how many pairs heads were chosen; without gold links the latter alone."""
    layers, per_layer = shape
    return AlignmentHeads(
        heads=tuple((head // per_layer, head % per_layer) for head in chosen.heads),
        row=chosen.row,
        from_word=_from_word(settings),
        rule="target",
        layers=layers,
        heads_per_layer=per_layer,
        model=model.label,
        checksum=model.weights,
        chosen_by=by,
        **score,
    )


def _without_gold(model: Model, pairs: WordPairs, settings: AlignmentSettings) -> Result:
    if settings.choose in {"set", "single"}:
        msg = (
            "Heads are chosen by gold links, and there are none; give gold, or choose unsupervised."
        )
        raise InputError(msg)
    if settings.calibration is not None or settings.reverse is not None:
        msg = "calibration and reverse need gold links of the pairs; give gold, or leave them out."
        raise InputError(msg)
    aligned = AlignedPairs(model, pairs, memory=settings.memory)
    read = _read(aligned, settings, "Reading pairs")
    part = _part(pairs, read)
    statistical = _statistical(model, part.words, settings)
    chosen = _unsupervised(part, statistical)
    if chosen is None:
        raise InputError(_NOTHING_TELLS)
    shape = aligned.layers, aligned.reading.attention_sites.heads
    links = _links_of(read, chosen)
    tables = [
        _property_rows(head_properties(words), row, chosen, shape[1])
        for row, words in read.weights.items()
    ]
    row = {
        "system": CHOSEN,
        "kind": "choice",
        "row": chosen.row,
        "heads": _addresses(chosen.heads, shape[1]),
        "pairs": len(read.numbers),
        "links": sum(map(len, links.values())),
    }
    return _result(
        model,
        settings,
        tables={
            "systems": pd.DataFrame([row]),
            "heads": _ordered(pd.concat(tables, ignore_index=True)),
        },
        about={"Pairs": f"{len(read.numbers)} from {pairs.origin}"},
        notes=[NoGold(), *_unaligned(read, pairs)],
        shown=_shown(pairs, read, read.numbers, shape[1], chosen),
        heads_file=_heads_file(
            model,
            chosen,
            shape,
            settings,
            by=_without_links(statistical),
            score={"sentences": len(read.numbers)},
        ),
        found=_found(pairs, read, chosen),
    )


def _with_given_heads(model: Model, settings: AlignmentSettings) -> Result:
    """The links of all pairs by heads that were chosen before; memory does not grow with the pairs."""
    assert settings.heads is not None  # noqa: S101 - that is what this is for
    given = read_heads(settings.heads)
    corpus = CorpusLinks(model, given, settings)
    corpus.write()
    row: dict[str, Any] = {
        "system": CHOSEN,
        "kind": "choice",
        "row": given.row,
        "heads": _addresses(given.numbers, given.heads_per_layer),
        "pairs": corpus.aligned,
        "links": corpus.links,
    }
    if corpus.counts:
        _add_scores([row], torch.cat(corpus.counts)[None], settings.seed)
    table = pd.DataFrame(
        {
            "layer": [layer for layer, _ in given.heads],
            "head": [head for _, head in given.heads],
            "row": given.row,
            "chosen": True,
        }
    )
    unaligned = []
    if corpus.first_unaligned is not None:
        number, why = corpus.first_unaligned
        missing = corpus.pairs - corpus.aligned
        unaligned = [PairsNotAligned(missing, corpus.pairs, number + 1, why)]
    return _result(
        model,
        settings,
        tables={"systems": pd.DataFrame([row]), "heads": table},
        about={
            "Pairs": f"{corpus.aligned} from {corpus.origin}",
            "Heads from": str(settings.heads),
        },
        notes=unaligned,
        shown=[],
        heads_file=given,
    )


def _result(
    model: Model,
    settings: AlignmentSettings,
    *,
    tables: Mapping[str, pd.DataFrame],
    about: Mapping[str, str],
    notes: Sequence[Note],
    shown: Sequence[Mapping[str, Any]],
    heads_file: AlignmentHeads,
    found: Sequence[FoundLinks] | None = None,
) -> Result:
    """The result; `found` are the links of all pairs, written where that was asked for and kept with it."""
    extra = {HEADS_FILE: partial(write_heads, heads=heads_file)}
    if found is not None:
        write_links(settings.links, iter(found))
        text = "".join(f"{pharaoh_line(one.weights)}\n" for one in found)
        extra[LINKS_FILE] = partial(write_text, text=text)
    layers = {layer for layer, _ in heads_file.heads}
    one_layer = (
        ctranslate2_heads(heads_file.heads, heads_file.heads_per_layer)
        if len(layers) == 1
        else None
    )
    if one_layer is None:
        notes = [*notes, SeveralLayers()]
    return Result(
        QUESTION.name,
        f"Alignment heads of {model.label}",
        tables,
        {
            **model.facts,
            **model.history,
            **about,
            "Target words": "read by the model (teacher forcing)",
            "Weights of a word": f"{heads_file.from_word} over its tokens, {heads_file.row} row",
            **versions_in_words(),
        },
        tuple(notes),
        {
            "gold": AER.name in tables["systems"],
            "chosen_by": heads_file.chosen_by,
            "row": heads_file.row,
            "layers": heads_file.layers,
            "heads_per_layer": heads_file.heads_per_layer,
            "chosen": [list(head) for head in heads_file.heads],
            "pairs": list(shown),
            "configuration": {
                "generation_config": whisper_heads(heads_file.heads),
                "ctranslate2": None
                if one_layer is None
                else {
                    "alignment_layer": one_layer.alignment_layer,
                    "alignment_heads": one_layer.alignment_heads,
                    "head_order": list(one_layer.head_order),
                },
            },
        },
        weights=model.weights,
        extra=extra,
    )
