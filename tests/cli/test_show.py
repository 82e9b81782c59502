"""`attnlab show`: where the page is written, and what is refused before a model is loaded."""

from pathlib import Path

import pytest
from browser.planted_page import planted_analysis
from cli.conftest import Command
from zoo.random_models import PAIRS

from attnlab import size


def test_the_page_stands_in_the_current_folder_and_is_replaced_only_when_asked(
    attnlab: Command, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(model.rglob("*"))
    assert attnlab("show", model, *PAIRS[1], "--head", "cross.0.1") == (0, "", "Wrote show.html.\n")
    page = tmp_path / "show.html"
    first = page.read_text("utf-8")
    assert "#head=cross.0.1" in first
    source, target = PAIRS[1]
    command = f"attnlab show --head cross.0.1 {model.name} &#39;{source}&#39; &#39;{target}&#39;"
    assert f"<dt>Repeat with</dt><dd>{command}</dd>" in first
    status, _, err = attnlab("show", model, PAIRS[2][0])
    assert status == 2
    assert "show.html exists; add --overwrite" in err
    assert attnlab("show", model, PAIRS[2][0], "--overwrite")[0] == 0
    assert page.read_text("utf-8") != first
    status, _, err = attnlab("show", model, PAIRS[2][0], "--out", "heads.pdf")
    assert (status, Path("heads.pdf").exists()) == (2, False)
    assert "heads.pdf does not end in .html" in err
    words = (model, *PAIRS[1], "--weights", "contribution", "--overwrite")
    assert attnlab("show", *words)[0] == 0
    assert f"attnlab show --weights contribution {model.name} " in page.read_text("utf-8")
    assert sorted(model.rglob("*")) == before, "nothing is written beside a model"
    Path("a cat").write_text("a dog", encoding="utf-8")
    said = f"a cat is taken as the sentence, not as a file; for its lines: attnlab analyze {model} "
    said += "--text 'a cat'"
    assert said in attnlab("show", model, "a cat", "--overwrite")[2]


def test_the_folder_of_an_analysis_shows_its_kept_sentences(
    attnlab: Command, model: Path, tmp_path: Path
) -> None:
    found, sizes, page = tmp_path / "found", tmp_path / "sizes", tmp_path / "page.html"
    planted_analysis().save(found)
    size(model).save(sizes)
    assert attnlab("show", found, "--out", page) == (0, "", f"Wrote {page}.\n")
    assert "of the analysis, those whose matrices it kept" in page.read_text("utf-8")
    for words, message in (
        ((found, "A text."), "shows the sentences that it kept; leave 'A text.' out"),
        ((sizes,), "A result of size keeps no matrices; show one of analyze"),
        ((found, "--weights", "contribution"), "the matrices that it kept; leave --weights out"),
    ):
        status, _, err = attnlab("show", *words, "--out", tmp_path / "no.html")
        assert status == 2
        assert message in " ".join(err.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("show", "nothere", "A text."), "There is no folder 'nothere'"),
        (("show", "heads.npy", "A text."), "heads.npy names a file of matrices"),
        (("show", "MODEL"), 'needs a sentence: attnlab show MODEL "A sentence."'),
        (("show", "MODEL", " "), "The sentence is empty"),
        (("show", "MODEL", "A text.", ""), "The sentence is empty"),
        (("size", "MODEL", "--mechanism", "bandd(window=2)"), "bandd"),
        (("compare", "MODEL", "--budget", "5,9"), "'5,9' is no whole number; write --budget 5 --budget 9."),
        (("analyze", "MODEL", "--sentences", "ten"), "'ten' is no whole number; --text names a file of"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused_before_a_model_is_loaded(
    attnlab: Command, words: tuple[str, ...], message: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "MODEL"
    folder.mkdir()
    # No model can be made of it.
    (folder / "config.json").write_text("{}")
    status, out, err = attnlab(*words)
    assert (status, out) == (2, "")
    told = " ".join(err.replace("│", " ").split())
    assert message in told
    assert [path.name for path in tmp_path.iterdir()] == ["MODEL"]
