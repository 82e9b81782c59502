"""What the README of a substitution study says of several models, of one, and after fine-tuning."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from experiments.shared.model_study import ModelStudy
from experiments.substitution.run import write

HEADS, BUDGET = 6, 5
COSTS = {"band": 0.9, "sigma salience": 0.4, "longformer": 0.1, "top-k": 0.01}
FACTS: dict[str, Any] = {
    "corpus": "tatoeba", "pair": "en-it", "pairs": 1000, "epochs": 2, "checksum": "0" * 12,
    "command": "python experiments/substitution/run.py tatoeba", "seconds": 600.0,
}  # fmt: skip


def rows_of(seed: int, steps: int, predicts: str) -> list[dict[str, Any]]:
    """A model: the loss of a head is a function of one predictor, the other is noise."""
    random = np.random.default_rng(seed)
    counts = {"sentences": 300, "validation_sentences": 200, "calibration_sentences": 500}
    shared = {
        "layers": 1, "seed": seed, "corpus": "x", "runs": "y", "budgets": "[5]",
        "data_checksum": "0" * 64, **counts,
    }  # fmt: skip

    def changes(loss: float, *, bleu: bool = True) -> dict[str, Any]:
        loss += random.normal(0, 0.002)
        found = {
            "loss_change": loss,
            "loss_change_low": loss - 0.01,
            "loss_change_high": loss + 0.01,
        }
        found["loss"] = 3 + loss
        if bleu:
            found |= {
                "bleu_change": -loss,
                "bleu_change_low": -loss - 1,
                "bleu_change_high": 1 - loss,
            }
            found |= {"bleu": 16 - loss, "time_ratio": 1.5}
        return found

    whole = {"scope": "model", "replaced": "", "mechanism": "full", "replaced_heads": 0}
    found = [shared | whole | {"steps": at, "loss": 3.0, "bleu": 16.0} for at in {0, steps}]
    for name, cost in COSTS.items():
        level = "oracle" if name == "top-k" else "calibrated"
        one = {"budget": BUDGET, "mechanism": name, "level": level, "settings_tried": 68}
        for head in range(HEADS):
            mass, error = random.random(), random.random()
            loss = error if predicts == "output_error" else 1 - mass
            own = {"mass_fraction": mass, "output_error": error, "steps": 0, "setting": "band"}
            own |= {"scope": "head", "replaced": f"encoder.0.{head}", "replaced_heads": 1}
            found.append(shared | one | own | changes(loss, bleu=False))
        for scope, target in (("site", "encoder"), ("model", "all")):
            for at in {0, steps}:
                own = {"scope": scope, "replaced": target, "replaced_heads": HEADS, "steps": at}
                own |= {"visible_keys": 4.5, "setting": f"{name}(window=(4, 0))"}
                found.append(shared | one | own | changes(cost / (2 if at else 1)))
    return found


def written(folder: Path, seeds: int, *, steps: int = 0, predicts: str = "output_error") -> str:
    rows = [row for seed in range(seeds) for row in rows_of(seed, steps, predicts)]
    table = pd.DataFrame(rows).astype({"budget": "Int64"})
    write(ModelStudy(folder, table, FACTS))
    return " ".join((folder / "README.md").read_text(encoding="utf-8").split())


def test_three_models_answer_with_intervals_over_models(tmp_path: Path) -> None:
    text = written(tmp_path, 3, steps=200)
    assert "**1 layer(s), 3 model(s)**" in text
    assert "on average over models; the difference is +" in text
    assert "It costs loss in 3 of 3 models; 3 of the 3 mechanisms cost loss in every model." in text
    assert "not shown" not in text
    # Two contrasts of losses, and both predictors: nothing else is tested.
    tests = pd.read_csv(tmp_path / "contrasts.csv").set_index("contrast")
    assert len(tests) == 3
    full, band = (f"sigma salience less {one}, 5 keys per row: loss" for one in ("full", "band"))
    assert tests.loc[full, "difference"] == pytest.approx(0.4, abs=0.01)
    assert tests.loc[band, "difference"] == pytest.approx(-0.5, abs=0.01)
    assert (tests["p_value"] < 0.05).all()
    assert f"| {full} | +0.4" in text
    assert "**longformer** costs least on average, and in 3 of 3 models: +0.1" in text
    assert "After 200 batches of fine-tuning, 5 keys per row" in text
    assert "beside full attention fine-tuned as long, whose loss is 3.000" in text
    assert "95 % t intervals over models" in text
    assert "| longformer | encoder | longformer(window=(4, 0)) | 68 |" in text
    assert "once for each of 8 replaced sites and models" in text
    assert "A model took 10 minutes on average, its training and the fine-tuning" in text
    assert "nan" not in text
    models = pd.read_csv(tmp_path / "over_models.csv")
    assert set(models["models"]) == {3}
    assert not [name for name in models if name.endswith("_p_value")]
    own = models[(models["mechanism"] == "band") & (models["steps"] == 0)]
    assert own["loss_change"].to_numpy() == pytest.approx(0.9, abs=0.01)
    assert (own["loss_change_low"] < own["loss_change"]).all()


def test_the_difference_of_the_predictors_has_the_sign_of_the_better(tmp_path: Path) -> None:
    text = written(tmp_path, 3, predicts="missing_mass")
    assert "on average over models; the difference is -" in text
    assert "ine-tuning:" not in text


def test_one_model_says_nothing_about_others(tmp_path: Path) -> None:
    text = written(tmp_path, 1)
    assert "With one model nothing is said about which predicts better" in text
    assert "There is one model of a size: nothing is said about other models." in text
    assert "**longformer** costs least on these test sentences" in text
    assert "over the test sentences of one model" in text
    assert "Nothing: a contrast of mechanisms is about models, and there is one of a size." in text
    assert pd.read_csv(tmp_path / "contrasts.csv")["p_value"].isna().all()
