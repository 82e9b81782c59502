"""`attnlab inspect`: what an encoder makes of one or two texts."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnlab.cli.early import refuse_absent_source
from attnlab.cli.notes import print_notes
from attnlab.cli.options import chosen, with_options
from attnlab.cli.output import new_table, output, print_json, print_table, results
from attnlab.studies.settings import DeviceSettings

if TYPE_CHECKING:
    import pandas as pd

    from attnlab.columns import Table

# Of the columns of heads, those that fit on a line of 80 characters.
HEADS = (
    "site", "layer", "head", "normalised_entropy", "confidence", "mean_offset", "mass_at_offset_-1",
    "mass_at_offset_0", "mass_at_offset_1", "mass_on_special",
)  # fmt: skip


@with_options(DeviceSettings)
def inspect(
    source: Annotated[
        str,
        typer.Argument(
            help="Run, transformers folder, or name of a model on the hub; of an encoder-decoder the "
            "encoder is read."
        ),
    ],
    text: Annotated[str, typer.Argument(help="A sentence.")],
    other: Annotated[
        str | None, typer.Argument(help="Another one that shares some of its words.")
    ] = None,
    **options: Any,
) -> None:
    """Show what an encoder makes of a text: tokens, ids, mask, shapes, and each head, layer by layer.

    With two texts also how far each word that stands in both moves between them: the cosine between its
    contextual vectors in every layer, beside the mean cosine between different words (anisotropy).
    """
    device = chosen(DeviceSettings, options).device
    refuse_absent_source(source)

    from attnlab.extraction.columns import HEADS as OF_HEADS
    from attnlab.studies.inspection import columns
    from attnlab.studies.inspection.inspection import inspect as look
    from attnlab.translation.quiet import quiet

    with quiet():
        found = look(source, text, *(() if other is None else (other,)), device=device)
    print_notes(found.notes)
    if output().as_json:
        print_json(tokens=found.tokens, shapes=found.shapes, moves=found.moves, heads=found.heads)
        return
    _print("Tokens", found.tokens, columns.TOKENS)
    _print("Shapes", found.shapes, columns.SHAPES)
    if len(found.moves):
        _print("Words in two contexts", found.moves, columns.MOVES)
    elif other is not None:
        results().print("No word is in both texts.\n")
    _print("Heads, by layer", found.heads, OF_HEADS, HEADS)


def _print(
    title: str, table: "pd.DataFrame", declared: "Table", names: Sequence[str] | None = None
) -> None:
    """The columns of these names, or all of the table."""
    wanted = [
        column
        for column in declared.columns
        if column.name in table and (names is None or column.name in names)
    ]
    numbers = {one.narrow for one in wanted if table[one.name].dtype.kind in "iuf"}
    rows = new_table(*(one.narrow for one in wanted), numbers=numbers, title=title, gap=1)
    for _, row in table.iterrows():
        rows.add_row(*(_cell(row[one.name], one.digits) for one in wanted))
    print_table(rows)
    results().print()


def _cell(value: Any, digits: int | None) -> str:
    import pandas as pd

    from attnlab.columns import rounded
    from attnlab.texts import shown

    if isinstance(value, str):
        return shown(value)
    if pd.isna(value):
        return ""
    if digits is not None:
        return rounded(float(value), digits)
    if isinstance(value, bool):
        return "yes" if value else ""
    return str(value)
