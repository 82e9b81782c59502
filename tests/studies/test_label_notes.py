"""What notes on labels say of the sentences that would decide them."""

import pandas as pd
import pytest

from attnlab.labels.gold import Gold
from attnlab.labels.sink import SINK_KINDS
from attnlab.labels.verdict import UNDECIDED
from attnlab.questions.analyze.analysis_notes import SinksByThreshold, TooLittleCounted
from attnlab.questions.analyze.labelling import label_notes
from attnlab.reading.weights import ALL, VIEWS, View
from attnlab.results.notes import describe_notes

VERDICTS = pd.DataFrame(
    {
        "site": "decoder", "label": "syntactic", "status": UNDECIDED, "needed": 100, "counted": 5,
        "unit": "links", "value": 0.5,
    },
    index=[0],
)  # fmt: skip


@pytest.mark.parametrize("paired", [False, True])
def test_a_treebank_reaches_the_decoder_of_a_language_model_alone(paired: bool) -> None:
    found = label_notes(
        VERDICTS,
        keys=ALL,
        gold=Gold((), trees=True),
        there=None,
        unaligned={},
        corpus_known=True,
        paired=paired,
        without_rare={},
    )
    assert [note.treebank for note in found if isinstance(note, TooLittleCounted)] == [not paired]


@pytest.mark.parametrize("keys", VIEWS)
def test_the_note_on_sinks_names_the_kinds_of_keys_that_its_view_counts(keys: View) -> None:
    verdicts = VERDICTS.assign(label="sink", unit="sentences")
    notes = label_notes(
        verdicts,
        keys=keys,
        gold=Gold((), trees=True),
        there=None,
        unaligned={},
        corpus_known=True,
        paired=False,
        without_rare={},
    )
    (note,) = (one for one in notes if isinstance(one, SinksByThreshold))
    assert note == SinksByThreshold(keys, 1, ((0.3, 1), (0.4, 1), (0.5, 0), (0.6, 0)))
    words = {
        "opening": "one special token",
        "closing": "one special token",
        "first": "the first token",
    }
    for kind in {kind for kinds in SINK_KINDS.values() for kind in kinds}:
        assert (words.get(kind, kind) in describe_notes([note])[0]) == (kind in SINK_KINDS[keys])
