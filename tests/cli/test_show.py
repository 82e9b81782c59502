"""`attnlab show`: where the page is written, and what is refused before a model is loaded."""

import shutil
from pathlib import Path

import pytest
from cli.conftest import Command
from zoo.random_models import PAIRS


def test_the_page_stands_in_a_folder_of_the_model_and_is_replaced_only_when_asked(
    attnlab: Command, model: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(model, tmp_path / "copy")
    page = copy / "show" / "page.html"
    assert attnlab("show", copy, *PAIRS[1], "--head", "cross.0.1") == (0, "", f"Wrote {page}.\n")
    first = page.read_text("utf-8")
    assert "#head=cross.0.1" in first
    status, _, err = attnlab("show", copy, PAIRS[2][0])
    assert status == 2
    assert f"{page} exists; add --overwrite" in err
    assert attnlab("show", copy, PAIRS[2][0], "--overwrite")[0] == 0
    assert page.read_text("utf-8") != first


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("show", "nothere", "A text."), "There is no folder 'nothere'"),
        (("show", "heads.npy", "A text."), "heads.npy names a file of matrices"),
    ],
)
def test_what_is_no_model_is_refused(
    attnlab: Command, words: tuple[str, ...], message: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    status, out, err = attnlab(*words)
    assert (status, out) == (2, "")
    assert message in err
    assert not [*tmp_path.iterdir()]
