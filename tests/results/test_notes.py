"""Every note has words, and the words have its values."""

import inspect
import pkgutil
from dataclasses import fields
from importlib import import_module

import pytest

import attnlab
from attnlab.core.errors import Note, kinds_of_notes
from attnlab.questions.analyze.analysis_notes import TooLittleCounted, UndecidedLabel
from attnlab.questions.prune.question import AllHeadsClosed
from attnlab.reading.reading_notes import SentencesDropped

LABEL = UndecidedLabel("rare", ("encoder", "cross"), 1234, "rows")
VALUES = {
    "int": 7,
    "float": 0.25,
    "str": "word",
    "bool": True,
    "int | None": 7,
    "tuple": ("encoder.0.1",),
    "Literal": "all",
}


def kinds() -> list[type[Note]]:
    modules = [one.name for one in pkgutil.walk_packages(attnlab.__path__, "attnlab.")]
    homes = [
        name for name in modules if name.endswith(("notes", ".question")) and ".cli" not in name
    ]
    found = {
        kind
        for home in homes
        for _, kind in inspect.getmembers(import_module(home), inspect.isclass)
        if issubclass(kind, Note) and kind is not Note
    }
    return sorted(found, key=lambda kind: kind.__name__)


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_every_note_has_words(kind: type[Note]) -> None:
    special = {
        "labels": (LABEL,),
        "above": ((0.3, 5), (0.4, 2)),
        "shares": (("test", 0.4),),
        "what": "context",
    }
    types = {one.name: getattr(one.type, "__name__", str(one.type)) for one in fields(kind)}
    values = {name: special.get(name, VALUES.get(kind)) for name, kind in types.items()}
    assert None not in values.values(), "a type that this test must learn"
    text = str(kind(**values))
    assert text[0].isupper() or text[0].isdigit() or types.get("site") is not None
    assert text[-1] in ".)" or text.endswith("word")
    assert "None" not in text


def test_no_two_kinds_of_notes_have_one_name() -> None:
    """By the name a result finds its notes again."""
    names = [kind.__name__ for kind in kinds()]
    assert len(names) == len(set(names))
    assert set(names) <= set(kinds_of_notes())


@pytest.mark.parametrize(("count", "verb"), [(1, "was"), (2, "were")])
def test_a_single_sentence_was_and_several_were_left_out(count: int, verb: str) -> None:
    text = str(SentencesDropped(count, 9, 40, part="test"))
    assert text.startswith(f"{count} of 9 test sentences {verb} left out: ")


@pytest.mark.parametrize(
    ("there", "told"),
    [
        (None, "(--sentences 90) if there are that many"),
        (50, "more than the 50 there are here: name others (--text or --corpus)"),
        (90, "(--sentences 90), of the 90 there are"),
    ],
)
def test_the_number_of_sentences_to_look_at_knows_how_many_there_are(
    there: int | None, told: str
) -> None:
    note = TooLittleCounted((LABEL,), 90, there, treebank=False, never_met=False)
    text = str(note)
    assert told in text
    assert "'rare' in encoder, cross (fewer than 1,234 rows)" in text


SYNTACTIC = UndecidedLabel("syntactic", ("decoder",), 100, "links")


@pytest.mark.parametrize(
    ("labels", "treebank", "told"),
    [
        ((LABEL, SYNTACTIC), True, "(--text or --corpus; for 'syntactic' --treebank)"),
        ((SYNTACTIC,), True, "(--treebank)"),
        ((LABEL,), True, "(--text or --corpus)"),
        ((SYNTACTIC,), False, "(a --corpus with gold trees and alignments)"),
    ],
)
@pytest.mark.parametrize(("there", "never_met"), [(50, False), (50, True), (None, True)])
def test_a_treebank_is_asked_for_only_by_labels_that_rest_on_links(
    labels: tuple[UndecidedLabel, ...],
    treebank: bool,
    told: str,
    there: int | None,
    never_met: bool,
) -> None:
    text = str(TooLittleCounted(labels, 90, there, treebank, never_met))
    assert text.count(told) == 1
    assert text.count("--treebank") == told.count("--treebank")


def test_one_head_is_said_in_the_singular() -> None:
    told = str(AllHeadsClosed(0.1, 1))
    assert told == "At penalty 0.1 the only head is closed; try a smaller one."
