"""Writing files: what was there before stays when something goes wrong."""

import errno
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError, safe_open

from attnlab.core.errors import AttnlabError, InputError
from attnlab.core.files import (
    check_writable,
    delete_leftovers,
    last_in_place,
    replacing,
    write_json,
    write_tensors,
    write_text,
)


@pytest.mark.parametrize(
    "error", [SafetensorError("No space left (os error 28)"), OSError(28, "full")]
)
def test_a_full_disk_is_one_sentence_and_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    target = tmp_path / "weights.safetensors"
    target.write_bytes(b"before")
    monkeypatch.setattr("safetensors.torch.save_file", fail)
    with pytest.raises(
        AttnlabError, match=r"Could not write .*weights.safetensors: .*unchanged\.$"
    ):
        write_tensors(target, {"a": torch.zeros(3)})
    assert [path.name for path in tmp_path.iterdir()] == [target.name]
    assert target.read_bytes() == b"before"


def test_folders_on_the_way_to_a_file_are_made(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "c.txt"
    for text in ("one", "two"):
        with replacing(path) as temporary:
            temporary.write_text(text)
        assert path.read_text() == text
    assert [*tmp_path.rglob("*.*")] == [path]


def test_json_holds_letters_as_they_are(tmp_path: Path) -> None:
    write_json(tmp_path / "words.json", {"über": "naïve 猫"})
    assert (tmp_path / "words.json").read_text("utf-8") == '{\n  "über": "naïve 猫"\n}\n'


def test_other_errors_pass_as_they_are(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), replacing(tmp_path / "a"):
        _ = 1 / 0
    assert not list(tmp_path.iterdir())


def test_writing_text_needs_neither_torch_nor_safetensors() -> None:
    code = "import sys, attnlab.core.files; print({'torch', 'safetensors'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_tensors_are_the_same_to_the_last_byte_whatever_order_they_come_in(tmp_path: Path) -> None:
    tensors = {"b": torch.arange(3.0), "a": torch.zeros(2, dtype=torch.float16)}
    told = {"tokens": '["\\u0001\x7fé/\\""]', "kinds": "\n\b\x1f", "format": "1", "more": ""}
    for number in range(12):
        order = reversed(told.items()) if number % 2 else told.items()
        write_tensors(tmp_path / f"{number}.safetensors", tensors, dict(order))
    (content,) = {path.read_bytes() for path in tmp_path.iterdir()}
    assert content[8:].startswith(b'{"__metadata__":{"format":')
    with safe_open(tmp_path / "0.safetensors", "pt") as file:
        assert file.metadata() == told
        assert all(torch.equal(file.get_tensor(name), one) for name, one in tensors.items())


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOSPC])
def test_a_folder_that_cannot_be_written_is_found_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    check_writable(tmp_path / "not" / "yet")
    assert list(tmp_path.iterdir()) == []

    def refused(**_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(tempfile, "TemporaryFile", refused)
    with pytest.raises(InputError, match=f"{os.strerror(number)}; choose another"):
        check_writable(tmp_path / "not" / "yet")


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="only Linux has such a folder")
def test_a_folder_that_takes_no_files_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"Could not write to /proc/out: .*; choose another folder"
    ):
        check_writable("/proc/out")


def test_only_what_a_killed_process_left_is_deleted(tmp_path: Path) -> None:
    mine = [".page[1].html.bak", ".page[1].html.0123", "page[1].html", ".other.html.0123abcd"]
    for name in (*mine, ".page[1].html.0123abcd", ".page[1].html.ffffffff"):
        (tmp_path / name).touch()
    delete_leftovers(tmp_path, ["page[1].html"])
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(mine)


def test_files_that_take_their_places_last(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"

    def fail() -> None:
        with last_in_place([first]):
            write_text(first, "new")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert list(tmp_path.iterdir()) == []
    first.write_text("old")
    with last_in_place([first]):
        with last_in_place([first]):
            write_text(first, "new")
            write_text(second, "new")
            assert (first.read_text(), second.read_text()) == ("old", "new")
        assert first.read_text() == "old"
    assert first.read_text() == "new"
    assert sorted(tmp_path.iterdir()) == [first, second]
