"""Which cross-attention heads of a model say what a word translates: what `attnlab align` computes."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import pandas as pd
import torch

from attnlab.alignment import (
    MARIAN_LAYER,
    AlignmentHeads,
    FoundLinks,
    Link,
    StatisticalAligner,
    ctranslate2_heads,
    linked,
    links_in,
    marian_layer,
    pharaoh_line,
    read_heads,
    score_intervals,
    whisper_heads,
    write_heads,
)
from attnlab.core import (
    InputError,
    Note,
    last_in_place,
    options_of,
    path_label,
    usable_device,
    write_text,
)
from attnlab.evaluation import notes_on_training, notes_on_unknown
from attnlab.labels import AER
from attnlab.models import Model, Source, model_of
from attnlab.questions.align.chosen_heads import (
    Direction,
    choices,
    halves,
    heads_differ,
    statistical_aligner,
)
from attnlab.questions.align.compared_systems import (
    add_scores,
    baselines,
    calibration_curve,
    controls,
    head_rows,
    links_given,
    of_heads,
    other_heads,
    step_rows,
    system_rows,
    unscored,
)
from attnlab.questions.align.corpus_links import Aligner, CorpusLinks, write_links
from attnlab.questions.align.generated_words import compare_generated
from attnlab.questions.align.other_direction import (
    exchanged_links,
    joined_links,
    other_direction,
    reverse_model,
    systems_of_both,
)
from attnlab.questions.align.question import (
    CHOSEN,
    HEADS_FILE,
    LINKS_FILE,
    OF_ENGINES,
    QUESTION,
    REVERSE,
    REVERSE_HEADS_FILE,
    AlignmentSettings,
    Choice,
    HeadsAlike,
    NoGold,
    both_named,
    notes_on_intervals,
    notes_on_overlap,
    notes_on_pairs,
)
from attnlab.questions.align.word_reading import (
    Chosen,
    WordPairs,
    check_languages,
    links_of_baseline,
    model_of_languages,
    pairs_of,
)
from attnlab.questions.align.word_times import align_audio
from attnlab.reading import ATTENTION, reads_audio
from attnlab.results import Result, check_writes

# Of so many pairs the page shows the links.
SHOWN = 8


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
        InputError: the source has no cross-attention, a file cannot be read, no pair can be aligned, or the
            links would replace what is read, or a file without `overwrite`.
    """
    check_writes(QUESTION, source, settings, overwrite=settings.overwrite)
    with last_in_place([] if settings.links is None else [settings.links]):
        return _aligned(source, settings)


def _aligned(source: Source, settings: AlignmentSettings) -> Result:
    device = usable_device(settings.device)
    loaded = model_of(source, scores=False)
    if reads_audio(loaded.model):
        return align_audio(loaded, settings)
    if settings.heads is not None and settings.links is None and settings.gold is None:
        msg = "heads are given, and nothing is asked of them; name a file for the links, or gold links."
        raise InputError(msg)
    model = model_of_languages(loaded, settings)
    model.move_to(device)
    back = None if settings.reverse is None else reverse_model(model, settings)
    check_languages(settings)
    if settings.heads is not None:
        return _with_given_heads(model, back, settings)
    return _with_chosen_heads(model, back, pairs_of(model, settings), settings)


class _Answer(NamedTuple):
    """What a result holds of the heads, whether they were chosen or given.

    Attributes:
        tables: by name.
        about: where pairs and heads come from.
        notes: on pairs and heads.
        heads: the heads, as a file.
        reverse: those of the other direction.
        engines: what engines can be told of; None where heads do not differ beyond chance.
        links: of every pair; None where they were written already.
        shown: pairs that the page shows.
    """

    tables: Mapping[str, pd.DataFrame]
    about: Mapping[str, str]
    notes: Sequence[Note]
    heads: AlignmentHeads
    reverse: AlignmentHeads | None = None
    engines: Mapping[Choice, Chosen] | None = None
    links: Sequence[FoundLinks] | None = None
    shown: Sequence[Mapping[str, Any]] = ()


