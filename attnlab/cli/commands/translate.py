"""`attnlab translate`, `generate` and `score`: what a trained model writes, and how good it is."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from attnlab.cli.command_options import OVERWRITE, check_overwrite, chosen, with_options
from attnlab.cli.output import messages, note_file, print_json, print_text
from attnlab.cli.progress import progress_bars
from attnlab.core import MOST_BEAMS, InputError, Option, check_characters, lines_in, read_lines
from attnlab.corpora import SPLITS
from attnlab.evaluation import DeviceSettings
from attnlab.models import LANGUAGE_MODEL, TRANSLATION, GenerationSettings

_UNKNOWN_SHOWN = 10
_STANDARD_INPUT = "-"
Run = Annotated[Path, typer.Argument(help="A run directory of attnlab train.")]


@dataclass(frozen=True, kw_only=True)
class TranslateSettings(DeviceSettings):
    """Options of `attnlab translate`."""

    beams: Annotated[int, Option("Number of beams; 1 is greedy.", least=1, most=MOST_BEAMS)] = 5


@dataclass(frozen=True, kw_only=True)
class ScoreSettings(TranslateSettings):
    """Options of `attnlab score`."""

    split: Annotated[str, Option(f"Part of the corpus: {', '.join(SPLITS)}.", choices=SPLITS)] = (
        "test"
    )


@with_options(TranslateSettings)
def translate(
    run: Run,
    text: Annotated[
        str | None,
        typer.Argument(
            help="Sentence; - or none reads one per line from standard input, --input from a file."
        ),
    ] = None,
    *,
    file: Annotated[
        Path | None, typer.Option("--input", help="UTF-8 file with one sentence per line.")
    ] = None,
    **options: Any,
) -> None:
    """Prints the translation of each sentence."""
    from attnlab.models import check_task, read_record, task_of

    settings = chosen(TranslateSettings, options)
    check_task(run, task_of(read_record(run)), TRANSLATION)
    sentences = _sentences(text, file)
    if text == _STANDARD_INPUT:
        text = None
    note_file(text, ["--input"])

    from attnlab.core import quiet, usable_device
    from attnlab.models import load, unknown_texts
    from attnlab.models import translate as write

    with quiet(), progress_bars() as tell:
        loaded = load(run)
        loaded.model.to(usable_device(settings.device))
        limit = loaded.settings.corpus.max_tokens
        if loaded.settings.corpus.lowercase:
            sentences = [sentence.lower() for sentence in sentences]
        written = write(
            loaded.translator,
            loaded.tokenizers,
            sentences,
            beams=settings.beams,
            max_tokens=limit,
            keep_blank=text is None,
            progress=tell,
        )
        unknown = unknown_texts(loaded.tokenizers, sentences)
    for line in written:
        print_text(line)
    _note_unknown(unknown)


def _note_unknown(unknown: list[str]) -> None:
    """Tells which texts the model read as unknown words."""
    if unknown:
        first = ", ".join(unknown[:_UNKNOWN_SHOWN])
        more = f" and {len(unknown) - _UNKNOWN_SHOWN} more" if len(unknown) > _UNKNOWN_SHOWN else ""
        messages().print(
            f"Note: not in the run's vocabulary, read as unknown: {first}{more}.",
            soft_wrap=True, highlight=False,
        )  # fmt: skip


def _sentences(text: str | None, path: Path | None) -> list[str]:
    if text is not None and path is not None:
        msg = "Give either a sentence or --input, not both."
        raise InputError(msg)
    if text is not None and text != _STANDARD_INPUT:
        check_characters(text, "The sentence")
        return [text]
    # None, as a shell's <&- leaves it.
    if path is None and (sys.stdin is None or (text is None and sys.stdin.isatty())):
        msg = "Give a sentence, or a file with --input, or pipe sentences in."
        raise InputError(msg)
    where = "standard input" if path is None else str(path)
    lines = list(lines_in(sys.stdin.buffer.read, where)) if path is None else read_lines(path)
    if not any(line.strip() for line in lines):
        msg = f"{where} holds no sentence; give one a line."
        raise InputError(msg)
    return lines


@with_options(GenerationSettings, DeviceSettings, headings=[None, None])
def generate(
    run: Run,
    prompt: Annotated[
        str | None,
        typer.Argument(help="Beginning of the text; without it, the model begins."),
    ] = None,
    **options: Any,
) -> None:
    """Prints samples of a language model."""
    from attnlab.models import check_task, read_record, task_of

    settings = chosen(GenerationSettings, options)
    device = chosen(DeviceSettings, options).device
    if prompt is not None:
        check_characters(prompt, "The prompt")
    check_task(run, task_of(read_record(run)), LANGUAGE_MODEL)

    from attnlab.core import quiet, usable_device
    from attnlab.models import generate as write
    from attnlab.models import load, unknown_texts

    with quiet():
        loaded = load(run)
        loaded.model.to(usable_device(device))
        if prompt is not None and loaded.settings.corpus.lowercase:
            prompt = prompt.lower()
        texts = write(loaded, prompt, settings)
        unknown = unknown_texts(loaded.tokenizers, [prompt] if prompt is not None else [])
    for text in texts:
        print_text(text)
    _note_unknown(unknown)


@with_options(ScoreSettings)
def score(
    run: Run,
    *,
    out: Annotated[
        Path | None, typer.Option(help="File to write the translations to, one per line.")
    ] = None,
    overwrite: OVERWRITE = False,
    **options: Any,
) -> None:
    """Prints the scores of a run as JSON."""
    from attnlab.models import corpus_paths_of, read_record, task_of
    from attnlab.results import check_file_free

    settings = chosen(ScoreSettings, options)
    check_overwrite(overwrite, out=out)
    if out is not None:
        inputs = {run: "run"} | dict.fromkeys(corpus_paths_of(run), "corpus")
        check_file_free(out, inputs, overwrite=overwrite)
    writes = task_of(read_record(run)) == LANGUAGE_MODEL
    if writes and (options.get("beams") is not None or out is not None):
        msg = f"{run} is a language model and has no translations or BLEU; leave --beams and --out out."
        raise InputError(msg)

    from attnlab.core import quiet, usable_device, write_text
    from attnlab.models import load, score_language_model, score_run

    with quiet(), progress_bars() as tell:
        loaded = load(run)
        loaded.model.to(usable_device(settings.device))
        if writes:
            print_json(**score_language_model(loaded, split=settings.split, progress=tell))
            return
        scores, texts = score_run(loaded, split=settings.split, beams=settings.beams, progress=tell)
    if out is not None:
        write_text(out, "".join(f"{text}\n" for text in texts))
    print_json(**scores)
