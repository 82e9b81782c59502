"""A result can be loaded by a process that has answered nothing: its notes are known."""

import subprocess
import sys

import pytest

# Prints the classes of notes that only other modules declare than those which loading imports.
UNKNOWN = """
import pkgutil
from importlib import import_module

import attnlab
from attnlab.core import InputError, kinds_of_notes
from attnlab.results import questions
from attnlab.results.records import _READING_NOTES

questions()
for name in _READING_NOTES:
    import_module(name)
known = set(kinds_of_notes())
for module in pkgutil.walk_packages(attnlab.__path__, "attnlab."):
    if not module.name.endswith("__main__"):
        try:
            import_module(module.name)
        except (ImportError, InputError):
            # What an extra brings.
            continue
print(*sorted(set(kinds_of_notes()) - known))
"""


@pytest.mark.slow
def test_every_note_is_known_where_a_result_is_loaded() -> None:
    done = subprocess.run(
        [sys.executable, "-c", UNKNOWN], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []
