"""The study of queries and keys: its arms, its contrast, what it keeps of a model."""

import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from sacrebleu.metrics import BLEU
from small_run import SETTINGS

from attnlab.attention.plan import plan_of
from attnlab.models import load, score_run, short_pairs
from attnlab.models.training_settings import settings_from
from experiments.queries_and_keys import models
from experiments.queries_and_keys import run as experiment
from experiments.shared.readme import read_table
from experiments.shared.runs import kept_run
from experiments.trained_mechanisms import models as long_study


@pytest.mark.parametrize("arm", [models.FULL, models.GAUSSIAN, models.NONE, models.FROZEN])
def test_models_of_one_layer_are_those_of_the_long_study_in_bfloat16(
    arm: str, shared_data: Path
) -> None:
    own = models.settings_of(models.Trained("en-de", 1, arm, 2), shared_data)
    of_study = long_study.settings_of(long_study.LARGER, "en-de", arm, 2, shared_data)
    assert own == replace(of_study, optimizer=replace(of_study.optimizer, precision="bf16"))


def test_the_bias_is_the_only_difference_of_its_arm(shared_data: Path) -> None:
    bias, full = (
        models.settings_of(models.Trained("en-fr", 3, arm, 0), shared_data)
        for arm in (models.BIAS, models.FULL)
    )
    assert (bias.model.positions, full.model.positions) == ("relative", "sinusoidal")
    assert bias.model.keywords() | {"positions": "sinusoidal"} == full.model.keywords()
    assert bias.model.encoder_layers == bias.model.decoder_layers == 3
    assert models.CONTRAST == ("gaussian", "full with relative bias")


@pytest.mark.parametrize("layers", [1, 3])
def test_gaussian_heads_stand_in_every_layer(layers: int) -> None:
    plan = plan_of(models.attention(models.GAUSSIAN, layers))
    for layer in range(layers):
        heads = [str(plan.at("encoder", layer, head)) for head in range(8)]
        assert sorted(heads) == sorted(["gaussian(offset=-1)"] * 4 + ["gaussian(offset=1)"] * 4)


@pytest.mark.parametrize(
    ("links", "pairs", "crossed"),
    [
        ([], 0, 0),
        ([(0, 0), (1, 1)], 1, 0),
        ([(0, 2), (1, 1), (2, 0)], 3, 3),
        ([(0, 0), (0, 1)], 0, 0),
    ],
)
def test_links_that_cross(links: list[tuple[int, int]], pairs: int, crossed: int) -> None:
    assert experiment.crossing(links) == (pairs, crossed)


@pytest.mark.slow
def test_a_model_is_kept_as_rows_from_which_its_scores_follow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def model_of(model: models.Trained, *, data: Path, runs: Path) -> object:
        sections = {"model": dict(SETTINGS["model"])}
        if model.arm == models.BIAS:
            sections["model"] |= {"positions": "relative"}
        sections["optimizer"] = SETTINGS["optimizer"] | {"epochs": 1, "seed": model.seed}
        return kept_run(f"{model.arm}-{model.seed}", settings_from(SETTINGS | sections), runs)

    monkeypatch.setattr(experiment, "model_of", model_of)
    monkeypatch.setattr(experiment, "OUT", tmp_path / "out")
    arms = ["--arms", models.GAUSSIAN, models.BIAS, "--seeds", "2", "--runs", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["run.py", ".", *arms])
    experiment.main()
    table = read_table(tmp_path / "out", "table")
    assert list(table["arm"]) == [models.BIAS] * 2 + [models.GAUSSIAN] * 2
    sentences = read_table(tmp_path / "out/sentences", "en-de-1-gaussian-0")
    row = table[(table["arm"] == "gaussian") & (table["seed"] == 0)].iloc[0]
    assert sentences["loss_nats"].sum() / sentences["tokens"].sum() == pytest.approx(
        row["loss"], abs=1e-4
    )
    run = load(next(path for path in tmp_path.glob("gaussian-0-*")))
    _, texts = score_run(run, split="test", beams=experiment.BEAMS)
    gold = short_pairs(run, run.corpus().test)["target"][:]
    whole = BLEU().corpus_score(texts, [gold])
    assert sentences[[f"matches_{n}" for n in range(1, 5)]].sum().tolist() == whole.counts
    assert sentences["words"].sum() == whole.sys_len
    assert sentences["reference_words"].sum() == whole.ref_len
    assert len(read_table(tmp_path / "out/sentences", "en-de")) == len(sentences)
    contrast = read_table(tmp_path / "out", "contrasts").set_index("contrast")
    losses = table.pivot(index="seed", columns="arm", values="loss")
    expected = (losses[models.GAUSSIAN] - losses[models.BIAS]).mean()
    assert contrast.loc["loss", "difference"] == pytest.approx(expected, abs=2e-4)
    assert isinstance(read_table(tmp_path / "out", "thirds"), pd.DataFrame)
    assert "Gaussian against full with relative bias" in (tmp_path / "out/README.md").read_text()
