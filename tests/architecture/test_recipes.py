"""Each recipe of CONTRIBUTING.md on a throw-away addition: it works, and touches as few files as it says."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from additions import ADDITIONS, LANGUAGE, QUESTION, Addition, add, copied_package
from distributions import ROOT

TESTS = ROOT / "tests"
# What lies beside the package, or is nothing of it.
OUTSIDE = {"published result", "definition"}


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What failed of each addition, in a copy of the package that has all of them."""
    folder = tmp_path_factory.mktemp("additions")
    package = copied_package(folder)
    for addition in ADDITIONS:
        add(addition, package)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(TESTS / "use_additions.py"), str(folder)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(folder), str(TESTS))), "COLUMNS": "200"},
        capture_output=True, text=True, check=False, cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("addition", ADDITIONS, ids=lambda one: one.row)
def test_what_is_added_by_its_recipe_works(addition: Addition, failures: dict[str, str]) -> None:
    assert not failures[addition.row], failures[addition.row]


@pytest.mark.parametrize("addition", ADDITIONS, ids=lambda one: one.row)
def test_a_recipe_touches_as_few_files_as_promised(addition: Addition) -> None:
    assert len({*addition.new, *addition.edits}) == addition.files


@pytest.mark.parametrize("addition", [QUESTION, LANGUAGE], ids=lambda one: one.row)
def test_what_is_a_folder_changes_no_file(addition: Addition) -> None:
    (_,) = {Path(name).parent for name in addition.new}
    assert not addition.edits


def test_every_recipe_has_an_addition() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.partition("## Where something new goes")[2].partition("##")[0]
    rows = set(re.findall(r"^\| ([a-z][a-z ]+) \|", table, flags=re.MULTILINE)) - {"new"}
    assert rows - OUTSIDE == {addition.row for addition in ADDITIONS}
