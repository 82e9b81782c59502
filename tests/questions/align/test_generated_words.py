"""Links of what a model writes itself, beside those of teacher forcing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gold_pairs import MULTILINGUAL, aer_of, gold_file, marian
from zoo import random_models
from zoo.random_models import PAIRS, tokenizer

from attnlab.questions.align import (
    generated_words,
)
from attnlab.questions.align.aligning import align
from attnlab.questions.align.question import (
    NotGenerated,
    TranslationsNotAligned,
)
from attnlab.questions.align.word_reading import Part

pytestmark = pytest.mark.usefixtures("no_page")


@pytest.mark.parametrize("name", MULTILINGUAL)
def test_a_model_of_several_languages_writes_that_of_the_references(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told to begin with their code, where a greedy search of its own begins with any token."""
    build, tokenizer_of, source, target = MULTILINGUAL[name]
    model = build(), tokenizer_of()
    begun: list[list[int]] = []
    generate = model[0].generate

    def generating(*args: Any, **told: Any) -> Any:
        begun.extend(told["decoder_input_ids"].tolist())
        return generate(*args, **told)

    monkeypatch.setattr(model[0], "generate", generating)
    gold = gold_file(tmp_path, PAIRS)
    given = {"source_language": source, "target_language": target}
    found = align(model, gold=gold, **given)
    assert not any(isinstance(note, NotGenerated) for note in found.notes)
    code = model[1].convert_tokens_to_ids(target)
    assert len(begun) == len(PAIRS) // 2
    assert all(one[-1] == code for one in begun)
    begun.clear()
    align(model, gold=gold, quick=True, **given)
    assert not begun


def test_what_is_not_measured_while_a_model_writes_is_told(tmp_path: Path) -> None:
    """Nothing says how translations begin: no start token, and no code that all references have."""
    model = random_models.bart(), tokenizer()
    model[0].config.decoder_start_token_id = None
    gold = gold_file(tmp_path, PAIRS)
    for quick in (True, False):
        found = align(model, gold=gold, quick=quick)
        assert "generation" not in found.tables
        assert any(isinstance(note, NotGenerated) for note in found.notes) is not quick


def writing(monkeypatch: pytest.MonkeyPatch, written: Callable[[str], str]) -> None:
    """The model writes this in place of each reference."""

    def translations(evaluator: Any, report: Part, settings: Any) -> Any:
        texts = report.pairs.gold.target
        assert texts is not None
        targets = {number: written(texts[number].text) for number in report.numbers}
        return {
            number: generated_words.sentence_of(number, text) for number, text in targets.items()
        }

    monkeypatch.setattr(generated_words, "translations_of", translations)


def generation_of(tmp_path: Path) -> Any:
    model = marian(), tokenizer()
    gold = tmp_path / "links.pharaoh"
    gold.write_text("0-0 1-1\n" * len(PAIRS))
    return align(model, PAIRS, gold=gold).generation.iloc[0]


def test_references_that_the_model_writes_itself_have_the_links_of_teacher_forcing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing(monkeypatch, str)
    found = generation_of(tmp_path)
    assert found["word_share"] == 1
    assert found["words"] == sum(len(target.split()) for _, target in PAIRS[1::2])
    assert found["generated_aer"] == found["aer"]
    assert found["generated_change"] == 0


def test_words_that_only_the_reference_has_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing(monkeypatch, lambda text: text.split(maxsplit=1)[1])
    found = generation_of(tmp_path)
    words = sum(len(target.split()) for _, target in PAIRS[1::2])
    assert found["words"] == words - len(PAIRS[1::2])
    assert found["word_share"] == pytest.approx(found["words"] / words)


LONG = " ".join(["cat"] * 99)


@pytest.mark.parametrize("bad", [{1}, {1, 5}, {1, 3, 5}])
def test_translations_that_cannot_be_aligned_are_left_out_of_both_sides(
    bad: set[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if their pairs were not reported; what the model wrote begins with the reference there."""

    def translations(evaluator: Any, report: Part, settings: Any) -> Any:
        sides = report.pairs.gold.target
        assert sides is not None
        texts = {number: sides[number].text for number in report.numbers}
        return {
            number: generated_words.sentence_of(number, f"{text} {LONG}" if number in bad else text)
            for number, text in texts.items()
        }

    monkeypatch.setattr(generated_words, "translations_of", translations)
    model = marian(), tokenizer()
    gold = tmp_path / "links.pharaoh"
    gold.write_text("0-0 1-1\n" * len(PAIRS))
    found = align(model, PAIRS, gold=gold)
    (note,) = (one for one in found.notes if isinstance(one, TranslationsNotAligned))
    reported = set(range(1, len(PAIRS), 2))
    assert (note.count, note.total, note.first) == (len(bad), len(reported), min(bad) + 1)
    rest = reported - bad
    if not rest:
        assert "generation" not in found.tables
        return
    row = found.generation.iloc[0]
    assert row["pairs"] == len(rest)
    assert row["words"] == sum(len(PAIRS[number][1].split()) for number in rest)
    assert (row["word_share"], row["generated_change"]) == (1, 0)
    shown = [
        one for n, one in zip(sorted(reported), found.details["pairs"], strict=True) if n in rest
    ]
    assert row["aer"] == row["generated_aer"] == pytest.approx(aer_of(shown, "chosen"))
