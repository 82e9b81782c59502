"""A sentence chosen by its words: kept rather than another, and first on the page."""

from pathlib import Path

import pandas as pd
import torch
from zoo import random_models
from zoo.random_models import PAIRS, SENTENCES, tokenizer

from attnlab.questions.analyze.analysis import analyze
from attnlab.reading.capture import capture
from attnlab.reading.keeping import MatrixKeeper, load_kept_matrices
from attnlab.reading.passes import prepare

FEW = {"fit_sentences": 0, "structure_sentences": 0, "labels": False}


def test_chosen_sentences_are_kept_rather_than_others_and_change_no_figure(tmp_path: Path) -> None:
    source = random_models.small_marian(), tokenizer()
    plain = analyze(source, sentences=PAIRS, keep_matrices=3, **FEW)
    shown = [SENTENCES[5].upper(), f" {SENTENCES[4]}"]
    found = analyze(source, sentences=PAIRS, keep_matrices=3, show=shown, **FEW)
    assert found.matrices.sentences == (5, 4, 0)
    pd.testing.assert_frame_equal(found.heads, plain.heads)
    found.matrices.write(tmp_path / "matrices.safetensors")
    assert load_kept_matrices(tmp_path / "matrices.safetensors").sentences == (5, 4, 0)
    more = analyze(source, sentences=PAIRS, keep_matrices=1, show=shown, **FEW)
    assert more.matrices.sentences == (5, 4)


def test_the_page_begins_with_the_chosen_sentence(tmp_path: Path) -> None:
    source = random_models.bert(), tokenizer()
    found = analyze(source, sentences=SENTENCES, keep_matrices=2, show=[SENTENCES[5]], **FEW)
    page = found.report(tmp_path).read_text(encoding="utf-8")
    assert '<body data-start="#sentence=5">' in page
    assert page.index('"number":5') < page.index('"number":0')


def test_a_sentence_that_is_not_among_the_others_is_shown_and_counted_nowhere() -> None:
    source = random_models.small_marian(), tokenizer()
    plain = analyze(source, sentences=PAIRS[:4], keep_matrices=1, **FEW)
    shown = ["the red dog sees a bird", f"{SENTENCES[5]}\t{SENTENCES[4]}", SENTENCES[2]]
    found = analyze(source, sentences=PAIRS[:4], keep_matrices=3, show=shown, **FEW)
    assert found.matrices.sentences == (4, 5, 2, 0, 1)
    assert {site for number, site, _ in found.matrices.matrices if number == 4} == {"encoder"}
    assert {site for number, site, _ in found.matrices.matrices if number == 5} == {
        "encoder", "decoder", "cross",
    }  # fmt: skip
    pd.testing.assert_frame_equal(found.heads, plain.heads)
    alone = capture(source, [shown[0]], keep_matrices=1)["encoder", 0]
    torch.testing.assert_close(found.matrices.matrices[4, "encoder", 0], alone[0])


def test_chosen_sentences_stay_where_room_is_short() -> None:
    reading = prepare((random_models.bert(), tokenizer()), SENTENCES, None)
    whole = MatrixKeeper(9, 2**30)
    reading.feed([whole])
    sizes: dict[int, int] = {}
    for (number, _, _), matrix in whole.kept().matrices.items():
        sizes[number] = sizes.get(number, 0) + matrix.numel() * 4
    keeper = MatrixKeeper(9, sizes[4], chosen=[4])
    reading.feed([keeper])
    assert keeper.kept().sentences == (4,)
    scarce = MatrixKeeper(9, 64, chosen=[4])
    reading.feed([scarce])
    assert scarce.kept().sentences == (4,)
    assert scarce.kept().all_queries, "a part of it"
