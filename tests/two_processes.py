"""What each of two processes does that `test_several_processes.py` starts with torchrun.

Float64 and no dropout, so that what several processes and one train can be compared to many digits.
"""

import io
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import torch
from small_run import small_settings
from torch import distributed

from attnlab.cli.app import main as command
from attnlab.core.errors import AttnlabError
from attnlab.core.library_state import quiet
from attnlab.models.trainer import TranslationTrainer
from attnlab.models.training import resume, train
from attnlab.models.training_settings import RunSettings

# Long pairs stand alone in a batch, so that one of two processes has none.
BATCH_TOKENS = 60
STOPPED_AT = 13


def settings(dropout: float = 0.0, epochs: int = 2, **model: Any) -> RunSettings:
    """Epochs with batches of different numbers of pairs, down to one."""
    return small_settings(
        corpus={"size": 80},
        model={"dropout": dropout, "dim": 8, "feed_forward": 8, **model},
        optimizer={"batch_tokens": BATCH_TOKENS, "validation_sentences": 4, "epochs": epochs},
    )


@contextmanager
def exactly() -> Iterator[None]:
    """Models are made and trained in float64."""
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@contextmanager
def signalled(number: signal.Signals, process: int) -> Iterator[None]:
    """A signal reaches the process of this number within the step `STOPPED_AT`."""
    original = TranslationTrainer.training_step

    def step(self: TranslationTrainer, *arguments: Any, **options: Any) -> torch.Tensor:
        loss = original(self, *arguments, **options)
        if self.state.global_step + 1 == STOPPED_AT and self.processes.index == process:
            os.kill(os.getpid(), number)
        return loss

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TranslationTrainer, "training_step", step)
        yield


def refused(call: Any) -> list[str]:
    try:
        call()
    except AttnlabError as error:
        return [type(error).__name__, str(error)]
    return []


def full_disk(*_: object) -> None:
    raise OSError("No space left")


def typed(*words: object) -> list[Any]:
    """Exit status and what the command prints."""
    sys.argv = ["attnlab", *map(str, words)]
    with redirect_stdout(io.StringIO()) as shown, redirect_stderr(shown):
        try:
            command()
        except SystemExit as end:
            return [end.code, shown.getvalue()]
    return [0, shown.getvalue()]


def main(folder: Path) -> None:
    index = int(os.environ["RANK"])
    distributed.init_process_group("gloo")
    torch.use_deterministic_algorithms(True)
    told: dict[str, Any] = {}
    with quiet(), exactly():
        told["whole"] = train(folder / "whole", settings()).interrupted
        with signalled(signal.SIGTERM, process=1):
            told["stopped"] = train(folder / "stopped", settings()).interrupted
        told["resumed"] = resume(folder / "begun_by_one").interrupted
        told["exists"] = refused(lambda: train(folder / "whole", settings()))
        told["gone"] = refused(lambda: resume(folder / "nothing"))
        dropout = settings(0.3, epochs=1, attention={"encoder": "band(window=1)"})
        train(folder / "dropout", dropout)
        with signalled(signal.SIGINT, process=0):
            train(folder / "dropout_stopped", dropout)
        resume(folder / "dropout_stopped")
        told["command"] = typed("train", folder / "whole")
        told["option"] = typed("train", folder / "new", "--layers", "two")
        # The last, since the processes no longer meet afterwards.
        if index == 0:
            TranslationTrainer._save_optimizer_and_scheduler = full_disk
        told["full"] = refused(lambda: train(folder / "full", settings(epochs=1)))
    (folder / f"told_{index}.json").write_text(json.dumps(told), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
