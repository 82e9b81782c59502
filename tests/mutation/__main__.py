"""Put small faults into the package, one at a time, and see whether the nearest tests notice.

    make mutants                                        # a sample of the whole package
    python -m tests.mutation attnlab/matrices/bands.py --sample 0     # every fault of one file

Each fault lives in a forked process that runs the tests nearest to the file until the first failure;
no file is changed. What survives is printed: look at each, it is without effect, or noticed by tests
further away, or something that no test says. The faults are tried in an order drawn at random, so
that the first of them are a sample too. The exit status is always 0.
"""

import argparse
import ast
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from tests.mutation.operators import Mutant, mutants

ROOT = Path(__file__).resolve().parents[2]
# Their tests are slow, or see files and commands rather than code.
ELSEWHERE = {"architecture", "browser", "docs", "fuzz", "published", "torture"}
# What a training runs through; the runs of fixtures are trained anew for faults there alone.
TRAINED_WITH = {"core", "matrices", "attention", "grammar", "corpora", "models"}
# Of waiting for something that never comes; it counts neither way, since a busy machine does that too.
LIMIT_SECONDS = 1800.0
Outcome = Literal["survived", "noticed", "too slow"]


@dataclass(frozen=True)
class Fault:
    """A mutant of one file."""

    path: Path
    mutant: Mutant

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT).as_posix()}:{self.mutant}"


@dataclass(frozen=True)
class Limits:
    """How many test files are run for a fault, and for how many seconds of processor time."""

    files: int
    seconds: float


def main() -> None:
    """Draws the faults, tries each, prints the survivors and the share that was noticed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("paths", nargs="*", type=Path, default=[Path("attnlab")])
    parser.add_argument("--sample", type=int, default=300, help="faults to draw; 0: all of them")
    parser.add_argument("--first", type=int, default=0, help="the first drawn one that is tried")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument(
        "--files", type=int, default=10, help="test files of a fault, nearest first"
    )
    parser.add_argument("--seconds", type=float, default=40, help="processor time of a fault")
    chosen = parser.parse_args()
    faults = [fault for path in chosen.paths for fault in _faults(ROOT / path)]
    count = min(chosen.sample or len(faults), len(faults))
    drawn = random.Random(chosen.seed).sample(faults, count)
    print(f"{count} of {len(faults)} faults, seed {chosen.seed}", flush=True)
    _warm_up()
    outcomes: dict[Fault, tuple[Outcome, str]] = {}
    limits = Limits(chosen.files, chosen.seconds)
    for fault, outcome, test in _tried(drawn[chosen.first :], chosen.jobs, limits):
        outcomes[fault] = outcome, test
        print(f"{outcome}  {fault}  {test and f'[{test}]'}", flush=True)
    _print_summary(outcomes)
    noticing = sorted(
        {test for outcome, test in outcomes.values() if outcome == "noticed" and test}
    )
    print("without any fault, the tests that noticed one:", flush=True)
    options = ["-q", "-p", "no:cacheprovider", "--jaxtyping-packages=", "--timeout=0"]
    subprocess.run([sys.executable, "-m", "pytest", *options, *noticing], cwd=ROOT, check=False)


def _print_summary(outcomes: dict[Fault, tuple[Outcome, str]]) -> None:
    tried: Counter[str] = Counter()
    noticed: Counter[str] = Counter()
    for fault, (outcome, _) in outcomes.items():
        package = fault.path.relative_to(ROOT).parts[1]
        tried[package] += outcome != "too slow"
        noticed[package] += outcome == "noticed"
    for package in sorted(tried):
        print(f"{noticed[package]:4} of {tried[package]:4}  {package}")
    total = max(tried.total(), 1)
    print(f"noticed {noticed.total()} of {total} ({noticed.total() / total:.1%})", flush=True)


def _faults(path: Path) -> Iterator[Fault]:
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    for file in files:
        if file.name != "__init__.py":
            for mutant in mutants(file.read_text(encoding="utf-8")):
                yield Fault(file, mutant)


def nearest_tests(path: Path) -> list[str]:
    """The tests of the file `path`, the nearest first.

    Those are its own examples, test files named after it or its question, those that import it or
    what it defines, and those in the folder of its package.
    """
    parts = path.relative_to(ROOT).with_suffix("").parts
    module, package, stem = ".".join(parts), ".".join(parts[:-1]), parts[-1]
    # Every question has files of these names.
    if stem in {"question", "view"}:
        stem = parts[-2]
    inner = len(parts) > 3
    own = {
        node.name
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name[0] != "_"
    }
    found = []
    for file, words in _words_of_tests().items():
        names = own & words
        folder = file.relative_to(ROOT / "tests").parts[0]
        if stem in file.stem:
            distance = 0
        elif module in words or (inner and parts[-2] in file.stem):
            distance = 1
        elif names or (inner and package in words):
            distance = 2
        elif folder == parts[1] != "questions" or (
            parts[1] == "core" and file.parent == ROOT / "tests"
        ):
            distance = 3
        else:
            continue
        found.append((distance, -len(names), file.stat().st_size, str(file.relative_to(ROOT))))
    examples = [str(path.relative_to(ROOT))] if ">>> " in path.read_text(encoding="utf-8") else []
    return examples + [file for *_, file in sorted(found)]


@cache
def _words_of_tests() -> dict[Path, set[str]]:
    """The names that stand in each test file, those with dots too."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return {
        file: {*re.findall(r"[\w.]+", text), *re.findall(r"\w+", text)}
        for file in files
        if file.relative_to(ROOT / "tests").parts[0] not in ELSEWHERE
        for text in [file.read_text(encoding="utf-8")]
    }


