"""Files that are damaged at random work or are refused in a sentence; nothing else ever happens.

`ATTNLAB_FUZZ_CASES` is the number of cases (default: 100), `ATTNLAB_FUZZ_SEED` the number of the first one.
"""

import os
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from fuzz.mutations import copy_of, damage
from fuzz.targets import Target, targets
from jaxtyping import TypeCheckError

from attnlab.core.errors import AttnlabError

CASES = int(os.environ.get("ATTNLAB_FUZZ_CASES", "100"))
# From so many on, pages of results are drawn too.
MANY = 1000
FIRST = int(os.environ.get("ATTNLAB_FUZZ_SEED", "0"))


@contextmanager
def silent() -> Iterator[None]:
    """Warnings are no failures here: a user sees them beside the sentence."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def failure_of(name: str, target: Target, number: int, scratch: Path) -> str | None:
    """What is wrong with how a damaged copy of a target is opened; None where nothing is."""
    random = Random(f"{number} {name}")
    folder = copy_of(target.folder, scratch / "case")
    file = random.choice(target.files)
    way = damage(folder / file, random)
    try:
        with silent():
            target.open(folder)
    except AttnlabError as error:
        told = str(error)
        if not told.strip() or "\n" in told or len(told) > 2000:
            return f"case {number}, {name}, {file} {way}: told as {told[:300]!r}"
    # What the suite checks of annotations; `make torture` goes without it.
    except TypeCheckError:
        return None
    # A library in Rust panics with what is no Exception.
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return f"case {number}, {name}, {file} {way}: {type(error).__name__}: {str(error)[:300]}"
    return None


def chosen(known: dict[str, Target], number: int) -> str:
    names = list(known)
    return Random(number).choices(names, [known[name].weight for name in names])[0]


@pytest.mark.slow
def test_damaged_files_are_read_or_refused(small_run: Path, tmp_path: Path) -> None:
    known = dict(targets(small_run, tmp_path / "whole", pages=CASES >= MANY))
    for target in known.values():
        target.open(copy_of(target.folder, tmp_path / "case"))
    failures = []
    for number in range(FIRST, FIRST + CASES):
        name = chosen(known, number)
        failures.append(failure_of(name, known[name], number, tmp_path))
    shutil.rmtree(tmp_path / "case", ignore_errors=True)
    found = [failure for failure in failures if failure is not None]
    assert not found, f"{len(found)} of {CASES}:\n" + "\n".join(found)
