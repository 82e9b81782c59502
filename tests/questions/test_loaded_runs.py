"""Every question that takes the folder of a run takes the run that `load` returns."""

from collections.abc import Callable
from pathlib import Path

from answered import Answered

import attnlab
from attnlab.attention.bridge.installing import use
from attnlab.results import own_questions


def test_every_question_is_a_verb() -> None:
    others = {
        "assert_attends",
        "capture",
        "embed",
        "export",
        "load",
        "resume",
        "run_study",
        "score",
    }
    others |= {"attention", "matrices", "plot", "show", "train", "translate"}
    others |= {"__version__", "Result"}
    assert set(own_questions()) == set(attnlab.__all__) - others


def test_the_model_of_a_loaded_run_is_the_one_that_is_read(small_run: Path) -> None:
    run = attnlab.load(small_run)
    few = dict.fromkeys(("structure_sentences", "fit_sentences", "keep_matrices"), 0)
    with use(run.model, {"encoder": "band(window=0)"}):
        heads = attnlab.analyze(run, sentences=8, labels=False, **few).heads
    assert (heads.loc[heads["site"] == "encoder", "mass_at_offset_0"] == 1).all()


def test_the_page_names_the_folder_of_a_loaded_run(answer: Callable[[str, str], Answered]) -> None:
    found = answer("analyze", "run")
    assert str(found.result.about["Source"]).endswith(found.source.name)