def _with_chosen_heads(
    model: Model, back: Model | None, pairs: WordPairs, settings: AlignmentSettings
) -> Result:
    """Heads chosen on one half of the pairs and scored on the other, or chosen without gold links."""
    choice = _choice(pairs, settings)
    given = links_of_baseline(pairs, settings)
    read = halves(model, pairs, settings)
    words = pairs.words if pairs.links else read.whole.words
    others = [] if settings.calibration is None else read.calibration.words
    statistical = statistical_aligner(model, [*words, *others], settings)
    chosen = choices(read.calibration, statistical)
    if choice not in chosen:
        msg = "No pair has two words with tokens on both sides, so nothing tells heads apart."
        raise InputError(msg)
    forward = Direction(model, read, chosen[choice])
    other = other_direction(back, pairs, choice, settings, statistical)
    links = _links(forward, other, settings)
    by = "words written alike" if statistical is None else "a statistical aligner"
    by = by if choice == "unsupervised" else "gold links"
    task = _Asked(forward, other, links, chosen, choice, statistical, given, by, settings)
    answer = (_scored if pairs.links else _without_gold)(task)
    without = {n: why for n, why in read.aligned.unaligned.items() if n not in links}
    first = next(iter(without.items()), None)
    aligned = len(pairs) - len(without)
    return _result(
        model,
        settings,
        answer._replace(
            notes=[
                *answer.notes,
                *notes_on_unknown({"": read.aligned.reading.sentences}),
                *notes_on_pairs(settings, pairs.origin, len(pairs), aligned, first),
                *read.aligned.reading.notes,
            ],
            links=[FoundLinks(*pair, links.get(n, {})) for n, pair in enumerate(pairs.words)],
            shown=list(_shown(forward, links)),
        ),
    )


def _choice(pairs: WordPairs, settings: AlignmentSettings) -> Choice:
    """What is to be chosen; raises InputError for what needs gold links where there are none."""
    choice: Any = settings.choose or ("set" if pairs.links else "unsupervised")
    if not pairs.links and choice != "unsupervised":
        msg = (
            "Heads are chosen by gold links, and there are none; give gold, or choose unsupervised."
        )
        raise InputError(msg)
    for name in ("calibration", "baseline_links"):
        if not pairs.links and getattr(settings, name) is not None:
            msg = f"{name} needs gold links of the pairs; give gold, or leave {name} out."
            raise InputError(msg, options=[name])
    chosen: Choice = choice
    return chosen


class _Asked(NamedTuple):
    """Heads that were chosen, and how.

    Attributes:
        forward: the model of the pairs.
        other: that of the other direction.
        links: of every pair that one of them could read, by number.
        chosen: what can be chosen, by name.
        choice: which of these is.
        statistical: the aligner that learned from text alone.
        given: the links of another aligner in all pairs.
        by: what heads are chosen by, in words.
        settings: those of the question.
    """

    forward: Direction
    other: Direction | None
    links: Mapping[int, Mapping[Link, float]]
    chosen: Mapping[Choice, Chosen]
    choice: Choice
    statistical: StatisticalAligner | None
    given: Sequence[frozenset[Link]] | None
    by: str
    settings: AlignmentSettings

    def file(self, direction: Direction, score: Mapping[str, Any]) -> AlignmentHeads:
        """The heads of a direction as a file."""
        layers, per_layer = direction.read.aligned.shape
        return AlignmentHeads(
            heads=direction.chosen.addresses,
            row=direction.chosen.row,
            from_word=self.settings.from_tokens,
            rule="target",
            layers=layers,
            heads_per_layer=per_layer,
            model=direction.model.label,
            checksum=direction.model.checksum,
            chosen_by=self.by,
            sentences=len(direction.read.calibration.numbers),
            weights=self.settings.read_weights,
            **score,
        )


