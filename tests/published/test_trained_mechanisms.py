"""The study of models trained with each mechanism: its arms, its contrasts, its result on tiny text."""

import sys
from pathlib import Path

import pandas as pd
import pytest
import torch
from small_run import SETTINGS, snapshot

from attnlab.attention.plan import plan_of
from attnlab.models.training_settings import settings_from
from experiments.shared.readme import read_facts, read_table
from experiments.shared.runs import kept_run
from experiments.trained_mechanisms import models
from experiments.trained_mechanisms import run as experiment


@pytest.mark.parametrize(("keys", "suffix"), [(5, ""), (9, ", 9 keys")])
def test_arms_of_a_budget_have_as_many_keys_as_the_band(keys: int, suffix: str) -> None:
    """But where columns lie in the window, which takes them from rows that are not counted twice."""
    tokens, every = 40, models.ENCODER.plans
    query, ids = torch.randn(1, 8, tokens, 4), torch.arange(tokens)[None]
    for arm in models.at_budget(keys):
        plan = plan_of(every[arm + suffix])
        mechanism = plan.mechanism("encoder", 0, 8, vocabulary=tokens).eval()
        for load in ("load_tables", "load_counts"):
            if hasattr(mechanism, load):
                table = torch.arange(tokens, 0, -1.0)
                getattr(mechanism, load)(table if load == "load_counts" else table.expand(8, -1))
        weights = mechanism.implied_matrix(query, query, token_ids=ids)
        counted = float((weights != 0).sum(-1).double().mean())
        assert keys - 1 < counted <= keys, arm


@pytest.mark.parametrize("keys", [2, 4, 6, 8])
def test_rows_of_a_decoder_band_have_so_many_keys_with_their_own(keys: int) -> None:
    plan = plan_of(models.DECODER.plans[f"decoder band of {keys} keys"])
    query = torch.randn(1, 8, 12, 4)
    weights = plan.mechanism("decoder", 0, 8).implied_matrix(query, query)
    for row in range(12):
        (counted,) = {tuple(each.nonzero().flatten().tolist()) for each in weights[0, :, row]}
        assert counted == tuple(range(max(0, row - keys + 1), row + 1))


def test_one_cross_head_is_learned_where_one_is() -> None:
    plans = models.DECODER.plans
    for arm, learned in ((models.CROSS, 0), (models.LEARNED, 1)):
        heads = [str(plan_of(plans[arm]).at("cross", 0, head)) for head in range(8)]
        assert heads.count("full") == learned
        assert len(set(heads) - {"full"}) == 3


def test_contrasts_of_the_decoder_are_those_that_were_fixed() -> None:
    assert [" against ".join(pair) for pair in models.DECODER.contrasts] == [
        "decoder band of 4 keys against full",
        "gaussian cross-attention against full",
        "gaussian cross-attention with one learned head against gaussian cross-attention",
    ]


def test_every_arm_of_the_encoder_leaves_the_decoder_as_it_is(shared_data: Path) -> None:
    for arm in models.ENCODER.plans:
        settings = models.settings_of(models.ENCODER, "en-de", arm, 2, shared_data)
        heads = [plan_of(settings.model.attention).at("encoder", 0, head) for head in range(8)]
        assert (str(heads[0]) == "full") == (arm == models.FULL)
        assert plan_of(settings.model.attention).at("decoder", 0, 0).name == "full"
        assert settings.optimizer.seed == 2


def test_contrasts_are_of_the_same_pair_and_seed() -> None:
    rows = [
        ("en-fr", "band", 0, 2.0), ("en-fr", "band", 1, 2.5), ("en-de", "band", 0, 3.0),
        ("en-fr", "full", 1, 2.25), ("en-de", "full", 0, 3.5), ("en-de", "full", 1, 9.0),
    ]  # fmt: skip
    table = pd.DataFrame(rows, columns=["pair", "arm", "seed", "loss"])
    assert experiment.differences(table, "band", "full") == [-0.5, 0.25]
    assert experiment.differences(table, "gaussian", "full") == []
    assert list(experiment.tested(table, models.ENCODER)["contrast"]) == ["band against full"]


def of_tiny_text(monkeypatch: pytest.MonkeyPatch, results: Path) -> None:
    """The command trains tiny models in place of those of captions, and publishes here."""

    def model_of(
        study: models.Study, pair: str, arm: str, seed: int, *, data: Path, runs: Path
    ) -> object:
        assert study.training == models.SHORT
        plan = dict(study.plans[arm])
        sections = {
            "model": SETTINGS["model"] | {"attention": plan},
            "optimizer": SETTINGS["optimizer"] | {"epochs": 1, "seed": seed},
        }
        return kept_run(f"{arm}-{seed}", settings_from(SETTINGS | sections), runs)

    monkeypatch.setattr(experiment, "model_of", model_of)
    monkeypatch.setattr(experiment, "RESULTS", results)


@pytest.mark.slow
def test_the_command_runs_from_text_to_readme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_tiny_text(monkeypatch, tmp_path)
    out, arms = tmp_path / models.ENCODER.folder, ["full", "band", "sigma, E trained"]
    command = ["run.py", ".", "--runs", str(tmp_path), "--arms", *arms, "--seeds"]
    monkeypatch.setattr(sys, "argv", [*command, "0"])
    experiment.main()
    first = read_table(out, "table")
    before = {name: own for name, own in snapshot(tmp_path).items() if "safetensors" in name}
    monkeypatch.setattr(sys, "argv", [*command, "0", "1"])
    experiment.main()
    table = read_table(out, "table")
    assert table.groupby("arm")["seed"].agg(list).to_dict() == {arm: [0, 1] for arm in arms}
    pd.testing.assert_frame_equal(table[table["seed"] == 0].reset_index(drop=True), first)
    assert before.items() <= snapshot(tmp_path).items()
    keys = table.groupby("arm")["keys_per_row"].max()
    assert max(keys["band"], keys["sigma, E trained"]) <= 5 < keys["full"]
    text = (out / "README.md").read_text("utf-8")
    assert "* Band against full: loss" in text
    assert "Number of models: 6 of 3 mechanisms" in text
    assert "Not trained yet: none; gaussian;" in text
    assert len(read_facts(out)["commands"]) == 2
    assert (out / "arms.svg").exists()


@pytest.mark.slow
def test_the_decoder_has_a_result_of_its_own_that_counts_its_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_tiny_text(monkeypatch, tmp_path)
    arms = [models.FULL, models.LAST_FOUR, "decoder band of 2 keys"]
    command = ["run.py", ".", "--decoder", "--runs", str(tmp_path), "--arms", *arms, "--seeds", "0"]
    monkeypatch.setattr(sys, "argv", command)
    experiment.main()
    out = tmp_path / models.DECODER.folder
    table = read_table(out, "table").set_index("arm")
    keys = table["decoder_keys_per_row"]
    assert 1 < keys["decoder band of 2 keys"] <= 2 < keys[models.LAST_FOUR] <= 4 < keys["full"]
    assert table["cross_keys_per_row"].nunique() == 1
    text = (out / "README.md").read_text("utf-8")
    assert "* Decoder band of 4 keys against full: loss" in text
    assert "Not trained yet: gaussian cross-attention;" in text


def test_an_arm_of_another_study_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["run.py", str(tmp_path), "--decoder", "--arms", "band"])
    with pytest.raises(SystemExit):
        experiment.main()
    assert (
        "no arm 'band' here; choose from: full, decoder band of 4 keys" in capsys.readouterr().err
    )
