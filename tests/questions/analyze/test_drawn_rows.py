"""Fits and structure of rows drawn from texts that are too long for whole matrices."""

from typing import Any

import pandas as pd
import pytest
from zoo.analyzed import ANALYZED
from zoo.random_models import ALL, PAIRS, SENTENCES, seeded, tokenizer

from attnlab.attention.bridge import watching
from attnlab.core.errors import InputError
from attnlab.questions.analyze import model_analysis
from attnlab.questions.analyze.analysis import analyze
from attnlab.questions.analyze.analysis_notes import RowsDrawn, TooLongToLabel
from attnlab.questions.analyze.question import (
    ROWS,
)
from attnlab.reading.sentences import Sentences
from attnlab.results import Result

TOKENIZER = tokenizer()
OPTIONS: dict[str, Any] = {"keep_matrices": 1, "fit_sentences": 5, "structure_sentences": 4}
# Sums over rows; those of `structure` have a row for each family.
SEPARATE = {"band", "diagonal_alone", "zero", "uniform"}
HEAD = ["site", "layer", "head"]


def analyzed(name: str, **options: Any) -> Result:
    model = seeded(ALL[name]).eval()
    texts = PAIRS if model.config.is_encoder_decoder else SENTENCES
    return analyze((model, TOKENIZER), sentences=texts, **OPTIONS | options)


@pytest.fixture
def too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """No text has room for whole matrices, and a layer has several blocks of rows."""
    monkeypatch.setattr(Sentences, "is_too_long", lambda *_, **__: True)
    monkeypatch.setattr(watching, "BLOCK_WEIGHTS", 200)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt2", "bert", "marian"])
def test_all_rows_drawn_give_what_whole_matrices_give(
    name: str, request: pytest.FixtureRequest
) -> None:
    whole = analyzed(name, labels=False)
    request.getfixturevalue("too_long")
    drawn = analyzed(name, keep_fits=True)
    assert set(drawn.fits["approximation"]) == SEPARATE
    separate = whole.fits[whole.fits["approximation"].isin(SEPARATE)].reset_index(drop=True)
    pd.testing.assert_frame_equal(drawn.fits, separate, rtol=1e-4, atol=1e-5)
    rows = drawn.fits_by_sentence
    assert (rows["rows_measured"] == rows["query_count"]).all()
    families = whole.structure[whole.structure["family"] != "rare_columns"].reset_index(drop=True)
    same = [*HEAD, "keys", "family", "sentences", "rows_coded", "rows_left_out"]
    pd.testing.assert_frame_equal(drawn.structure[same], families[same])
    bits = drawn.structure["bits_per_row"].to_list()
    assert bits == pytest.approx(families["bits_per_row"].to_list(), abs=1e-4)
    pd.testing.assert_frame_equal(drawn.heads, whole.heads, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("too_long")
def test_rows_follow_the_seed_and_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_analysis, "ROWS", 4)
    one, again, other = (analyzed("gpt2", seed=seed, keep_fits=True) for seed in (1, 1, 2))
    pd.testing.assert_frame_equal(one.fits, again.fits, check_exact=True)
    pd.testing.assert_frame_equal(one.structure, again.structure, check_exact=True)
    assert not one.fits["l1"].equals(other.fits["l1"])
    rows = one.fits_by_sentence
    assert (rows["rows_measured"] == rows["query_count"].clip(upper=4)).all()
    everything = one.structure[one.structure["keys"] == "all"]
    counted = rows.drop_duplicates("sentence").query("sentence < 4")["rows_measured"].sum()
    assert set(everything["rows_coded"]) == {counted}
    (note,) = [note for note in one.notes if isinstance(note, RowsDrawn)]
    assert (note.rows, note.seed) == (4, 1)
    assert [type(note) for note in one.notes].count(TooLongToLabel) == 1
    told = str(note)
    assert "fits and structure are of 4 rows drawn of each text (seed 1; all of a" in told
    assert ROWS == 256
    alone = analyzed("gpt2", fit_sentences=0, structure_sentences=0)
    assert not [note for note in alone.notes if isinstance(note, RowsDrawn)]
    (note,) = [note for note in alone.notes if isinstance(note, TooLongToLabel)]
    longest = max(len(TOKENIZER(text)["input_ids"]) for text in SENTENCES)
    assert note.tokens == longest
    assert not [
        note for note in analyzed("gpt2", labels=False).notes if isinstance(note, TooLongToLabel)
    ]
    assert not analyzed(
        "gpt2", labels=False, fit_sentences=0, structure_sentences=0
    ).tables.keys() & {"structure"}


@pytest.mark.slow
@pytest.mark.usefixtures("too_long")
def test_the_page_says_that_rows_were_drawn(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(model_analysis, "ROWS", 4)
    page = analyzed("bert", labels=False).report(tmp_path).read_text(encoding="utf-8")
    assert page.count("Of each sentence at most 4 rows, drawn at random, were measured") == 1
    assert "heads were not labelled" not in page


@pytest.mark.parametrize("option", ["labels", "ablation"])
def test_what_needs_whole_matrices_is_refused_where_it_is_asked_for(option: str) -> None:
    with pytest.raises(InputError, match="or leave labels, treebank and ablation out, so that"):
        analyzed("gpt2", memory=1e-9, **{option: True})


def test_a_model_that_is_read_whole_has_no_rows_drawn() -> None:
    model = seeded(ANALYZED["falcon"]).eval()
    with pytest.raises(InputError, match="no rows can be read without the others"):
        analyze((model, TOKENIZER), sentences=SENTENCES, memory=1e-9)
