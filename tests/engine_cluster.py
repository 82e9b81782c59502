"""What tests of the engine need to start processes that know the toy studies."""

import os
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TOYS = ROOT / "tests" / "studies" / "engine" / "toys"
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join((str(TOYS), str(ROOT))),
    "COLUMNS": "200",
}


def wait_until(holds: Callable[[], object], seconds: float = 180) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)
