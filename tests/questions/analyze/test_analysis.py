"""The analysis of a model as a whole, and the sources it takes."""

from pathlib import Path

import pandas as pd
import pytest
import torch
from zoo import random_models
from zoo.random_models import PAIRS, SENTENCES, tokenizer

import attnlab
from attnlab.core.addresses import sites_named
from attnlab.core.errors import InputError
from attnlab.evaluation.shared_settings import (
    FewerThanAsked,
    FewForMeans,
    OtherLanguages,
    RepeatedTexts,
    TranslationsUnread,
)
from attnlab.evaluation.sources import model_and_texts, read_texts
from attnlab.questions.analyze.analysis import analyze
from attnlab.questions.analyze.analysis_notes import TooLittleCounted
from attnlab.reading.reading_notes import NoTranslations, SentencesDropped

HEADS_ALONE = {"keep_matrices": 0, "fit_sentences": 0, "structure_sentences": 0, "labels": False}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bert")
    random_models.bert().save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def test_an_encoder_decoder_gives_all_tables(untouched_randomness: None) -> None:
    found = analyze(
        (random_models.marian(), tokenizer()),
        sentences=PAIRS,
        fit_sentences=2,
        labels=False,
        structure_sentences=0,
    )
    assert found.heads.groupby("site").size().to_dict() == {
        "encoder": 6,
        "decoder": 15,
        "cross": 15,
    }
    assert set(found.fits["sentences"]) == {2}
    assert len(found.fits) == 36 * (11 + 3 + 7)
    assert "fits_by_sentence" not in found.tables
    assert {key[0] for key in found.matrices.matrices} == {0, 1, 2}
    assert "teacher forcing" in found.about["Decoder input"]
    assert found.notes == (FewForMeans(7),)


def test_sites_that_sentences_without_translations_leave_out_are_told() -> None:
    source = random_models.marian(), tokenizer()
    found = analyze(source, sentences=SENTENCES, **HEADS_ALONE)
    assert set(found.heads["site"]) == {"encoder"}
    assert NoTranslations() in found.notes
    chosen = analyze(source, sentences=SENTENCES, sites=["encoder"], **HEADS_ALONE)
    assert NoTranslations() not in chosen.notes


def test_a_corpus_in_other_languages_than_the_run_s_is_told(
    small_run: Path, tmp_path: Path
) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"the cat {n}\tle chat {n}\n" for n in range(40)), "utf-8")
    for pair, notes in (("en-fr", [OtherLanguages("en-it", "en-fr")]), ("en-it", []), (None, [])):
        found = analyze(small_run, corpus=str(path), pair=pair, sentences=3, **HEADS_ALONE)
        assert [one for one in found.notes if isinstance(one, OtherLanguages)] == notes


def test_a_model_without_a_decoder_says_that_it_does_not_read_the_translations_of_a_corpus(
    tmp_path: Path,
) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{a} {n}\t{b}\n" for n in range(9) for a, b in PAIRS), "utf-8")
    for made, said in ((random_models.bert, True), (random_models.marian, False)):
        found = analyze((made(), tokenizer()), corpus=str(path), sentences=3, **HEADS_ALONE)
        assert (TranslationsUnread() in found.notes) is said
        assert found.about["Sentences"].startswith("3 from the test part of")
    found = analyze((random_models.bert(), tokenizer()), sentences=SENTENCES, **HEADS_ALONE)
    assert TranslationsUnread() not in found.notes


def test_batch_size_changes_nothing() -> None:
    model = random_models.small_marian().double()
    options = HEADS_ALONE | {"sentences": PAIRS[:4], "fit_sentences": 1}
    one = analyze((model, tokenizer()), batch_size=1, **options)
    all_at_once = analyze((model, tokenizer()), batch_size=99, **options)
    pd.testing.assert_frame_equal(one.heads, all_at_once.heads, rtol=1e-9, atol=1e-12)
    pd.testing.assert_frame_equal(one.fits, all_at_once.fits, rtol=1e-9, atol=1e-12)


