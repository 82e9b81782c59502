"""What training does before its first step, told while it lasts."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from attnlab.texts import duration
from attnlab.translation.batches import STEPS_WANTED, usual_batch_tokens
from attnlab.translation.preparing import Prepared
from attnlab.translation.settings import OptimizerSettings
from attnlab.waiting import BETWEEN_LINES, FIRST_LINE, repeated


@contextmanager
def stage(
    what: str,
    console: Console | None,
    *,
    first: float = FIRST_LINE,
    between: float = BETWEEN_LINES,
) -> Iterator[None]:
    """Prints how long the work in the block has lasted, a line every few seconds, through a pipe too.

    Args:
        what: is being done.
        console: where to; None for nowhere.
        first: seconds after which the first line is printed.
        between: seconds between two lines.
    """
    if console is None:
        yield
        return
    begun = time.monotonic()

    def tell(end: str) -> None:
        lasted = duration(time.monotonic() - begun)
        console.print(f"{what}: {lasted}{end}", soft_wrap=True, highlight=False, markup=False)

    with repeated(lambda: tell(" so far"), first=first, between=between):
        yield
    if time.monotonic() - begun > first:
        tell("")


def tell_batches(asked: OptimizerSettings, prepared: Prepared, console: Console) -> None:
    """Says where the number of epochs made the batches others than those of the default number."""
    usual = usual_batch_tokens(prepared.pairs, asked)
    if prepared.steps.batch_tokens != usual:
        console.print(
            f"Note: batches of {prepared.steps.batch_tokens:,} tokens, since {asked.epochs} epochs are to "
            f"give {STEPS_WANTED:,} steps; with {OptimizerSettings().epochs} they are of {usual:,} "
            f"(batch_tokens sets it), so the two runs are not comparable.",
            soft_wrap=True,
            highlight=False,
        )
