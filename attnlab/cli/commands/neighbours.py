"""`attnlab neighbours`: which words are near in the embeddings of any model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnlab.cli.options import OVERWRITE, check_overwrite, chosen, with_options
from attnlab.cli.output import messages, new_table, output, print_json, print_table
from attnlab.studies.embeddings.settings import NeighbourSettings

if TYPE_CHECKING:
    import pandas as pd


@with_options(NeighbourSettings)
def neighbours(
    source: Annotated[
        str,
        typer.Argument(
            help="Run, folder of attnlab embed, file of embeddings (.safetensors, or word2vec .txt or "
            ".vec), transformers folder, or name on the hub."
        ),
    ],
    words: Annotated[list[str], typer.Argument(help="Words whose neighbours to show.")],
    *,
    figure: Annotated[
        Path | None,
        typer.Option(
            "--map", help="Draw the words and their neighbours to this .svg, .pdf or .png file."
        ),
    ] = None,
    overwrite: OVERWRITE = False,
    **options: Any,
) -> None:
    """Show the words nearest to others in the embeddings of a run, a file or a model, by cosine.

    The map shows the first two principal components of all words that are shown.
    """
    settings = chosen(NeighbourSettings, options)
    check_overwrite(overwrite, map=figure)
    if figure is not None:
        from attnlab.reporting.canvas import check_suffix
        from attnlab.reporting.result_folder import check_file_free

        check_file_free(figure, overwrite=overwrite)
        check_suffix(figure)

    from attnlab.core.library_state import quiet
    from attnlab.studies.embeddings.neighbours import neighbours as find

    with quiet():
        found = find(source, words, **settings.keywords())
    if figure is not None:
        from attnlab.reporting.canvas import save_figure
        from attnlab.reporting.drawing.embedding_map import draw_embedding_map

        save_figure(draw_embedding_map(found.map), figure)
        messages().print(f"Map: {figure}", soft_wrap=True)
    if output().as_json:
        print_json(neighbours=found.table, map=found.map)
    else:
        _print(found.table)


def _print(table: "pd.DataFrame") -> None:
    """One row per word."""
    from attnlab.core.texts import shown
    from attnlab.studies.embeddings.columns import NEIGHBOURS

    heading = "neighbours, with their cosines"
    rows = new_table("word", heading, prose=(heading,))
    for word, own in table.groupby("word", sort=False):
        near = [
            f"{shown(other)} {NEIGHBOURS['cosine'].shown(cosine)}"
            for other, cosine in zip(own["neighbour"], own["cosine"], strict=True)
        ]
        rows.add_row(shown(str(word)), ", ".join(near))
    print_table(rows)