def _warm_up() -> None:
    """Imports once what every forked process needs; the package itself is imported in each."""
    import hypothesis  # noqa: F401
    import matplotlib.figure  # noqa: F401
    import pandas as pd  # noqa: F401
    import pytest  # noqa: F401
    import scipy.optimize
    import torch
    import transformers

    torch.set_num_threads(1)
    for name in ("BertModel", "MarianMTModel", "T5Model", "LlamaModel", "Seq2SeqTrainer"):
        getattr(transformers, name)
    _ = scipy.optimize.linprog
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = tempfile.mkdtemp(prefix="mutants-")


def _tried(
    faults: Sequence[Fault], jobs: int, limits: Limits
) -> Iterator[tuple[Fault, Outcome, str]]:
    """Each fault with its outcome and the test that noticed it."""
    running: dict[int, tuple[Fault, float]] = {}
    waiting = list(reversed(faults))
    scratch = Path(tempfile.mkdtemp(prefix="mutants-"))
    while waiting or running:
        while waiting and len(running) < jobs:
            fault = waiting.pop()
            running[_fork(fault, limits, scratch)] = fault, time.monotonic()
        time.sleep(0.05)
        for process in list(running):
            fault, began = running[process]
            ended, status = os.waitpid(process, os.WNOHANG)
            late = not ended and time.monotonic() - began > LIMIT_SECONDS
            if late:
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)
            if ended or late:
                del running[process]
                shutil.rmtree(scratch / f"files-{process}", ignore_errors=True)
                test = scratch / f"test-{process}"
                by = test.read_text(encoding="utf-8") if test.exists() else ""
                yield fault, "too slow" if late else "noticed" if status else "survived", by


def _fork(fault: Fault, limits: Limits, scratch: Path) -> int:
    process = os.fork()
    if process:
        return process
    status = 1
    try:
        # A fault can make a loop endless.
        most = int(3 * limits.seconds) + 60
        resource.setrlimit(resource.RLIMIT_CPU, (most, most + 5))
        if fault.path.relative_to(ROOT).parts[1] not in TRAINED_WITH:
            # As processes of one run of the suite do, they share what fixtures train.
            os.environ["PYTEST_XDIST_WORKER"] = "mutants"
        seen = _Watch(_Finder(fault.path, fault.mutant), limits.seconds)
        base = scratch / f"files-{os.getpid()}"
        status = _run_tests(
            [*nearest_tests(fault.path)[: limits.files], f"--basetemp={base}"], seen
        )
        if seen.failed:
            (scratch / f"test-{os.getpid()}").write_text(seen.failed[0], encoding="utf-8")
        elif seen.stopped:
            status = 0
    finally:
        os._exit(status)


def _run_tests(tests: Sequence[str], seen: "_Watch") -> int:
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
    options = [
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        "-m",
        "not slow and not torture",
        "--timeout=0",
    ]
    # Hypothesis is imported before pytest could rewrite its assertions, which it does not need.
    options += ["--jaxtyping-packages=", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    return int(pytest.main([*options, *tests], plugins=[seen]))


class _Watch:
    """Plugin that puts the fault in, notes which tests fail, and ends the run when its time is over."""

    def __init__(self, finder: "_Finder", seconds: float) -> None:
        self.failed: list[str] = []
        self.seconds, self.stopped = seconds, False
        self.finder = finder
        sys.meta_path.insert(0, finder)

    def pytest_sessionstart(self) -> None:
        """Asks for the fault before the hook of pytest, which reads a file of examples itself."""
        sys.meta_path.insert(0, self.finder)

    def pytest_collectreport(self, report: Any) -> None:
        """Notes a file that cannot be imported."""
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Notes a test that fails."""
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_runtest_teardown(self, item: Any) -> None:
        """Ends the run once its time is over."""
        if time.process_time() > self.seconds:
            item.session.shouldstop = "out of time"
            self.stopped = True


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
