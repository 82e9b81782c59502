"""Which cross-attention heads of a model say what a word translates: what `attnlab align` computes."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import pandas as pd
import torch

from attnlab.alignment import (
    MARIAN_LAYER,
    AlignmentHeads,
    FoundLinks,
    Link,
    Row,
    ctranslate2_heads,
    gold_links,
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
from attnlab.evaluation import notes_on_training, notes_on_unknown, versions_in_words
from attnlab.labels import AER
from attnlab.models import Model, Source, model_of
from attnlab.questions.align.alignment_files import HEADS_FILE, LINKS_FILE, REVERSE_HEADS_FILE
from attnlab.questions.align.alignment_tables import (
    add_scores,
    addresses,
    calibration_curve,
    head_rows,
    property_rows,
    step_rows,
    system_rows,
)
from attnlab.questions.align.chosen_heads import (
    BothDirections,
    Chosen,
    Part,
    choices,
    found_links,
    greedy_paths,
    halves,
    heads_differ,
    heads_for_engines,
    heads_without_gold,
    part_of,
    statistical_aligner,
)
from attnlab.questions.align.compared_systems import (
    System,
    baselines,
    controls,
    of_heads,
    other_heads,
)
from attnlab.questions.align.corpus_links import Aligner, CorpusLinks, write_links
from attnlab.questions.align.generated_words import compare_generated
from attnlab.questions.align.other_direction import (
    OtherDirection,
    joined_links,
    other_direction,
    reverse_model,
    systems_of_both,
)
from attnlab.questions.align.question import (
    CHOSEN,
    OF_ENGINES,
    QUESTION,
    REVERSE,
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
    AlignedPairs,
    ReadPairs,
    WordPairs,
    asked_pairs,
    model_of_languages,
    pairs_of,
)
from attnlab.questions.align.word_times import align_audio
from attnlab.reading import reads_audio
from attnlab.results import Result, check_writes

# Of so many pairs the page shows the links.
SHOWN = 8
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
    if settings.heads is not None:
        return _with_given_heads(model, back, settings)
    pairs = pairs_of(model, asked_pairs(settings))
    return (_with_gold if pairs.links else _without_gold)(model, back, pairs, settings)


def _with_gold(
    model: Model, back: Model | None, pairs: WordPairs, settings: AlignmentSettings
) -> Result:
    aligned, read, calibration, report = halves(model, pairs, settings)
    others = [] if settings.calibration is None else calibration.words
    statistical = statistical_aligner(model, [*pairs.words, *others], settings)
    paths = greedy_paths(calibration)
    found = choices(calibration, paths, statistical, aligned.shape[1])
    wanted = settings.wanted or "set"
    if wanted not in found:
        raise InputError(_NOTHING_TELLS)
    chosen = found[wanted]
    other = other_direction(back, pairs, wanted, settings, statistical)
    systems = [
        of_heads(CHOSEN, "choice", report, chosen),
        *other_heads(report, found, wanted, aligned.shape),
        *systems_of_both(report, chosen, other),
        *baselines(report, statistical),
        *controls(model, pairs, report, chosen, settings, how=(wanted, statistical)),
    ]
    generated = compare_generated(model, report, chosen, settings)
    by = "gold links" if wanted != "unsupervised" else _without_links(statistical)
    score = _score(systems[0], pairs) | {"sentences": len(calibration.numbers)}
    reverse = [one for one in systems if one.name == REVERSE]
    beside = "that stand between them" if settings.calibration is None else calibration.pairs.origin
    per_layer = aligned.shape[1]
    return _result(
        model,
        settings,
        tables={
            "systems": system_rows(systems, per_layer),
            "heads": head_rows(calibration, report, chosen, per_layer),
            "steps": step_rows(paths, report, per_layer),
            "calibration": calibration_curve(calibration, report, settings),
            **generated.tables,
        },
        about={
            "Pairs": f"{len(report.numbers)} from {pairs.origin}",
            "Heads chosen on": f"{len(calibration.numbers)} pairs, {beside}",
        },
        notes=[
            *notes_on_unknown({"": aligned.reading.sentences}),
            *_notes_on_pairs(settings, pairs, read, other),
            *notes_on_overlap(calibration.words, report.words),
            *notes_on_intervals(len(report.numbers)),
            *generated.notes,
        ],
        heads=_Heads(
            _heads_file(model, chosen, aligned.shape, settings, by=by, score=score),
            _reverse_file(other, settings, by, *(_score(one, pairs) for one in reverse)),
            {name: one for name, one in found.items() if name in OF_ENGINES},
        ),
        kept=_kept(
            part_of(pairs, read), chosen, report.numbers, settings, other, per_layer=per_layer
        ),
    )


def _without_gold(
    model: Model, back: Model | None, pairs: WordPairs, settings: AlignmentSettings
) -> Result:
    if settings.wanted not in {None, "unsupervised"}:
        msg = (
            "Heads are chosen by gold links, and there are none; give gold, or choose unsupervised."
        )
        raise InputError(msg)
    if settings.calibration is not None:
        msg = "calibration needs gold links of the pairs; give gold, or leave calibration out."
        raise InputError(msg)
    aligned = AlignedPairs(model, pairs, memory=settings.memory)
    read = aligned.read(settings, "Reading pairs")
    part = part_of(pairs, read)
    statistical = statistical_aligner(model, part.words, settings)
    chosen = heads_without_gold(part, statistical)
    if chosen is None:
        raise InputError(_NOTHING_TELLS)
    differ = heads_differ(part, statistical)
    other = other_direction(back, pairs, "unsupervised", settings, statistical)
    engines = (
        {}
        if statistical is None
        else heads_for_engines(part.with_links(statistical.links(part.words)), aligned.shape[1])
    )
    per_layer = aligned.shape[1]
    kept = _kept(part, chosen, read.numbers, settings, other, per_layer=per_layer)
    alone = found_links(read, chosen)
    named = addresses(chosen.heads, per_layer)
    systems = [_scoreless(CHOSEN, len(alone), sum(map(len, alone.values())), chosen.row, named)]
    if other is not None:
        links = sum(len(one.weights) for one in kept.links)
        systems.append(_scoreless(both_named(settings.how_symmetrized), kept.aligned, links))
    by, score = _without_links(statistical), {"sentences": len(read.numbers)}
    return _result(
        model,
        settings,
        tables={
            "systems": pd.DataFrame(systems),
            "heads": property_rows(part, chosen, aligned.shape[1]),
        },
        about={"Pairs": f"{len(read.numbers)} from {pairs.origin}"},
        notes=[
            NoGold(),
            *(() if differ else [HeadsAlike(by)]),
            *notes_on_unknown({"": aligned.reading.sentences}),
            *_notes_on_pairs(settings, pairs, read, other),
        ],
        heads=_Heads(
            _heads_file(model, chosen, aligned.shape, settings, by=by, score=score),
            _reverse_file(other, settings, by),
            engines if differ else None,
        ),
        kept=kept,
    )


def _with_given_heads(model: Model, back: Model | None, settings: AlignmentSettings) -> Result:
    """The links of all pairs by heads that were chosen before; memory does not grow with the pairs."""
    assert settings.heads is not None  # noqa: S101 - that is what this is for
    given, other = read_heads(settings.heads), None
    if back is not None and settings.reverse_heads is not None:
        other = Aligner(back, read_heads(settings.reverse_heads), "heads of the other direction")
    corpus = CorpusLinks(Aligner(model, given), settings, other)
    corpus.write()
    alone, both = corpus.alone, corpus.written
    named = addresses(given.numbers, given.heads_per_layer)
    systems = [_scoreless(CHOSEN, alone.aligned, alone.links, given.row, named)]
    counted = [alone]
    if other is not None:
        name = both_named(settings.how_symmetrized)
        systems.append(_scoreless(name, both.aligned, both.links))
        counted.append(both)
    for row, one in zip(systems, counted, strict=True):
        if one.counts:
            add_scores([row], torch.cat(one.counts)[None])
    table = pd.DataFrame(
        {
            "layer": [layer for layer, _ in given.heads],
            "head": [head for _, head in given.heads],
            "row": given.row,
            "chosen": True,
        }
    )
    return _result(
        model,
        settings,
        tables={"systems": pd.DataFrame(systems), "heads": table},
        about={
            "Pairs": f"{both.aligned} from {corpus.origin}",
            "Heads from": path_label(settings.heads),
        },
        notes=[
            *notes_on_pairs(
                settings, corpus.origin, corpus.pairs, both.aligned, corpus.first_unaligned
            ),
            *(notes_on_intervals(both.aligned) if both.counts else ()),
        ],
        heads=_Heads(given, None if other is None else other.heads),
    )


def _scoreless(
    system: str, pairs: int, links: int, row: str = "", heads: str = ""
) -> dict[str, Any]:
    """A row of `systems` before any score; links of two models are of no one row, and no one's heads."""
    return {
        "system": system, "kind": "choice", "row": row, "heads": heads, "pairs": pairs, "links": links,
    }  # fmt: skip


