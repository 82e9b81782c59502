"""`attnlab translate` and `attnlab score`: what a trained model writes, and how good it is."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from attnlab.cli.options import chosen, with_options
from attnlab.cli.output import messages, print_json
from attnlab.cli.progress import progress_bars
from attnlab.errors import InputError
from attnlab.studies.settings import DeviceSettings
from attnlab.texts import check_characters, lines_of, read_bytes

_UNKNOWN_SHOWN = 10
Run = Annotated[Path, typer.Argument(help="A run directory of attnlab train.")]
Beams = Annotated[int, typer.Option(help="Number of beams; 1 is greedy.")]


@with_options(DeviceSettings)
def translate(
    run: Run,
    text: Annotated[
        str | None,
        typer.Argument(help="Sentence; without it, one per line from --input or the pipe."),
    ] = None,
    *,
    file: Annotated[
        Path | None, typer.Option("--input", help="UTF-8 file with one sentence per line.")
    ] = None,
    beams: Beams = 5,
    **options: Any,
) -> None:
    """Translate sentences, one per line, to standard output; a blank line of a file stays blank."""
    from attnlab.translation.runs.folder import read_record

    device = chosen(DeviceSettings, options).device
    read_record(run)
    sentences = _sentences(text, file)

    from attnlab.extraction.devices import usable_device
    from attnlab.translation.quiet import quiet
    from attnlab.translation.runs.run import load
    from attnlab.translation.translating import translate as write
    from attnlab.translation.translating import unknown_texts

    with quiet(), progress_bars() as tell:
        loaded = load(run)
        loaded.model.to(usable_device(device))
        limit = loaded.settings.corpus.max_tokens
        if loaded.settings.corpus.lowercase:
            sentences = [sentence.lower() for sentence in sentences]
        written = write(
            loaded.model,
            loaded.tokenizers,
            sentences,
            beams=beams,
            max_tokens=limit,
            keep_blank=text is None,
            progress=tell,
        )
        unknown = unknown_texts(loaded.tokenizers, sentences)
    for line in written:
        typer.echo(line)
    if unknown:
        first = ", ".join(unknown[:_UNKNOWN_SHOWN])
        more = f" and {len(unknown) - _UNKNOWN_SHOWN} more" if len(unknown) > _UNKNOWN_SHOWN else ""
        messages().print(
            f"Note: not in the run's vocabulary, read as unknown: {first}{more}.",
            soft_wrap=True, highlight=False, markup=False,
        )  # fmt: skip


def _sentences(text: str | None, path: Path | None) -> list[str]:
    if text is not None and path is not None:
        msg = "Give either a sentence or --input, not both."
        raise InputError(msg)
    if text is not None:
        check_characters(text, "The sentence")
        return [text]
    if path is None and sys.stdin.isatty():
        msg = "Give a sentence, or a file with --input, or pipe sentences in."
        raise InputError(msg)
    raw = sys.stdin.buffer.read() if path is None else read_bytes(path)
    where = "standard input" if path is None else str(path)
    lines = lines_of(raw, where)
    if not any(line.strip() for line in lines):
        msg = f"{where} holds no sentence; give one a line."
        raise InputError(msg)
    return lines


@with_options(DeviceSettings)
def score(
    run: Run,
    *,
    split: Annotated[
        str, typer.Option(help="Part of the corpus: train, validation or test.")
    ] = "test",
    beams: Beams = 5,
    out: Annotated[
        Path | None, typer.Option(help="File to write the translations to, one per line.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the file of translations.")
    ] = False,
    **options: Any,
) -> None:
    """Score a run on a part of its corpus: BLEU, chrF and their signatures as JSON."""
    from attnlab.reporting.result_folder import refuse_taken_file
    from attnlab.translation.runs.folder import read_record

    device = chosen(DeviceSettings, options).device
    if out is not None:
        refuse_taken_file(out, overwrite=overwrite)
    read_record(run)

    from attnlab.extraction.devices import usable_device
    from attnlab.files import write_text
    from attnlab.translation.quiet import quiet
    from attnlab.translation.runs.run import load
    from attnlab.translation.translating import score_run

    with quiet(), progress_bars() as tell:
        loaded = load(run)
        loaded.model.to(usable_device(device))
        scores, texts = score_run(loaded, split=split, beams=beams, progress=tell)
    if out is not None:
        write_text(out, "".join(f"{text}\n" for text in texts))
    print_json(**scores)