def _scored(task: _Asked) -> _Answer:
    """The answer with gold links: the chosen heads beside other ways to align."""
    forward, other, settings = task.forward, task.other, task.settings
    model, pairs = forward.model, forward.read.whole.pairs
    calibration, report = forward.read.calibration, forward.read.report
    how = task.choice, task.statistical
    systems = [
        of_heads(CHOSEN, "choice", report, forward.chosen),
        *other_heads(report, task.chosen, task.choice),
        *systems_of_both(report, forward, other),
        *baselines(report, task.statistical),
        *links_given(report, task.given, settings),
        *controls(model, pairs, report, forward.chosen, settings, how=how),
    ]
    table = system_rows(systems)
    generation, notes = compare_generated(model, report, forward.chosen, settings)
    tables = {
        "systems": table,
        "heads": head_rows(calibration, report, forward.chosen),
        "steps": step_rows(calibration, report),
        "calibration": calibration_curve(calibration, report, settings),
    }
    score = {
        system.name: {
            **_score(system.counts),
            "scored_on": f"{len(system.counts)} pairs of {pairs.origin}",
        }
        for system in systems
        if system.name in {CHOSEN, REVERSE}
    }
    origin = "that stand between them" if settings.calibration is None else calibration.pairs.origin
    return _Answer(
        tables if generation is None else tables | {"generation": generation},
        {
            "Pairs": f"{len(report.numbers)} from {pairs.origin}",
            "Heads chosen on": f"{len(calibration.numbers)} pairs, {origin}",
        },
        [
            *notes_on_overlap(calibration.words, report.words),
            *notes_on_intervals(len(report.numbers)),
            *notes,
        ],
        task.file(forward, score[CHOSEN]),
        None if other is None else task.file(other, score[REVERSE]),
        {name: heads for name, heads in task.chosen.items() if name in OF_ENGINES},
    )


def _score(counts: torch.Tensor) -> dict[str, Any]:
    """AER of one system, with its interval where there is one."""
    (score,) = score_intervals(counts[None], "aer")
    low, high = score.interval or (None, None)
    return {"aer": score.change, "aer_low": low, "aer_high": high}


def _without_gold(task: _Asked) -> _Answer:
    """The answer without gold links: the chosen heads, and how the heads look."""
    forward, other, part = task.forward, task.other, task.forward.read.whole
    alone = forward.links
    systems = [unscored(CHOSEN, len(alone), sum(map(len, alone.values())), forward.chosen)]
    if other is not None:
        name = both_named(task.settings.how_symmetrized)
        systems.append(unscored(name, len(task.links), sum(map(len, task.links.values()))))
    differ = heads_differ(part, task.statistical)
    return _Answer(
        {"systems": pd.DataFrame(systems), "heads": head_rows(part, part, forward.chosen)},
        {"Pairs": f"{len(part.numbers)} from {part.pairs.origin}"},
        [NoGold(), *(() if differ else [HeadsAlike(task.by)])],
        task.file(forward, {}),
        None if other is None else task.file(other, {}),
        {name: heads for name, heads in task.chosen.items() if name in OF_ENGINES}
        if differ
        else None,
    )


def _links(
    forward: Direction, other: Direction | None, settings: AlignmentSettings
) -> dict[int, dict[Link, float]]:
    """The links of every pair that a direction could read, by number."""
    if other is None:
        return forward.links
    back = exchanged_links(other.links)
    return joined_links(forward.links, back, settings.how_symmetrized)


def _shown(
    forward: Direction, links: Mapping[int, Mapping[Link, float]]
) -> Iterable[dict[str, Any]]:
    """Words and links of the first reported pairs, also those of every head alone."""
    whole, row = forward.read.whole, forward.chosen.row
    numbers = forward.read.report.numbers[:SHOWN]
    part = whole.of([whole.numbers.index(number) for number in numbers])
    for number, grids in zip(numbers, linked(part.weights[row]), strict=True):
        source, target = whole.pairs.words[number]
        gold = whole.pairs.links[number] if whole.pairs.links else None
        alone = {
            part.heads(row, head).names: _listed(links_in(grid)) for head, grid in enumerate(grids)
        }
        yield {
            "source": list(source),
            "target": list(target),
            "sure": _listed(gold.sure if gold else ()),
            "possible": _listed(gold.possible if gold else ()),
            "links": {"chosen": _listed(links[number]), **alone},
        }


def _listed(links: Collection[Link]) -> list[list[int]]:
    return [list(link) for link in sorted(links)]


