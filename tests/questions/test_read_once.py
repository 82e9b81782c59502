"""Every study draws the embedded grammar once, and tokenizes every sentence once."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedTokenizerBase

import attnlab
from attnlab.grammar import embedded as corpus

STUDIES: dict[str, Callable[[Path], Any]] = {
    "analyze": lambda run: attnlab.analyze(
        run, labels=True, sentences=9, fit_sentences=0, structure_sentences=0, keep_matrices=0
    ),
    "compare": lambda run: attnlab.compare(
        run, [5], sentences=5, calibration=7, validation=4, mechanisms=["band"]
    ),
    "importance": lambda run: attnlab.importance(
        run, replacements=["zero", "mean"], sentences=6, calibration=5, points=2, sites=["cross"]
    ),
    "prune": lambda run: attnlab.prune(run, [0.1], steps=1, sentences=3, random=False),
}


@pytest.mark.parametrize("study", STUDIES)
def test_sentences_are_drawn_and_tokenized_once(
    study: str, small_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenized: Counter[tuple[int, str]] = Counter()
    draws = []
    call, draw = PreTrainedTokenizerBase.__call__, corpus.draw_pairs

    def counting(self: Any, text: Any = None, *args: Any, **options: Any) -> Any:
        given = options.get("text_target") if text is None else text
        # One call may hold a translation twice.
        tokenized.update(
            {(id(self), one) for one in ([given] if isinstance(given, str) else given)}
        )
        return call(self, text, *args, **options)

    def drawing(*args: Any, **options: Any) -> Any:
        draws.append(args)
        return draw(*args, **options)

    monkeypatch.setattr(PreTrainedTokenizerBase, "__call__", counting)
    monkeypatch.setattr("attnlab.grammar.draw_pairs", drawing)
    STUDIES[study](small_run)
    assert len(draws) == 1
    assert tokenized, "the stub is not called"
    assert {one: count for one, count in tokenized.items() if count > 1} == {}
