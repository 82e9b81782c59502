"""Experiments that run a study of trained models: the folder of a result, and cells that stay valid."""

from pathlib import Path

import pandas as pd
import pytest

from attnlab.studies.running import collect, plan_study
from experiments.shared import model_study
from experiments.shared.model_study import MODEL, options_of_models, result_name, run_models
from experiments.shared.readme import RESULTS, read_facts


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("embedded", "plan_search_embedded"),
        ("../shared/data/tatoeba --layers 1 3 --seeds 3 --epochs 8", "plan_search_tatoeba"),
        ("data/multi30k --pair en-de", "plan_search_multi30k_en-de"),
        ("data/bible --limit 5000 --layers 3", "plan_search_bible_5000_pairs_3_layers"),
    ],
)
def test_results_that_differ_have_folders_of_their_own(words: str, name: str) -> None:
    chosen = options_of_models("", budgets=[5], sentences=300).parse_args(words.split())
    assert result_name("plan_search", vars(chosen)) == name


@pytest.mark.slow
def test_the_command_of_a_result_finds_its_cells_and_says_nothing_of_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = RESULTS / "plan_search_embedded"
    command = read_facts(folder)["command"]
    budgets = list(range(3, 14))

    def found(study: str, *, folder: Path, jobs: int | None, options: dict[str, object]) -> object:
        plan = plan_study(study, folder, options)
        assert len(collect(folder, plan).outcomes) == len(plan.cells) == 1
        assert jobs == 2
        cells = pd.DataFrame({"seconds": [120.0]})
        return type("Found", (), {"missing": 0, "table": pd.DataFrame(ROWS), "cells": cells})

    monkeypatch.setattr(model_study, "run_study", found)
    parser = options_of_models("", budgets=budgets, sentences=500)
    words = command.split()[2:]
    made = run_models("plan_search", parser, [*words, "--jobs", "2", "--runs", "runs/models"])
    assert made.folder == folder
    assert made.facts["command"] == command
    assert made.facts["seconds"] == 120
    assert list(made.published) == [*MODEL, "data_checksum", "budget"]


ROWS = [
    {"layers": 1, "seed": 0, "data_checksum": "0" * 64, "corpus": "x", "runs": "y", "budget": 3}
]
