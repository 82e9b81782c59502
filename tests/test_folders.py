"""A folder with the last file of a result holds one whole result, whatever happens while it is written."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from attnlab.core.errors import AttnlabError, InputError
from attnlab.core.files import write_text
from attnlab.core.folders import (
    MARKS,
    UNFINISHED,
    interrupted_result,
    is_of_attnlab,
    locked,
    recorded_result,
    replacing_result,
)
from attnlab.models.run_folder import SETTINGS
from attnlab.results.result_files import RECORD

OLD = {"a.csv": "old", "gone.csv": "old", "figures/one.svg": "old", "figures/gone.svg": "old"}
NEW = {"a.csv": "new", "figures/one.svg": "new", "models/x/weights": "new", "page.html": "new"}
OWN = {"notes.txt": "own", "figures/own.png": "own"}
STEPS = ("rename", "unlink", "mkdir", "rmdir", "fsync", "open")


class Killed(BaseException):
    pass


def older(folder: Path) -> Iterator[Path]:
    return (folder / name for name in (*OLD, "page.html") if (folder / name).exists())


def content(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and UNFINISHED not in path.parts
    }


def write(folder: Path, files: Mapping[str, str] = NEW) -> None:
    """Writes the new result."""
    with replacing_result(folder, "page.html", older) as aside:
        for name, text in files.items():
            write_text(aside / name, text)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (OLD | OWN | {"page.html": "old"}).items():
        (tmp_path / "result" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "result" / name).write_text(text)
    return tmp_path / "result"


@contextmanager
def failing(
    monkeypatch: pytest.MonkeyPatch, call: int, error: BaseException
) -> Iterator[list[str]]:
    """The system call of this number, from 0, raises; yields the names of those that were made."""
    made: list[str] = []

    def wrapped(name: str) -> None:
        function = getattr(os, name)

        def step(*arguments: object, **options: object) -> object:
            made.append(name)
            if len(made) == call + 1:
                raise error
            return function(*arguments, **options)

        patch.setattr(os, name, step)

    with monkeypatch.context() as patch:
        for name in STEPS:
            wrapped(name)
        yield made


def test_a_result_is_replaced_and_what_is_not_its_own_stays(folder: Path) -> None:
    write(folder)
    assert content(folder) == NEW | OWN
    assert not (folder / UNFINISHED).exists()


def test_folders_that_a_new_result_leaves_empty_go(folder: Path) -> None:
    write(folder)
    with replacing_result(folder, "page.html", lambda old: (old / name for name in NEW)) as aside:
        write_text(aside / "page.html", "newest")
    assert content(folder) == {"page.html": "newest"} | OWN
    assert sorted(path.name for path in folder.iterdir() if path.is_dir()) == ["figures"]


def test_a_new_folder_is_made(tmp_path: Path) -> None:
    write(tmp_path / "deep" / "result")
    assert content(tmp_path / "deep" / "result") == NEW


def test_an_error_before_the_end_changes_nothing(folder: Path) -> None:
    before = content(folder)

    def fail() -> None:
        with replacing_result(folder, "page.html", older) as aside:
            write_text(aside / "page.html", "half")
            raise Killed

    with pytest.raises(Killed):
        fail()
    assert content(folder) == before
    assert not (folder / UNFINISHED).exists()


@pytest.mark.slow
@pytest.mark.parametrize("error", [Killed(), OSError(28, "No space left on device")])
def test_whatever_call_fails_the_last_file_stands_for_one_whole_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    whole = {"old": OLD | OWN | {"page.html": "old"}, "new": NEW | OWN}
    seen = set()
    for call in range(1_000):
        folder = tmp_path / str(call)
        for name, text in whole["old"].items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        with failing(monkeypatch, call, error) as made:
            try:
                write(folder)
            except (Killed, AttnlabError) as caught:
                message = str(caught)
            else:
                message = ""
        found = content(folder)
        state = found.get("page.html", "mixed")
        seen.add(state)
        if state != "mixed":
            assert found == whole[state], made
        if "changed" in message or "unchanged" in message:
            assert found == whole["old"], message
        assert set(OWN.items()) <= set(found.items())
        write(folder)
        assert content(folder) == whole["new"], made
        assert not (folder / UNFINISHED).exists()
        if len(made) <= call:
            break
    assert seen == {"old", "mixed", "new"}


@pytest.mark.parametrize("before", [{}, OLD | {RECORD: '{"result": "old"}'}], ids=["new", "older"])
def test_a_folder_is_known_by_a_record_wherever_its_writer_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: dict[str, str]
) -> None:
    kinds = set()
    for call in range(1_000):
        folder = tmp_path / str(call)
        for name, text in before.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        with failing(monkeypatch, call, OSError(28, "full")) as made, suppress(AttnlabError):
            write(folder, NEW | {RECORD: '{"result": "new"}'})
        kinds |= {(recorded_result(folder), interrupted_result(folder))}
        if folder.exists() and content(folder):
            assert is_of_attnlab(folder), made
        if len(made) <= call:
            break
    assert {(None, "new"), ("new", None)} <= kinds


def test_a_folder_is_no_result_by_what_its_folders_are_called(tmp_path: Path) -> None:
    (tmp_path / UNFINISHED).mkdir()
    assert not is_of_attnlab(tmp_path)
    assert not is_of_attnlab(tmp_path, ["cells.json"])
    (tmp_path / UNFINISHED / RECORD).write_text("no record")
    assert not is_of_attnlab(tmp_path)
    (tmp_path / "cells.json").write_text("{}")
    assert is_of_attnlab(tmp_path, ["cells.json"])


def test_marks_go_first_and_come_after_all_that_they_mark(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert set(MARKS) == {RECORD, SETTINGS}
    marked = ("result.json", "models/x/settings.json")
    for name in marked:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("old")

    def stop(self: Path, target: Path) -> None:
        assert not any((folder / name).exists() for name in (*marked, "page.html")), target
        rename(self, target)
        if target.name in MARKS:
            raise Killed

    rename = Path.rename
    monkeypatch.setattr(Path, "rename", stop)
    with pytest.raises(Killed):
        write(folder, NEW | dict.fromkeys(marked, "new"))
    found = content(folder)
    assert sum(name in found for name in marked) == 1
    assert (
        found.items() >= {name: text for name, text in NEW.items() if name != "page.html"}.items()
    )


def test_another_process_that_writes_there_is_refused(folder: Path) -> None:
    before = content(folder)
    with locked(folder), pytest.raises(InputError, match=rf"Another process \({os.getpid()}\)"):
        write(folder)
    assert content(folder) == before


def test_nothing_heavy_is_imported() -> None:
    code = "import sys, attnlab.core.folders; print({'torch', 'pandas'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_what_a_killed_process_left_beside_a_file_goes_with_the_next_result(tmp_path: Path) -> None:
    for name in (".page.html.0123abcd", ".page.html.mine", "figures/.a.svg.ffffffff"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    with replacing_result(tmp_path, "page.html") as aside:
        (aside / "figures").mkdir()
        (aside / "figures" / "a.svg").touch()
        (aside / "page.html").touch()
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert left == [".page.html.mine", "figures/a.svg", "page.html"]
