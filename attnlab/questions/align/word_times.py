"""Which cross-attention heads of Whisper say when a word was spoken: `attnlab align` on audio."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch
from jaxtyping import Float64
from torch import Tensor

from attnlab.ablation import paired_differences, ratio
from attnlab.alignment import (
    MOST_HEADS,
    AlignmentHeads,
    read_heads,
    whisper_heads,
    write_heads,
)
from attnlab.core import InputError, path_label, usable_device, write_table
from attnlab.evaluation import Steps
from attnlab.labels import untrained_twin
from attnlab.models import Model
from attnlab.questions.align.compared_systems import unscored
from attnlab.questions.align.heard_words import HeardWords, Hearing, hear, spoken_words
from attnlab.questions.align.question import (
    CHOICE_NAMES,
    CHOSEN,
    HEADS_FILE,
    ORACLE,
    QUESTION,
    START_CHANGE,
    START_ERROR,
    SYSTEMS,
    AlignmentSettings,
    notes_on_intervals,
    notes_on_pairs,
)
from attnlab.questions.align.word_reading import Chosen, origin_of
from attnlab.reading import ATTENTION
from attnlab.results import Result

# Heads that are added to a set: among so many that are best alone.
CANDIDATES = 24
HEADS_OF_MODEL = "alignment_heads of the model"
LAST_HALF = "mean of the last half of the layers"
EVEN = "words spread evenly"
Errors = Float64[Tensor, "audio 2"]


@dataclass(frozen=True)
class _Part:
    """Audio that heads are chosen or scored on.

    Attributes:
        heard: each with the weights of all heads.
        alone: of every head the sum of absolute errors in seconds and the number of words of each audio.
    """

    heard: Sequence[HeardWords]
    alone: Float64[Tensor, "head audio 2"]

    def of_set(self, heads: Sequence[int]) -> Errors:
        """The errors of the mean over some heads."""
        return torch.stack([audio.errors(audio.starts_by(heads)) for audio in self.heard])


class _System(NamedTuple):
    """A way to find when words begin, and its errors."""

    name: str
    kind: str
    errors: Errors
    heads: tuple[int, ...] = ()


@dataclass(frozen=True)
class _Path:
    """Heads as they were added, and the mean error of the first, of the first two, and so on, in seconds."""

    heads: tuple[int, ...]
    errors: tuple[float, ...]

    @property
    def chosen(self) -> tuple[int, ...]:
        """The first heads whose mean has the least error, the fewest of equal ones."""
        return self.heads[: self.errors.index(min(self.errors)) + 1]


def align_audio(model: Model, settings: AlignmentSettings) -> Result:
    """The heads of Whisper whose weights say when a word was spoken, and how good they are.

    Starts of words are found as transformers finds those of tokens (`token_times`), under teacher forcing on
    the transcript. Heads are chosen on every other audio by the mean absolute error of starts, greedily among
    the `CANDIDATES` that are best alone, and scored on the rest, beside the model's own list, the heads of
    the last half of the layers, words spread evenly, and an untrained twin. The row `input` is what
    transformers reads; OpenAI's Whisper and CTranslate2 take `output`.

    Returns:
        The tables `systems`, `heads` and `words`; as `extra` `heads.json`.

    Raises:
        InputError: an option is of texts, a file cannot be read, or no word has a token.
    """
    _check_options(model, settings)
    _set_language(model, settings.source_language)
    model.move_to(usable_device(settings.device))
    given = spoken_words(model, settings.pairs, settings.sentences)
    if settings.heads is not None:
        file = read_heads(settings.heads)
        about = {"Heads from": path_label(str(settings.heads))}
        # The file says what is read, which settings refuse beside heads.
        settings = replace(settings, heads=None, row=file.row, weights=file.weights)
        hearing = hear(model, given, settings)
        file.check_fits(*hearing.shape, model.checksum)
        report = _part(hearing.heard)
        systems = [_of_heads(CHOSEN, "choice", report, file.numbers)]
    else:
        hearing = hear(model, given, settings)
        calibration, report = _halves(model, hearing, settings)
        systems = list(_systems(model, hearing, calibration, report, settings))
        file = _file(model, hearing.shape, systems[0], len(calibration.heard), settings)
        about = {"Heads chosen on": f"{len(calibration.heard)} audio files"}
    words = _word_rows(report.heard, file.numbers)
    if settings.links is not None:
        write_table(Path(settings.links), words)
    tables = {
        "systems": _system_rows(systems, hearing.shape[1], settings),
        "heads": _head_rows(report, file),
        "words": words,
    }
    first = next(iter(hearing.unaligned.items()), None)
    notes = [
        *notes_on_pairs(settings, origin_of(settings), len(given), len(hearing.heard), first),
        *notes_on_intervals(len(report.heard)),
        *hearing.notes,
    ]
    count = f"{len(report.heard)}, {int(systems[0].errors[:, 1].sum())} words"
    return Result(
        QUESTION.name,
        f"Alignment heads of {model.label}",
        tables,
        {
            **model.facts,
            "Audio": f"{count}, from {origin_of(settings)}",
            **about,
            "Target words": "read by the model (teacher forcing)",
            "Starts of words": f"path of the first token's {file.row} row, standardized, median of "
            f"{model.model.config.median_filter_width} frames",
        },
        tuple(notes),
        {
            "gold": True,
            "row": file.row,
            "layers": file.layers,
            "heads_per_layer": file.heads_per_layer,
            "chosen": [list(head) for head in file.heads],
            "pairs": [],
            "configuration": {
                "generation_config": whisper_heads(file.heads)
                if file.weights == ATTENTION
                else None
            },
        },
        weights=model.weights,
        extra={HEADS_FILE: partial(write_heads, heads=file)},
    )


def _check_options(model: Model, settings: AlignmentSettings) -> None:
    """Raises InputError for what is asked of texts alone."""
    for name in ("pair", "gold", "baseline_links", "reverse", "target_language"):
        if getattr(settings, name) is not None:
            what = name.replace("_", " ")
            msg = f"{model.label} reads audio, of which there is no {what}; leave it out."
            raise InputError(msg)
    if settings.choose not in {None, "set", "single"}:
        msg = "Heads of audio are chosen by when words begin; choose set or single."
        raise InputError(msg)


def _set_language(model: Model, language: str | None) -> None:
    """Sets which language is spoken, where the tokenizer knows several."""
    tokenizer = model.both_tokenizers.target
    if language is None:
        several = getattr(model.model.generation_config, "lang_to_id", None)
        if several and getattr(tokenizer, "language", None) is None:
            msg = f"{model.label} knows {len(several)} languages; say which is spoken (source language, en)."
            raise InputError(msg)
        return
    try:
        tokenizer.set_prefix_tokens(language=language, task="transcribe")
    except (AttributeError, ValueError) as error:
        msg = (
            f"The tokenizer of {model.label} does not know the language '{language}'; name another."
        )
        raise InputError(msg) from error


def _part(heard: Sequence[HeardWords]) -> _Part:
    alone = [audio.errors(audio.starts_by_each(audio.weights)) for audio in heard]
    return _Part(heard, torch.stack(alone, 1))


def _halves(
    model: Model,
    hearing: Hearing,
    settings: AlignmentSettings,
    twin: object = None,
) -> tuple[_Part, _Part]:
    """Audio that heads are chosen on, and the rest, or all beside the file of calibration.

    Raises:
        InputError: there is too little.
    """
    whole = hearing.heard
    if settings.calibration is not None:
        others = spoken_words(model, settings.calibration, None)
        return _part(hear(model, others, settings, twin=twin).heard), _part(whole)
    if len(whole) < 2:
        msg = "Heads are chosen on one half of the audio and scored on the other; give at least two files."
        raise InputError(msg)
    return _part(whole[::2]), _part(whole[1::2])


def _mean_error(errors: Float64[Tensor, "*system audio 2"]) -> Float64[Tensor, "*system"]:
    sums, words = errors.sum(-2).unbind(-1)
    return sums / words


def choose_heads(part: _Part, settings: AlignmentSettings) -> _Path:
    """Heads added one by one, each so that the mean absolute error of starts is least."""
    best = _mean_error(part.alone).argsort(stable=True)[:CANDIDATES].tolist()
    heads, errors = [best[0]], [float(_mean_error(part.alone[best[0]]))]
    most = min(MOST_HEADS, len(best))
    steps = Steps("Choosing heads", (most - 1) * len(part.heard), settings.progress)
    while len(heads) < most:
        rest = [head for head in best if head not in heads]
        tried = torch.stack(
            [steps.of(partial(_with_each, audio, heads, rest))() for audio in part.heard], 1
        )
        means = _mean_error(tried)
        place = int(means.argmin())
        heads.append(rest[place])
        errors.append(float(means[place]))
    return _Path(tuple(heads), tuple(errors))


def _with_each(
    audio: HeardWords, heads: Sequence[int], rest: Sequence[int]
) -> Float64[Tensor, "head 2"]:
    """The errors of the mean over `heads` and one of the rest."""
    total = audio.weights[list(heads)].sum(0) + audio.weights[list(rest)]
    return audio.errors(audio.starts_by_each(total / (len(heads) + 1)))


def _of_heads(name: str, kind: str, part: _Part, heads: Sequence[int]) -> _System:
    return _System(name, kind, part.of_set(heads), tuple(heads))


def _systems(
    model: Model,
    hearing: Hearing,
    calibration: _Part,
    report: _Part,
    settings: AlignmentSettings,
) -> Iterator[_System]:
    """The chosen heads, and what they are compared with."""
    path = choose_heads(calibration, settings)
    choices = _choices(path)
    yield _of_heads(CHOSEN, "choice", report, choices.pop(settings.choose or "set"))
    for name, heads in choices.items():
        yield _of_heads(CHOICE_NAMES[name], "choice", report, heads)
    layers, each = hearing.shape
    configured = getattr(model.model.generation_config, "alignment_heads", None) or ()
    if configured and all(layer < layers and head < each for layer, head in configured):
        numbers = [layer * each + head for layer, head in configured]
        yield _of_heads(HEADS_OF_MODEL, "default", report, numbers)
    half = range(layers // 2 * each, layers * each)
    yield _of_heads(LAST_HALF, "default", report, half)
    even = [
        audio.errors(audio.words * audio.spoken.audio.seconds / len(audio.spoken.words))
        for audio in report.heard
    ]
    yield _System(EVEN, "baseline", torch.stack(even))
    if not settings.quick:
        yield _untrained(model, settings)
    yield _of_heads(ORACLE, "bound", report, choose_heads(report, settings).chosen)


def _choices(path: _Path) -> dict[str, tuple[int, ...]]:
    """What can be chosen, by name."""
    return {"set": path.chosen, "single": path.heads[:1]}


def _untrained(model: Model, settings: AlignmentSettings) -> _System:
    """What an untrained model finds, its heads chosen alike."""
    twin = untrained_twin(model.model, model.seed)
    given = spoken_words(model, settings.pairs, settings.sentences)
    hearing = hear(model, given, settings, what="Control: untrained model", twin=twin)
    calibration, report = _halves(model, hearing, settings, twin)
    heads = _choices(choose_heads(calibration, settings))[settings.choose or "set"]
    return _of_heads("untrained twin, chosen alike", "control", report, heads)


def _system_rows(
    systems: Sequence[_System], per_layer: int, settings: AlignmentSettings
) -> pd.DataFrame:
    errors = [system.errors for system in systems]
    means = paired_differences(None, errors, ratio)
    rows = [
        unscored(
            system.name,
            len(system.errors),
            0,
            Chosen(_row(settings), system.heads, per_layer) if system.heads else None,
        )
        | {"system_kind": system.kind, "words": int(system.errors[:, 1].sum())}
        | START_ERROR.cells(mean.change, mean.low, mean.high)
        for system, mean in zip(systems, means, strict=True)
    ]
    rows[0] |= START_CHANGE.cells(float("nan"), p=float("nan"))
    changes = paired_differences(errors[0], errors[1:], ratio)
    for row, change in zip(rows[1:], changes, strict=True):
        row.update(change.cells(START_CHANGE))
    columns = [name for name in SYSTEMS if name in rows[0]]
    return pd.DataFrame(rows)[columns].drop(columns="links_given")


def _row(settings: AlignmentSettings) -> Any:
    return "output" if settings.row == "output" else "input"


def _head_rows(report: _Part, file: AlignmentHeads) -> pd.DataFrame:
    means = paired_differences(None, list(report.alone), ratio)
    rows = [
        {
            "site": "cross",
            "layer": head // file.heads_per_layer,
            "head": head % file.heads_per_layer,
            "row": file.row,
            **START_ERROR.cells(mean.change, mean.low, mean.high),
            "chosen_head": head in file.numbers,
        }
        for head, mean in enumerate(means)
    ]
    return pd.DataFrame(rows)


def _word_rows(heard: Sequence[HeardWords], heads: Sequence[int]) -> pd.DataFrame:
    """When each word begins, and when by the heads."""
    rows = [
        {
            "pair": number,
            "audio": audio.spoken.audio.name,
            "word_number": int(word),
            "word": audio.spoken.words[word].word,
            "start": audio.spoken.words[word].start,
            "start_by_heads": float(start),
        }
        for number, audio in enumerate(heard, start=1)
        for word, start in zip(audio.words, audio.starts_by(heads), strict=True)
    ]
    return pd.DataFrame(rows)


def _file(
    model: Model,
    shape: tuple[int, int],
    chosen: _System,
    sentences: int,
    settings: AlignmentSettings,
) -> AlignmentHeads:
    layers, each = shape
    (error,) = paired_differences(None, [chosen.errors], ratio)
    low, high = error.interval or (None, None)
    return AlignmentHeads(
        heads=tuple((head // each, head % each) for head in chosen.heads),
        row=_row(settings),
        from_word="first",
        rule="target",
        layers=layers,
        heads_per_layer=each,
        model=model.label,
        checksum=model.checksum,
        chosen_by="starts of words",
        sentences=sentences,
        start_error=error.change,
        start_error_low=low,
        start_error_high=high,
        scored_on=f"{len(chosen.errors)} audio files of {origin_of(settings)}",
        weights=settings.read_weights,
    )
