"""`attnlab show`: all heads of a model on one sentence, or those of an analysis, as a page."""

from pathlib import Path
from typing import Annotated, Any

import typer

from attnlab.cli.command_options import OVERWRITE, chosen, with_options
from attnlab.cli.output import messages, note_file
from attnlab.core import InputError, briefly, check_characters, holds_result
from attnlab.evaluation import ShowSettings, check_source_exists

PAGE = Path("show.html")


@with_options(ShowSettings)
def show(
    source: Annotated[
        str,
        typer.Argument(
            help="A run of `attnlab train`, a folder of a transformers model, its name on the hub, or the "
            "folder of an analysis, whose kept sentences are shown."
        ),
    ],
    sentence: Annotated[
        str | None, typer.Argument(help="A sentence for the model; of an analysis none.")
    ] = None,
    other: Annotated[
        str | None,
        typer.Argument(
            help="What an encoder-decoder writes for it (without: what the model itself writes); of other "
            "models the second sentence of a pair, which is read with the first."
        ),
    ] = None,
    *,
    head: Annotated[
        str | None,
        typer.Option(help="The head that the page begins with, such as encoder.0.3; without, all."),
    ] = None,
    out: Annotated[Path, typer.Option(help="File to write the page to.")] = PAGE,
    overwrite: OVERWRITE = False,
    **options: Any,
) -> None:
    """Writes the page of a sentence."""
    from attnlab.results import check_file_free, check_page_name

    settings = chosen(ShowSettings, options)
    analysis = holds_result(source)
    if not analysis:
        check_source_exists(source)
    _check_texts(source, sentence, other, analysis=analysis)
    check_page_name(out)
    check_file_free(out, {}, overwrite=overwrite)
    note_file(sentence, ["attnlab", "analyze", source, "--text"])

    from attnlab.core import quiet
    from attnlab.results import show as shown

    with quiet():
        viewer = shown(
            source, sentence, other, head=head, device=settings.device, weights=settings.weights
        )
        viewer.write(out, overwrite=overwrite)
    messages().print(f"Wrote {out}.", soft_wrap=True)


def _check_texts(source: str, sentence: str | None, other: str | None, *, analysis: bool) -> None:
    """Raises InputError for an empty text, one beside an analysis, and none for a model."""
    if analysis and sentence is not None:
        msg = (
            f"{source} is a result and shows the sentences that it kept; leave {briefly(sentence)} out, "
            "or give the model."
        )
        raise InputError(msg)
    if not analysis and sentence is None:
        msg = f'A model needs a sentence: attnlab show {source} "A sentence."'
        raise InputError(msg)
    for text in (sentence, other):
        if text is not None and not text.strip():
            msg = "The sentence is empty; write one."
            raise InputError(msg)
        check_characters(text or "", "The sentence")
