"""Runs of experiments: read where they are there, trained where they are not."""

import sys
from pathlib import Path

from rich.console import Console

from attnlab.core.errors import INTERRUPTED
from attnlab.core.library_state import quiet
from attnlab.models.callbacks import read_metrics
from attnlab.models.run import Run, load
from attnlab.models.run_folder import is_run
from attnlab.models.training import resume, train
from attnlab.models.training_settings import RunSettings


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
