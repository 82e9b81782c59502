"""Windows by kind of text: shares of sentences and of keys, against the tables that they come from."""

import sys
from pathlib import Path

import pandas as pd
import pytest

from attnlab.core.files import write_table
from experiments.shared.readme import read_table
from experiments.windows_by_language.reading import TRAINED, UNTRAINED, WORDS
from experiments.windows_by_text import run as experiment


def _write(folder: Path, models: dict[tuple[str, ...], float], words: float) -> None:
    """Tables of models of two heads; the number of each is their window."""
    names = experiment.MODEL[-len(next(iter(models))) :]
    heads, described = [], []
    for key, window in models.items():
        model = dict(zip(names, key, strict=True))
        for condition, wider in ((TRAINED, 0), (UNTRAINED, 2)):
            for head in range(2):
                for unit, own in ((WORDS, window), ("tokens", 99)):
                    heads.append(
                        model
                        | {
                            "head": head, "condition": condition, "unit": unit, "keys": "words",
                            "w90": own + wider + head, "num_pos": 3 * head, "window_keys": 20.0,
                            "best_keys": 20.0 - head - wider, "rare_keys": 20.0,
                        }
                    )  # fmt: skip
        described.append(
            model
            | {
                "words_per_sentence": words, "bleu": 12.5, "training_pairs": 7, "validation_loss": 3.0,
            }
        )  # fmt: skip
    write_table(folder / "heads.csv", pd.DataFrame(heads))
    write_table(folder / "models.csv", pd.DataFrame(described))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "windows_by_text"
    _write(tmp_path / "windows_multi30k", {("en", "de"): 5, ("de", "en"): 4}, 10)
    _write(tmp_path / "windows_bible", {("en", "it"): 15, ("it", "en"): 16}, 20)
    here = {
        ("tatoeba", "en", "it"): 2.0,
        ("tatoeba", "it", "en"): 3.0,
        ("europarl", "en", "it"): 8.0,
    }
    _write(folder, here, 5)
    return folder


def test_shares_are_of_sentences_and_of_keys(out: Path) -> None:
    table = experiment.by_model(out)
    assert table["text"].unique().tolist() == list(experiment.KINDS)
    row = table.set_index(experiment.MODEL).loc["bible", "en", "it"]
    assert row["share"] == pytest.approx(15.5 / 20)
    assert row["share_untrained"] == pytest.approx(17.5 / 20)
    assert row["beyond"] == pytest.approx(-0.1)
    assert row["columns"] == 1.5
    assert row[["saved", "saved_rare", "saved_untrained"]].tolist() == pytest.approx(
        [0.025, 0, 0.125]
    )
    means = experiment.by_text(table).set_index(["text", "source"])
    assert means.loc[("multi30k", experiment.EVERY), "share"] == pytest.approx(0.5)
    assert means.loc[("multi30k", "de"), "models"] == 1


def test_the_page_names_what_is_missing(out: Path) -> None:
    experiment.write_result(out, "python run.py")
    text = (out / "README.md").read_text("utf-8")
    assert "Not trained yet: europarl it en, tatoeba en fr, europarl en sv, tatoeba fr en, " in text
    assert "save, of the keys of a window alone, 2.5 % in conversation, 2.5 % in captions" in text
    assert (
        "alone: 0.50 in conversation, 0.55 in captions, 1.70 in proceedings, 0.78 in verses" in text
    )
    assert (out / "shares.svg").exists()


def test_the_page_speaks_of_the_kinds_that_were_read(out: Path) -> None:
    for name in ("heads", "models"):
        table = read_table(out, name)
        own = (table["text"] == "tatoeba") & (table["target"] == "it")
        write_table(out / f"{name}.csv", table[own])
    experiment.write_result(out, "python run.py")
    text = (out / "README.md").read_text("utf-8")
    assert "need in conversation, captions, verses, as a share" in text
    assert "English is a source of conversation, captions, verses." in text
    assert "conversation: 1 of BLEU 12.5, captions: 2 of BLEU 12.5 to 12.5" in text
    assert "* Nothing of proceedings: no model was read." in text
    assert text.count("proceedings") == 1


def test_each_pair_of_english_is_read_once(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only models whose rows are not there are trained; all collections have their pairs both ways."""
    trained = []
    monkeypatch.setattr(experiment, "OUT", out)
    monkeypatch.setattr(experiment, "model_of", lambda *given: trained.append(given[:3]))
    monkeypatch.setattr(experiment, "publish", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["run.py", "data"])
    experiment.main()
    known = set(read_table(out, "models")[experiment.MODEL].itertuples(index=False, name=None))
    assert len(trained) == len(set(trained)) == 8 - len(known)
    assert set(trained) == set(experiment.asked()) - known
