"""Sentences for a model that brings none to learn on, split in turn: held out, training, validation."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strict_json import read_json
from typer.testing import CliRunner
from zoo import random_models
from zoo.random_models import PAIRS, SENTENCES, tokenizer

import attnlab
from attnlab.cli.app import app
from attnlab.core.errors import InputError
from attnlab.evaluation.shared_settings import FewerThanAsked, SplitTexts
from attnlab.evaluation.sources import Texts, split_texts
from attnlab.questions.compare.question import ComparisonSettings
from attnlab.reading.text_tokens import source_of
from attnlab.results.result import Result

QUESTIONS: dict[str, dict[str, Any]] = {
    "compare": {"budgets": [3], "mechanisms": ["band"]},
    "plan": {"budgets": [3], "families": ["none", "band"], "criterion": "l1"},
    "prune": {"penalties": [1.0], "steps": 1, "random": False},
}
MODELS = {"bert": SENTENCES, "gpt2": SENTENCES, "marian": PAIRS}
WORDS = st.sampled_from("abcde")


@given(
    st.lists(WORDS | st.tuples(WORDS, WORDS)),
    st.integers(0, 9),
    *(st.integers(1, 9) | st.just(99) for _ in range(3)),
    st.none() | st.lists(WORDS, min_size=1, max_size=2),
)
def test_parts_are_disjoint_and_turns_those_of_sources(
    texts: list[Any], read: int, held_out: int, training: int, validation: int, chosen: Any
) -> None:
    settings = ComparisonSettings(
        sentences=held_out, calibration=training, validation=chosen or validation
    )
    there = Texts(tuple(texts[:read]), beyond=tuple(texts[read:]))
    sources = list(dict.fromkeys(map(source_of, texts)))
    sources = [one for one in sources if one not in (chosen or ())]
    parts = 2 if chosen else 3
    if len(sources) < parts:
        with pytest.raises(InputError, match=f"at least {parts} different .* not {len(sources)}; "):
            split_texts(there, settings)
        return
    split = split_texts(there, settings)
    limits = [(split.texts, held_out), (split.training, training), (split.validation, validation)]
    for turn, (part, most) in enumerate(limits):
        expected = [text for text in texts if source_of(text) in sources[turn::parts]]
        assert list(part) == (expected[:most] if turn < parts else [])


@pytest.mark.slow
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("name", MODELS)
def test_a_list_alone_gives_what_its_three_parts_give(question: str, name: str) -> None:
    ask, texts = getattr(attnlab, question), MODELS[name]
    model = random_models.ALL[name](), tokenizer()
    told = QUESTIONS[question] | {"quick": True}
    alone: Result = ask(model, sentences=texts, **told)
    apart: Result = ask(
        model, sentences=texts[::3], calibration=texts[1::3], validation=texts[2::3], **told
    )
    assert alone.tables.keys() == apart.tables.keys()
    for key, table in alone.tables.items():
        pair = [
            one.drop(columns="time_ratio", errors="ignore") for one in (table, apart.tables[key])
        ]
        pd.testing.assert_frame_equal(*pair)
    assert [note for note in alone.notes if note not in apart.notes] == [SplitTexts(3, 2, 2)]


@pytest.mark.parametrize("question", QUESTIONS)
def test_lines_of_a_file_are_split_before_as_many_as_asked_for_are_taken(
    question: str, tmp_path: Path
) -> None:
    model, text = tmp_path / "model", tmp_path / "text.txt"
    random_models.gpt2().save_pretrained(model)
    tokenizer().save_pretrained(model)
    text.write_text("\n".join(SENTENCES), encoding="utf-8")
    words = {
        "compare": "--budget 3 --mechanisms band",
        "plan": "--budget 3 --families none,band --criterion l1",
        "prune": "--penalty 1 --steps 1 --no-random",
    }[question]
    asked = [
        question,
        str(model),
        "--text",
        str(text),
        "-n",
        "2",
        "--quick",
        "--json",
        *words.split(),
    ]
    done = CliRunner().invoke(app, [*asked, "--out", str(tmp_path / "out")], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    notes = read_json(done.stdout)["notes"]
    assert any("split in turn: 2 held out, 2 to learn on, 2 to choose on." in one for one in notes)
    assert not any("were asked for" in one for one in notes)
    saved = Result.load(tmp_path / "out")
    assert not any(isinstance(note, FewerThanAsked) for note in saved.notes)


@pytest.mark.parametrize("question", QUESTIONS)
def test_validation_sentences_that_are_given_leave_two_parts(question: str) -> None:
    model = random_models.gpt2(), tokenizer()
    told = QUESTIONS[question] | {"quick": True, "sentences": SENTENCES}
    found = getattr(attnlab, question)(model, validation=SENTENCES[5:], **told)
    (note,) = (note for note in found.notes if isinstance(note, SplitTexts))
    assert note == SplitTexts(3, 2, None)
    assert "split in turn: 3 held out, 2 to learn on. Figures" in " ".join(map(str, found.notes))
    with pytest.raises(InputError, match="2 parts .* at least 2 different ones are needed, not 1;"):
        getattr(attnlab, question)(model, validation=SENTENCES[1:], **told)
