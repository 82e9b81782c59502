"""Runs of experiments: read where they are there, trained where they are not."""

import sys
from pathlib import Path

from rich.console import Console

from attnlab.core import INTERRUPTED, quiet
from attnlab.models import Run, RunSettings, is_run, load, read_metrics, resume, train


def trained_run(folder: Path, settings: RunSettings) -> Run:
    """The run in the folder, trained to the end where it is not.

    Raises:
        SystemExit: training was interrupted.
    """
    with quiet():
        begun = is_run(folder)
        lines = read_metrics(folder) if begun else []
        if not lines or lines[-1]["epoch"] < settings.optimizer.epochs:
            console = Console(stderr=True)
            found = (
                resume(folder, console=console)
                if begun
                else train(folder, settings, console=console)
            )
            if found.interrupted:
                sys.exit(INTERRUPTED)
        return load(folder)