def _notes_on_pairs(
    settings: AlignmentSettings, pairs: WordPairs, read: ReadPairs, other: OtherDirection | None
) -> list[Note]:
    """As `notes_on_pairs`; a pair has links where either direction can be read on it."""
    back = {} if other is None else other.links
    without = {number: why for number, why in read.unaligned.items() if number not in back}
    first = next(iter(without.items()), None)
    return notes_on_pairs(settings, pairs.origin, len(pairs), len(pairs) - len(without), first)


def _score(system: System, pairs: WordPairs) -> dict[str, Any]:
    (one,) = score_intervals(system.counts[None], "aer")
    low, high = one.interval or (None, None)
    return {
        "aer": one.change,
        "aer_low": low,
        "aer_high": high,
        "scored_on": f"{len(system.counts)} pairs of {pairs.origin}",
    }


def _without_links(statistical: BothDirections | None) -> str:
    """What heads are chosen by where there are no gold links."""
    return "words written alike" if statistical is None else "a statistical aligner"


def _heads_file(
    model: Model,
    chosen: Chosen,
    shape: tuple[int, int],
    settings: AlignmentSettings,
    *,
    by: str,
    score: Mapping[str, Any],
) -> AlignmentHeads:
    """`score`: AER and on how many pairs heads were chosen; without gold links the latter alone."""
    layers, per_layer = shape
    return AlignmentHeads(
        heads=_layers_and_heads(chosen, per_layer),
        row=chosen.row,
        from_word=settings.from_tokens,
        rule="target",
        layers=layers,
        heads_per_layer=per_layer,
        model=model.label,
        checksum=model.checksum,
        chosen_by=by,
        **score,
    )


