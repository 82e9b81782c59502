"""What notes on labels say of the sentences that would decide them."""

import math
import re
from typing import Any

import pandas as pd
import pytest

from attnlab.core.errors import Note
from attnlab.evaluation import EveryRowHits
from attnlab.labels.gold import Gold
from attnlab.labels.sink import SINK_KINDS
from attnlab.labels.treebank import GoldSentence
from attnlab.labels.verdict import CONFIRMED, UNDECIDED
from attnlab.questions.analyze.analysis_notes import (
    SinksByThreshold,
    TooLittleCounted,
    Unaligned,
)
from attnlab.questions.analyze.labelling import label_notes
from attnlab.reading.weights import ALL, VIEWS, View

VERDICTS = pd.DataFrame(
    {
        "site": "decoder", "label": "syntactic", "status": UNDECIDED, "needed": 100, "counted": 5,
        "unit": "links", "value": 0.5, "statistic": "argmax_accuracy", "layer": 0, "head": 1,
        "detail": "",
    },
    index=[0],
)  # fmt: skip


def notes_of(verdicts: pd.DataFrame, keys: View = ALL, **options: Any) -> list[Note]:
    told: dict[str, Any] = {
        "gold": Gold((), trees=True), "available": None, "unaligned": {}, "corpus_known": True,
        "paired": False, "without_rare": {}, "contributions": False,
    }  # fmt: skip
    return label_notes(verdicts, keys=keys, **told | options)


def test_a_head_whose_every_row_hits_is_named_where_texts_are_too_few() -> None:
    every = VERDICTS.assign(value=1.0, detail="offset -1", statistic="argmax_rate")
    others = [
        every.assign(head=2),
        every.assign(head=3, status=CONFIRMED),
        every.assign(head=4, value=0.99),
        every.assign(head=5, statistic="mean_entropy_over_ln_n"),
    ]
    (note,) = (one for one in notes_of(pd.concat([every, *others])) if type(one) is EveryRowHits)
    assert note.heads == ("decoder.0.1: offset -1", "decoder.0.2: offset -1")
    assert "Every row of 'decoder.0.1: offset -1' (and of 1 other) hits." in str(note)


@pytest.mark.parametrize("paired", [False, True])
def test_a_treebank_reaches_the_decoder_of_a_language_model_alone(paired: bool) -> None:
    found = notes_of(VERDICTS, paired=paired)
    assert [note.treebank for note in found if isinstance(note, TooLittleCounted)] == [not paired]


def test_sentences_without_words_are_counted_and_the_first_is_named() -> None:
    found = notes_of(VERDICTS, unaligned={"s3": "a word is cut", "s5": "no text"})
    assert [note for note in found if isinstance(note, Unaligned)] == [
        Unaligned(2, "s3", "a word is cut")
    ]
    for count, words in ((1, "1 sentence is not"), (2, "2 sentences are not")):
        text = str(Unaligned(count, "s3", "a word is cut"))
        assert text.startswith(words)
        assert "s3, a word is cut" in text


@pytest.mark.parametrize(
    ("sentences", "counted", "wanted"), [(1, 0, 44), (2, 1, 44), (30, 15, 44), (30, 5, 132)]
)
def test_advice_is_never_below_what_both_halves_need(
    sentences: int, counted: int, wanted: int
) -> None:
    verdicts = VERDICTS.assign(label="sink", unit="sentences", needed=20, counted=counted)
    found = notes_of(
        verdicts, gold=Gold((GoldSentence("1", "", (), (), ()),) * sentences, trees=True)
    )
    (note,) = (one for one in found if isinstance(one, TooLittleCounted))
    assert note.advised == pytest.approx(wanted, abs=8)


@pytest.mark.parametrize(
    ("available", "told"),
    [
        (5000, r"use about \d+ sentences \(--sentences \d+\), of the 5,000 there are\.$"),
        (20, r"about \d+ sentences are needed, more than the 20 there are here\.$"),
    ],
)
def test_of_a_generated_corpus_no_others_are_named(available: int, told: str) -> None:
    sentences = (GoldSentence("1", "", (), (), ()),) * 30
    gold = Gold(sentences, trees=True, generated=True)
    for counted in (0, 5):
        found = notes_of(VERDICTS.assign(counted=counted), gold=gold, available=available)
        (note,) = (one for one in found if isinstance(one, TooLittleCounted))
        assert re.search(told, str(note))


def test_heads_whose_weight_was_not_measured_are_no_heads_without_a_sink() -> None:
    verdicts = pd.concat(
        [VERDICTS.assign(label="sink", unit="sentences", value=x) for x in (0.5, math.nan)]
    )
    (note,) = (one for one in notes_of(verdicts) if isinstance(one, SinksByThreshold))
    assert note.heads == 1
    found = notes_of(verdicts[verdicts["value"].isna()])
    assert not any(isinstance(one, SinksByThreshold) for one in found)


@pytest.mark.parametrize("keys", VIEWS)
def test_the_note_on_sinks_names_the_kinds_of_keys_that_its_view_counts(keys: View) -> None:
    notes = notes_of(VERDICTS.assign(label="sink", unit="sentences"), keys)
    (note,) = (one for one in notes if isinstance(one, SinksByThreshold))
    assert note == SinksByThreshold(keys, 1, ((0.3, 1), (0.4, 1), (0.5, 0), (0.6, 0)))
    words = {
        "opening": "one special token",
        "closing": "one special token",
        "first": "the first token",
    }
    for kind in {kind for kinds in SINK_KINDS.values() for kind in kinds}:
        assert (words.get(kind, kind) in str(note)) == (kind in SINK_KINDS[keys])