def test_a_transformers_folder_and_a_file_of_sentences(saved: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("\n".join(SENTENCES) + "\n\n", encoding="utf-8")
    found = attnlab.analyze(
        saved, text=tmp_path / "text", sentences=5, sites=["encoder"], **HEADS_ALONE
    )
    assert found.about["Sentences"].startswith("5 from ")
    direct = analyze((random_models.bert(), tokenizer()), sentences=SENTENCES[:5], **HEADS_ALONE)
    pd.testing.assert_frame_equal(found.heads, direct.heads)


def test_fewer_sentences_than_were_asked_for_are_told(saved: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("\n".join(SENTENCES), encoding="utf-8")
    options = {"text": tmp_path / "text", **HEADS_ALONE, "labels": None}
    asked = attnlab.analyze(saved, sentences=99, **options)
    assert FewerThanAsked(99, "text", 7) in asked.notes
    plain = attnlab.analyze(saved, **options | {"labels": False})
    assert not any(isinstance(note, FewerThanAsked) for note in plain.notes)
    short = attnlab.analyze(saved, sentences=5, **options)
    for found in (asked, short):
        note = next(note for note in found.notes if isinstance(note, TooLittleCounted))
        assert note.available == 7, "known whether or not all of them are read"


@pytest.mark.parametrize(("texts", "told"), [
    ([*SENTENCES, SENTENCES[0]], True), (SENTENCES, False),
    ([f"{one} {number}" for one in SENTENCES for number in range(3)] + SENTENCES[:1] * 2, False),
])  # fmt: skip
def test_sentences_that_repeat_others_are_told(texts: list[object], told: bool) -> None:
    found = analyze((random_models.bert(), tokenizer()), sentences=texts, **HEADS_ALONE)
    notes = [note for note in found.notes if isinstance(note, RepeatedTexts)]
    assert notes == ([RepeatedTexts(1, len(texts))] if told else [])


def test_two_translations_of_a_sentence_are_not_independent_of_one_another() -> None:
    for texts in ([*PAIRS, (PAIRS[0][0], "another")], [*PAIRS, PAIRS[1]]):
        found = analyze((random_models.marian(), tokenizer()), sentences=texts, **HEADS_ALONE)
        assert RepeatedTexts(1, len(texts)) in found.notes


def test_dropped_sentences_are_a_warning(saved: Path) -> None:
    found = analyze(saved, sentences=[*SENTENCES, "cat " * 50], **HEADS_ALONE)
    assert SentencesDropped(1, 8, 37) in found.notes


def test_no_fits_when_none_are_wanted(saved: Path) -> None:
    assert analyze(saved, sentences=SENTENCES, **HEADS_ALONE).fits.empty


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "brings no sentences; add text, a file"),
        ({"sentences": 0}, "at least 1, not 0"),
        ({"sites": ["middle"]}, "no site 'middle'; choose from: encoder, decoder, cross"),
        ({"device": "abacus"}, "Device 'abacus' cannot be used"),
        ({"text": Path("nowhere.txt")}, "no file nowhere.txt"),
    ],
)
def test_options_that_cannot_be_used(saved: Path, options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        analyze(saved, **options)


def test_sources_that_cannot_be_loaded(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"No model could be loaded from .* is a folder"):
        model_and_texts(tmp_path, sentences=["a dog"])
    with pytest.raises(InputError, match="does not exist and is no name of a model on the hub"):
        model_and_texts(tmp_path / "missing", sentences=["a dog"])
    with pytest.raises(InputError, match="hand them in"):
        analyze((random_models.bert(), tokenizer()))


def test_files_of_sentences(tmp_path: Path) -> None:
    file = tmp_path / "text"
    file.write_text("a\tb\nc\td\r\n", encoding="utf-8")
    assert read_texts(file) == (("a", "b"), ("c", "d"))
    file.write_text("a\tb\nc\n", encoding="utf-8")
    with pytest.raises(InputError, match="each a sentence, a tab"):
        read_texts(file)
    file.write_text("\n\n", encoding="utf-8")
    with pytest.raises(InputError, match="is empty"):
        read_texts(file)
    file.write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(InputError, match="is UTF-16 text, not UTF-8"):
        read_texts(file)


def test_sites_from_text() -> None:
    assert sites_named(None) is None
    assert sites_named("cross, encoder") == ("encoder", "cross")
    with pytest.raises(InputError, match="no site 'middle'"):
        sites_named("encoder,middle")


def test_a_model_in_half_precision_is_checked_by_its_own_tolerance() -> None:
    half = random_models.bert().to(torch.bfloat16)
    found = analyze((half, tokenizer()), sentences=SENTENCES, **HEADS_ALONE)
    assert found.heads["entropy_nats"].notna().all()
