"""Runs of experiments: read where they are there, trained where they are not."""

import hashlib
import json
import sys
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from attnlab.core import INTERRUPTED, file_checksum, quiet
from attnlab.models import (
    Run,
    RunSettings,
    corpus_of,
    is_run,
    is_trained,
    load,
    resume,
    train,
)


def trained_run(folder: Path, settings: RunSettings) -> Run:
    """The run in the folder, trained to the end where it is not.

    Raises:
        SystemExit: training was interrupted.
    """
    with quiet():
        begun = is_run(folder)
        if not begun or not is_trained(folder, settings.optimizer.epochs):
            console = Console(stderr=True)
            found = (
                resume(folder, console=console)
                if begun
                else train(folder, settings, console=console)
            )
            if found.interrupted:
                sys.exit(INTERRUPTED)
        return load(folder)


def kept_run(name: str, settings: RunSettings, runs: Path) -> Run:
    """The run of these settings and this text, trained where the folder of runs does not hold it yet."""
    return trained_run(runs / f"{name}-{_digest(settings)}", settings)


def trained_with(run: Run) -> str:
    """The version of torch that a run was trained with."""
    return str(run.record["versions"]["torch"])


def _digest(settings: RunSettings) -> str:
    """Of all settings, and of what the corpus holds in place of where it lies."""
    values = asdict(settings)
    place = Path(settings.corpus.name)
    if place.is_file():
        values["corpus"]["name"] = file_checksum(place)
    elif place.is_dir():
        with quiet():
            values["corpus"]["name"] = corpus_of(settings).checksum
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:12]
