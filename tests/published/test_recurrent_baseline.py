"""The experiment of the recurrent baseline on tiny data: BLEU by length, trainings that go on, its README."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from attnlab.core.files import write_table
from attnlab.models.model import model_class
from attnlab.models.preparing import configuration
from attnlab.models.run import load
from experiments.recurrent_baseline import run as experiment
from experiments.shared import runs
from experiments.shared.readme import write_facts

FEWEST = 6


def test_the_models_have_as_many_parameters() -> None:
    sizes = {}
    for name, model in experiment.MODELS.items():
        settings = experiment.settings_of(model, Path("corpus"))
        made = configuration(settings.model, vocabulary=experiment.VOCABULARY)
        weights = model_class(settings.model)(made).parameters()
        sizes[name] = sum(weight.numel() for weight in weights)
    assert max(sizes.values()) / min(sizes.values()) < 1.05


@pytest.mark.parametrize(
    ("begun", "epochs", "called"),
    [(False, 0, "train"), (True, 0, "resume"), (True, 3, "resume"), (True, 20, None)],
)
def test_a_training_begins_goes_on_or_is_read(
    begun: bool, epochs: int, called: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def calling(name: str, *, interrupted: bool) -> Any:
        def call(*_: Any, **__: Any) -> Any:
            calls.append(name)
            return type("Trained", (), {"interrupted": interrupted})

        return call

    lines = [{"epoch": float(epochs)}] if epochs else []
    monkeypatch.setattr(runs, "is_run", lambda _: begun)
    monkeypatch.setattr("attnlab.models.metrics.read_metrics", lambda _: lines)
    monkeypatch.setattr(runs, "load", lambda folder: folder)
    settings = experiment.settings_of(experiment.MODELS["dot"], Path("corpus"))
    for interrupted in (False, True):
        for name in ("train", "resume"):
            monkeypatch.setattr(runs, name, calling(name, interrupted=interrupted))
        if interrupted and called:
            with pytest.raises(SystemExit):
                runs.trained_run(Path("run"), settings)
        else:
            assert runs.trained_run(Path("run"), settings) == Path("run")
    assert calls == [called] * 2 if called else not calls


@pytest.fixture(scope="module")
def table(small_run: Path) -> pd.DataFrame:
    run = load(small_run)
    rows, limit = run.corpus().test, run.settings.corpus.max_tokens
    kept = [
        row["target"]
        for row in rows
        if max(len(run.tokenizers.source(row[side])["input_ids"]) for side in ("source", "target"))
        <= limit
    ]
    halves = [" ".join(text.split()[::2]) for text in kept]
    with pytest.MonkeyPatch.context() as patch:
        # The text of the run has fewer sentences than intervals are given of.
        patch.setattr("attnlab.ablation.significance.FEWEST_FOR_INTERVAL", FEWEST)
        return experiment.by_length(run, {"transformer": halves, "additive": kept, "dot": halves})


def test_bleu_by_length(table: pd.DataFrame) -> None:
    whole, binned = table[table["words"] == "all"], table[table["words"] != "all"]
    assert binned.groupby("model")["sentences"].sum().nunique() == 1
    assert int(binned[binned["model"] == "dot"]["sentences"].sum()) == int(
        whole["sentences"].iloc[0]
    )
    perfect, same = (table[table["model"] == name] for name in ("additive", "dot"))
    many = table["sentences"] >= FEWEST
    enough = table[many]
    assert 0 < len(enough) < len(table)
    for column in ("bleu", "bleu_low", "bleu_high"):
        known = (perfect if column == "bleu" else enough[enough["model"] == "additive"])[column]
        assert known.tolist() == pytest.approx([100.0] * len(known))
    assert (same["change_against_transformer"] == 0).all()
    assert table.loc[~many, ["bleu_low", "bleu_high", "change_low"]].isna().all(axis=None)
    assert (enough["bleu_low"] <= enough["bleu"] + 1e-9).all()
    assert (enough["bleu"] <= enough["bleu_high"] + 1e-9).all()
    assert (perfect["change_low"].dropna() > 0).all()
    lines = experiment.draw(table).axes[0].get_legend().get_texts()
    assert [line.get_text() for line in lines] == list(experiment.MODELS)[:3]


def test_words_follow_the_intervals() -> None:
    assert experiment.said(2.0, 0.5, 3.0) == "higher (+2.0 [+0.5, +3.0])"
    assert experiment.said(-2.0, -3.0, -0.5).startswith("lower")
    assert experiment.said(0.5, -0.5, 1.0).startswith("not told apart")


def test_the_readme_is_made_from_tables_and_facts(tmp_path: Path) -> None:
    names = [experiment.named(*limits) for limits in (experiment.EVERY, *experiment.BINS)]
    rows = [
        {"words": words, "model": model, "bleu": 30.0 - 5 * number, "bleu_low": 28.0 - 5 * number,
         "bleu_high": 32.0 - 5 * number, "change_against_transformer": -1.0, "change_low": -2.0,
         "change_high": -0.5, "sentences": 9}
        for number, words in enumerate(names)
        for model in experiment.MODELS
    ]  # fmt: skip
    write_table(tmp_path / "table.csv", pd.DataFrame(rows))
    write_facts(
        tmp_path, experiment.__file__, "torch", parameters={"dot": 5}, pairs={"train": 7},
        training_minutes={"dot": 1.5}, checksum="0" * 64, seed=0, test_sentences=9,
    )  # fmt: skip
    text = experiment.readme(tmp_path)
    assert "BLEU lower (-1.0 [-2.0, -0.5]) on all sentences" in text
    assert "from 25.0 to 10.0 for additive" in text
    assert "do not test it" in text