def _reverse_file(
    other: OtherDirection | None,
    settings: AlignmentSettings,
    by: str,
    score: Mapping[str, Any] = MappingProxyType({}),
) -> AlignmentHeads | None:
    """The heads of the other direction, with their AER where there are gold links."""
    if other is None:
        return None
    scored = {**score, "sentences": other.chosen_on}
    return _heads_file(other.model, other.chosen, other.shape, settings, by=by, score=scored)


def _layers_and_heads(chosen: Chosen, per_layer: int) -> tuple[tuple[int, int], ...]:
    return tuple((head // per_layer, head % per_layer) for head in chosen.heads)


class _Heads(NamedTuple):
    """The heads of a result: chosen or given, of the other direction, and what engines can be told of.

    `engines` is None where heads do not differ beyond chance, so that engines are told of none.
    """

    chosen: AlignmentHeads
    reverse: AlignmentHeads | None = None
    engines: Mapping[Choice, Chosen] | None = MappingProxyType({})

    def for_engine(self, choice: Choice) -> tuple[tuple[tuple[int, int], ...], Row]:
        """The (layer, head) that are best for an engine and their row, else the chosen ones."""
        found = (self.engines or {}).get(choice)
        if found is None:
            return self.chosen.heads, self.chosen.row
        return _layers_and_heads(found, self.chosen.heads_per_layer), found.row

    def configuration(self) -> dict[str, Any]:
        """What other programs take; None where one of them cannot be told of any of these heads."""
        if self.engines is None:
            return dict.fromkeys(("generation_config", "ctranslate2", "marian"))
        one_layer, row = self.for_engine("one-layer")
        engine = ctranslate2_heads(one_layer, self.chosen.heads_per_layer, row)
        first, row = self.for_engine("first-head")
        layer = marian_layer(first, row)
        return {
            "generation_config": whisper_heads(self.chosen.heads),
            "ctranslate2": engine
            and {
                "heads": [list(one) for one in one_layer],
                "alignment_layer": engine.alignment_layer,
                "alignment_heads": engine.alignment_heads,
                "head_order": list(engine.head_order),
            },
            "marian": layer
            and {
                "heads": [list(one) for one in first],
                MARIAN_LAYER: layer,
            },
        }


class _Kept(NamedTuple):
    """What a result keeps of the links: of all pairs, of how many there are any, and what the page shows."""

    links: list[FoundLinks]
    aligned: int
    shown: list[dict[str, Any]]


def _kept(
    whole: Part,
    chosen: Chosen,
    reported: Sequence[int],
    settings: AlignmentSettings,
    other: OtherDirection | None,
    *,
    per_layer: int,
) -> _Kept:
    """The links of every pair that was given, and of the first reported ones those of every head too."""
    pairs, links = whole.pairs, found_links(whole, chosen)
    if other is not None:
        links = joined_links(links, other.links, settings.how_symmetrized)
    every = [FoundLinks(*words, links.get(number, {})) for number, words in enumerate(pairs.words)]
    first = reported[:SHOWN]
    part = whole.of([whole.numbers.index(number) for number in first])
    shown = []
    for number, grids in zip(first, linked(part.weights[chosen.row]), strict=True):
        gold = pairs.links[number] if pairs.links else gold_links(())
        alone = {
            addresses([head], per_layer): _listed(links_in(grid)) for head, grid in enumerate(grids)
        }
        shown.append(
            {
                "source": list(pairs.words[number][0]),
                "target": list(pairs.words[number][1]),
                "sure": _listed(gold.sure),
                "possible": _listed(gold.possible),
                "links": {"chosen": _listed(links[number]), **alone},
            }
        )
    return _Kept(every, len(links), shown)


def _listed(links: Collection[Link]) -> list[list[int]]:
    return [list(link) for link in sorted(links)]


def _result(
    model: Model,
    settings: AlignmentSettings,
    *,
    tables: Mapping[str, pd.DataFrame],
    about: Mapping[str, str],
    notes: Sequence[Note],
    heads: _Heads,
    kept: _Kept | None = None,
) -> Result:
    """The result; the links that are kept are written too where that was asked for."""
    heads_file = heads.chosen
    extra = {HEADS_FILE: partial(write_heads, heads=heads_file)}
    if heads.reverse is not None:
        extra[REVERSE_HEADS_FILE] = partial(write_heads, heads=heads.reverse)
        about = {
            **about,
            "Model of the other direction": heads.reverse.model,
            "Its heads": f"{addresses(heads.reverse.numbers, heads.reverse.heads_per_layer)}, "
            f"{heads.reverse.row} row",
            "Links": both_named(settings.how_symmetrized),
        }
    if kept is not None:
        write_links(settings.links, iter(kept.links))
        text = "".join(f"{pharaoh_line(one.weights)}\n" for one in kept.links)
        extra[LINKS_FILE] = partial(write_text, text=text)
    notes = [*notes_on_training(model), *notes]
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
            "links_of": CHOSEN if heads.reverse is None else both_named(settings.how_symmetrized),
            "pairs": [] if kept is None else kept.shown,
            "configuration": heads.configuration(),
        },
        weights=model.weights,
        extra=extra,
    )
