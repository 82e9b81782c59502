"""`attnlab corpora`: the list, the look at one corpus, its errors."""

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from attnlab.cli.app import app, main
from attnlab.core.errors import InputError
from attnlab.corpora.corpus import build_corpus, list_pairs, summarise_corpus


def run(*words: str) -> str:
    result = CliRunner().invoke(app, ["corpora", *words], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for language, word in {"en": "a", "de": "b", "it": "c"}.items():
        lines = "".join(" ".join([word] * (1 + n % 5)) + f" {n}\n" for n in range(40))
        (tmp_path / f"train.{language}").write_text(lines)
    return tmp_path


def test_list_names_every_source() -> None:
    output = run()
    for name in ("embedded", "opus_books", "PATH.tsv", "PATH.jsonl", "not needed"):
        assert name in output


def test_look_at_a_folder(folder: Path) -> None:
    output = run(str(folder))
    assert "en-it" in output
    assert "en-de" in output
    assert "36" in output
    turned = run(str(folder), "--pair", "de-it", "--document", "2")
    assert "18" in turned


@pytest.mark.slow
def test_pairs_are_named_where_there_are_several(folder: Path, tmp_path: Path) -> None:
    several = tmp_path / "several"
    several.mkdir()
    for pair in ("fr-de", "fr-it"):
        for split in ("train", "validation", "test"):
            (several / f"{pair}.{split}.tsv").write_text("a b\tc d\n" * 3)
    assert "Pairs: fr-de, fr-it" in run(str(several))
    assert "Pairs: en-it, en-de, it-de" in run(str(folder))
    assert "Pairs:" not in run("embedded")


def test_pairs_of_a_path(folder: Path, tmp_path: Path) -> None:
    assert list_pairs("embedded") == ["en-it"]
    assert list_pairs(str(folder)) == ["en-it", "en-de", "it-de"]
    table = tmp_path / "x" / "all.tsv"
    table.parent.mkdir()
    table.write_text("a\tb\n")
    assert list_pairs(str(table)) == []
    (table.parent / "fr-de.train.tsv").write_text("a\tb\n")
    assert list_pairs(str(table.parent)) == ["fr-de"]
    assert list_pairs(str(table.parent / "fr-de")) == ["fr-de"]
    assert list_pairs("opus_books") == []


def test_summary_counts_words() -> None:
    rows = [("a b c", "a"), ("a", "a b")]
    splits = {"train": rows, "validation": rows[:1], "test": rows[1:]}
    table = summarise_corpus(build_corpus("x", ("en", "it"), splits))
    assert table["words_mean"].tolist() == [2.0, 1.5, 3.0, 1.0, 1.0, 2.0]
    assert table["words_percentile_95"].tolist() == [3, 2, 3, 1, 1, 2]
    assert table["pairs"].tolist() == [2, 2, 1, 1, 1, 1]
    assert table["language"].tolist() == ["en", "it"] * 3


def test_errors_are_one_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["attnlab", "corpora", str(folder), "--pair", "en-ja"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == InputError.exit_status
    error = capsys.readouterr().err
    assert "no pair en-ja; its languages are de, en, it" in error
    assert "Traceback" not in error
