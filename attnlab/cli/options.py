"""Options that several commands share, so that they are named and explained alike."""

from pathlib import Path
from typing import Annotated

import typer

Sites = Annotated[
    str | None,
    typer.Option(
        "--sites",
        help="Any of encoder,decoder,cross, with commas; default: all there are.",
    ),
]
OwnText = Annotated[
    Path | None,
    typer.Option(
        "--text",
        help="Sentences of your own: a file with one a line "
        "(for an encoder-decoder: source, tab, translation).",
    ),
]
OtherCorpus = Annotated[
    str | None,
    typer.Option("--corpus", help="A corpus instead of the run's own: its test part is used."),
]
Pair = Annotated[
    str | None,
    typer.Option("--pair", help="Languages of --corpus; default: those of the run, or en-it."),
]
BatchSize = Annotated[int, typer.Option("--batch-size", help="Most sentences in one forward pass.")]
Device = Annotated[
    str | None,
    typer.Option("--device", help="Such as cpu or cuda; default: a GPU if there is one."),
]
