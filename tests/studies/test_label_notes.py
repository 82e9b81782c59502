"""What notes on labels say of the sentences that would decide them."""

import pandas as pd
import pytest

from attnlab.functions.gold import Gold
from attnlab.functions.verdict import UNDECIDED
from attnlab.studies.analysis.label_notes import label_notes
from attnlab.studies.analysis.notes import TooLittleCounted

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
        gold=Gold((), trees=True),
        there=None,
        unaligned={},
        corpus_known=True,
        paired=paired,
        without_rare={},
    )
    assert [note.treebank for note in found if isinstance(note, TooLittleCounted)] == [not paired]
