"""What a side of a comparison does: it prepares cases, and runs one each time that a line asks for it.

Every side is a process in its own environment, so this file and the sides import nothing of attnlab but in
the side of attnlab. A request is a line of JSON, `{"case": NAME, "write": FILE or null}`; the answer a line
with the seconds of the processor (children counted) and of the clock, and the numbers that the case tells.
"""

import json
import os
import resource
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

# What was made, described when the clock has stopped: numbers for the answer, arrays for the file.
Describe = Callable[[], Mapping[str, Any]]
Work = Callable[[], Describe]
Prepare = Callable[[Path], Work]


def serve(cases: Mapping[str, Prepare]) -> None:
    """Answers requests from standard input until it ends; the folder of inputs is the first argument."""
    folder, prepared = Path(sys.argv[1]), dict[str, Work]()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # What libraries print is no answer.
    for line in sys.stdin:
        request = json.loads(line)
        name = request["case"]
        if name not in prepared:
            prepared[name] = cases[name](folder)
        before = _seconds()
        describe = prepared[name]()
        after = _seconds()
        answer = {key: after[key] - before[key] for key in after}
        arrays = dict[str, Any]()
        for key, value in describe().items():
            (answer if isinstance(value, int | float) else arrays)[key] = value
        if request["write"]:
            _write(request["write"], arrays)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _seconds() -> dict[str, float]:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return {
        "cpu_seconds": sum(one.ru_utime + one.ru_stime for one in used),
        "seconds": time.perf_counter(),
    }


def _write(file: str, arrays: Mapping[str, Any]) -> None:
    import numpy as np

    np.savez(file, **arrays)
