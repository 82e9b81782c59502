"""`attnlab show`: all heads of a model on one sentence, as a page."""

from pathlib import Path
from typing import Annotated, Any

import typer

from attnlab.cli.command_options import OVERWRITE, check_source_exists, chosen, with_options
from attnlab.cli.output import messages
from attnlab.core import check_characters, check_no_links
from attnlab.evaluation import DeviceSettings

PAGE = "show/page.html"


@with_options(DeviceSettings)
def show(
    source: Annotated[
        str,
        typer.Argument(
            help="A run of `attnlab train`, a folder of a transformers model, or its name on the hub."
        ),
    ],
    sentence: Annotated[str, typer.Argument(help="A sentence.")],
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
    out: Annotated[
        Path | None,
        typer.Option(
            help=f"File to write the page to (default: SOURCE/{PAGE}; for a name: {PAGE})."
        ),
    ] = None,
    overwrite: OVERWRITE = False,
    **options: Any,
) -> None:
    """Writes the page of a sentence."""
    from attnlab.results import check_file_free

    for text in (sentence, other):
        check_characters(text or "", "The sentence")
    device = chosen(DeviceSettings, options).device
    check_source_exists(source)
    if out is None:
        out = (Path(source) if Path(source).is_dir() else Path()) / PAGE
        check_no_links(out.parent.parent, [PAGE])
    check_file_free(out, {}, overwrite=overwrite)

    from attnlab.core import quiet
    from attnlab.results import show as shown

    with quiet():
        given = sentence if other is None else (sentence, other)
        shown(source, given, head=head, device=device).write(out, overwrite=overwrite)
    messages().print(f"Wrote {out}.", soft_wrap=True)
