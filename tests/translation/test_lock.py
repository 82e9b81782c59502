"""Two processes never train in one run directory at once."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from small_run import small_settings

from attnlab.errors import InputError
from attnlab.translation.runs.lock import locked
from attnlab.translation.training import resume, train

HOLD = """
import sys, time
from pathlib import Path
from attnlab.translation.runs.lock import locked

with locked(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(60)
"""


def test_a_folder_in_which_another_process_trains_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "run"
    root = str(Path(__file__).resolve().parents[2])
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)],
        env={**os.environ, "PYTHONPATH": root},
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout.readline() == b"locked\n"
        for call in (lambda: train(folder, small_settings()), lambda: resume(folder)):
            with pytest.raises(InputError, match="Another process is training in"):
                call()
        other.send_signal(signal.SIGKILL)
    with locked(folder):
        assert list(folder.iterdir()) == []


def test_a_refused_training_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a run directory"):
        resume(tmp_path / "deep" / "run")
    with locked(tmp_path / "deep" / "run"):
        assert (tmp_path / "deep" / "run").is_dir()
    assert list(tmp_path.iterdir()) == []