def _with_given_heads(model: Model, back: Model | None, settings: AlignmentSettings) -> Result:
    """The links of all pairs by heads that were chosen before; memory does not grow with the pairs."""
    assert settings.heads is not None  # noqa: S101 - that is what this is for
    heads, other = read_heads(settings.heads), None
    if back is not None and settings.reverse_heads is not None:
        other = Aligner(back, read_heads(settings.reverse_heads), "heads of the other direction")
    corpus = CorpusLinks(Aligner(model, heads), settings, other)
    corpus.write()
    alone, both = corpus.alone, corpus.written
    systems = [unscored(CHOSEN, alone.aligned, alone.links, _chosen_of(heads))]
    if other is not None:
        systems.append(unscored(both_named(settings.how_symmetrized), both.aligned, both.links))
    for row, counted in zip(systems, (alone, both), strict=False):
        if counted.counts:
            add_scores([row], torch.cat(counted.counts)[None])
    table = pd.DataFrame(
        {
            "site": "cross",
            "layer": [layer for layer, _ in heads.heads],
            "head": [head for _, head in heads.heads],
            "row": heads.row,
            "chosen_head": True,
        }
    )
    notes = notes_on_pairs(
        settings, corpus.origin, corpus.pairs, both.aligned, corpus.first_unaligned
    )
    return _result(
        model,
        settings,
        _Answer(
            {"systems": pd.DataFrame(systems), "heads": table},
            {
                "Pairs": f"{both.aligned} from {corpus.origin}",
                "Heads from": path_label(settings.heads),
            },
            [*notes, *(notes_on_intervals(both.aligned) if both.counts else ()), *corpus.notes],
            heads,
            None if other is None else other.heads,
            {},
        ),
    )


def _chosen_of(heads: AlignmentHeads) -> Chosen:
    """The heads of a file, numbered layer by layer."""
    return Chosen(heads.row, heads.numbers, heads.heads_per_layer)


def _result(model: Model, settings: AlignmentSettings, answer: _Answer) -> Result:
    """The result; the links are written too where that was asked for."""
    heads, reverse = answer.heads, answer.reverse
    extra = {HEADS_FILE: partial(write_heads, heads=heads)}
    about, links_of = dict(answer.about), CHOSEN
    if reverse is not None:
        links_of = both_named(settings.how_symmetrized)
        extra[REVERSE_HEADS_FILE] = partial(write_heads, heads=reverse)
        back = _chosen_of(reverse)
        about |= {
            "Model of the other direction": reverse.model,
            "Its heads": f"{back.names}, {back.row} row",
            "Links": links_of,
        }
    if answer.links is not None:
        write_links(settings.links, iter(answer.links))
        text = "".join(f"{pharaoh_line(pair.weights)}\n" for pair in answer.links)
        extra[LINKS_FILE] = partial(write_text, text=text)
    return Result(
        QUESTION.name,
        f"Alignment heads of {model.label}",
        answer.tables,
        {
            **model.facts,
            **model.history,
            **about,
            "Target words": "read by the model (teacher forcing)",
            "Weights of a word": f"{heads.from_word} over its tokens, {heads.row} row",
        },
        (*notes_on_training(model), *answer.notes),
        {
            "gold": AER.name in answer.tables["systems"],
            "chosen_by": heads.chosen_by,
            "row": heads.row,
            "layers": heads.layers,
            "heads_per_layer": heads.heads_per_layer,
            "chosen": [list(head) for head in heads.heads],
            "links_of": links_of,
            "pairs": list(answer.shown),
            "configuration": _configuration(heads, answer.engines),
        },
        weights=model.weights,
        extra=extra,
    )


def _configuration(
    heads: AlignmentHeads, engines: Mapping[Choice, Chosen] | None
) -> dict[str, Any]:
    """What other programs take; None where one of them cannot be told of any of these heads.

    They read attention weights.
    """
    if engines is None or heads.weights != ATTENTION:
        return dict.fromkeys(("generation_config", "ctranslate2", "marian"))
    one_layer, first = (engines.get(choice, _chosen_of(heads)) for choice in OF_ENGINES)
    engine = ctranslate2_heads(one_layer.addresses, one_layer.per_layer, one_layer.row)
    layer = marian_layer(first.addresses, first.row)
    return {
        "generation_config": whisper_heads(heads.heads),
        "ctranslate2": engine
        and {
            "heads": [list(head) for head in one_layer.addresses],
            "alignment_layer": engine.alignment_layer,
            "alignment_heads": engine.alignment_heads,
            "head_order": list(engine.head_order),
        },
        "marian": layer
        and {"heads": [list(head) for head in first.addresses], MARIAN_LAYER: layer},
    }
