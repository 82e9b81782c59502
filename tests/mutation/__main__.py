"""Put small faults into the package, one at a time, and see whether the nearest tests notice.

    make mutants                                        # a sample of matrices/ and attention/
    python -m tests.mutation attnlab/matrices/bands.py --sample 0     # every fault of one file

Each fault lives in a forked process that runs the tests beside the file's package until the first
failure; no file is changed. What survives is printed: look at each, it is either without effect or
something that no test says. The exit status is always 0.
"""

import argparse
import math
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.mutation.operators import Mutant, mutants

ROOT = Path(__file__).resolve().parents[2]
DEFAULT = ("attnlab/matrices", "attnlab/attention")
# A fault that makes the tests hang is printed, but counts neither way: a busy machine does that too.
LIMIT_SECONDS = 300.0
Outcome = Literal["survived", "noticed", "too slow"]


@dataclass(frozen=True)
class Fault:
    """A mutant of one file; without one, the file as it is."""

    path: Path
    mutant: Mutant | None


def main() -> None:
    """Draws the faults, tries each, prints the survivors and the share that was noticed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("paths", nargs="*", type=Path, default=[Path(path) for path in DEFAULT])
    parser.add_argument("--sample", type=int, default=200, help="faults to try; 0: all of them")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    chosen = parser.parse_args()
    faults = [fault for path in chosen.paths for fault in _faults(ROOT / path)]
    if chosen.sample and chosen.sample < len(faults):
        drawn = random.Random(chosen.seed).sample(range(len(faults)), chosen.sample)
        faults = [faults[index] for index in sorted(drawn)]
    print(f"{len(faults)} faults, seed {chosen.seed}", flush=True)
    _warm_up()
    _check_passing_tests(faults)
    noticed: Counter[str] = Counter()
    tried: Counter[str] = Counter()
    for fault, outcome in _tried(faults, chosen.jobs):
        name = fault.path.relative_to(ROOT).as_posix()
        if outcome != "too slow":
            tried[name] += 1
        noticed[name] += outcome == "noticed"
        if outcome != "noticed":
            print(f"{outcome}  {name}:{fault.mutant}", flush=True)
    for name in sorted(tried):
        print(f"{noticed[name]:4} of {tried[name]:4}  {name}")
    total = max(sum(tried.values()), 1)
    print(f"noticed {sum(noticed.values())} of {total} ({sum(noticed.values()) / total:.1%})")


def _faults(path: Path) -> Iterator[Fault]:
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    for file in files:
        if file.name != "__init__.py":
            for mutant in mutants(file.read_text(encoding="utf-8")):
                yield Fault(file, mutant)


def nearest_tests(path: Path) -> list[str]:
    """The test files of the package that `path` belongs to, those named after it first."""
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    files = sorted((ROOT / "tests" / _package(path)).rglob("test_*.py"))

    def distance(file: Path) -> int:
        if path.stem in file.stem:
            return 0
        return 1 if module in file.read_text(encoding="utf-8") else 2

    return [str(file.relative_to(ROOT)) for file in sorted(files, key=distance)]


def _warm_up() -> None:
    """Imports once what every forked process needs; the package itself is imported in each."""
    import hypothesis  # noqa: F401
    import pandas as pd  # noqa: F401
    import pytest  # noqa: F401
    import scipy.optimize
    import torch
    import transformers

    torch.set_num_threads(1)
    for name in ("BertModel", "MarianMTModel", "T5Model", "LlamaModel"):
        getattr(transformers, name)
    _ = scipy.optimize.linprog
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = tempfile.mkdtemp(prefix="mutants-")


def _check_passing_tests(faults: Sequence[Fault]) -> None:
    """Ends the program when the tests fail without any fault: they would notice everything."""
    packages = {_package(fault.path): fault.path for fault in faults}
    whole = [Fault(path, None) for path in packages.values()]
    for fault, outcome in _tried(whole, jobs=1, limit=math.inf):
        if outcome != "survived":
            sys.exit(f"tests/{_package(fault.path)} fails without any fault; mend it first.")


def _package(path: Path) -> str:
    return path.relative_to(ROOT / "attnlab").parts[0]


def _tried(
    faults: Sequence[Fault], jobs: int, limit: float = LIMIT_SECONDS
) -> Iterator[tuple[Fault, Outcome]]:
    running: dict[int, tuple[Fault, float]] = {}
    waiting = list(reversed(faults))
    while waiting or running:
        while waiting and len(running) < jobs:
            fault = waiting.pop()
            running[_fork(fault)] = fault, time.monotonic()
        time.sleep(0.05)
        for process in list(running):
            fault, began = running[process]
            ended, status = os.waitpid(process, os.WNOHANG)
            late = not ended and time.monotonic() - began > limit
            if late:
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)
            if ended or late:
                del running[process]
                yield fault, "too slow" if late else "noticed" if status else "survived"


def _fork(fault: Fault) -> int:
    process = os.fork()
    if process:
        return process
    status = 1
    try:
        status = _status_of_tests(fault)
    finally:
        os._exit(status)


def _status_of_tests(fault: Fault) -> int:
    """Runs the nearest tests with the fault instead of the file; 0 when they all pass."""
    import hypothesis
    import pytest

    # A failing example is enough; the smallest one is nobody's concern here.
    unshrunk = [phase for phase in hypothesis.Phase if phase.name not in {"shrink", "explain"}]
    hypothesis.settings.register_profile("mutants", phases=unshrunk, deadline=None)
    hypothesis.settings.load_profile("mutants")
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    os.chdir(ROOT)
    if fault.mutant is not None:
        sys.meta_path.insert(0, _Finder(fault.path, fault.mutant))
    options = [
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        "--jaxtyping-packages=",
        "-m",
        "not slow and not torture",
    ]
    # Hypothesis is imported before pytest could rewrite its assertions, which it does not need.
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    return int(pytest.main([*options, "--timeout=120", *nearest_tests(fault.path)]))


class _Finder:
    """Finds the faulty module under the name of the file that it was made from."""

    def __init__(self, path: Path, mutant: Mutant) -> None:
        self.path, self.mutant = path, mutant
        self.name = ".".join(path.relative_to(ROOT).with_suffix("").parts)

    def find_spec(self, name: str, *_: object) -> object:
        """The module specification of the faulty module; None for every other module."""
        if name != self.name:
            return None
        from importlib.util import spec_from_loader

        return spec_from_loader(name, self, origin=str(self.path))

    def create_module(self, _: object) -> None:
        """The import system makes the module."""

    def exec_module(self, module: object) -> None:
        """Runs the faulty code."""
        vars(module)["__file__"] = str(self.path)
        exec(compile(self.mutant.tree(), str(self.path), "exec"), vars(module))


if __name__ == "__main__":
    main()
