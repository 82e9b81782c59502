"""The experiments on shared models, on tiny data: their tables and READMEs."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from attnlab.core import InputError, write_json
from attnlab.evaluation import model_and_texts, parts_of
from attnlab.models.run import load
from attnlab.questions.plan.planning import plan, plans_of
from experiments.models import catalogue
from experiments.models import run as models
from experiments.plan_ablation import run as ablation
from experiments.shared import translators
from experiments.shared.readme import ELSEWHERE, put_rows, read_facts, read_table
from experiments.shared.runs import kept_run

MODEL = {"corpus": "multi30k-en-de", "layers": 1, "seed": 0}


def test_rows_of_a_model_stand_in_place_of_those_that_it_had(tmp_path: Path) -> None:
    put_rows(tmp_path, "table", MODEL | {"seed": 1}, pd.DataFrame({"bleu": [3.0]}))
    put_rows(tmp_path, "table", MODEL, pd.DataFrame({"bleu": [1.0, 2.0]}))
    put_rows(tmp_path, "table", MODEL, pd.DataFrame({"bleu": [4.0]}))
    found = read_table(tmp_path, "table")
    assert list(found.columns) == ["corpus", "layers", "seed", "bleu"]
    assert found[["seed", "bleu"]].to_numpy().tolist() == [[0, 4.0], [1, 3.0]]


def test_every_model_of_the_catalogue_has_settings(shared_data: Path) -> None:
    for corpus in catalogue.CORPORA:
        for layers in catalogue.LAYERS:
            settings = catalogue.settings_of(corpus, layers, 2, shared_data)
            assert settings.model.encoder_layers == settings.model.decoder_layers == layers
            assert Path(settings.corpus.name).is_dir()
            assert settings.optimizer.seed == 2


def test_a_kept_run_is_found_by_its_settings(small_run: Path, tmp_path: Path) -> None:
    settings = load(small_run).settings
    first = kept_run("own", settings, tmp_path)
    (folder,) = tmp_path.iterdir()
    assert folder == first.folder
    written = (folder / "model.safetensors").stat().st_mtime_ns
    assert kept_run("own", settings, tmp_path).folder == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == written


def test_models_are_described_and_those_that_lack_are_named(
    small_run: Path, tmp_path: Path
) -> None:
    row = models.described(load(small_run))
    put_rows(tmp_path, "table", MODEL, pd.DataFrame([row | {"bleu": 36.0}]))
    put_rows(tmp_path, "table", MODEL | {"seed": 1}, pd.DataFrame([row | {"bleu": 12.0}]))
    models.write_result(tmp_path, "python one.py")
    models.write_result(tmp_path, "python two.py")
    assert read_facts(tmp_path)["commands"] == ["python one.py", "python two.py"]
    elsewhere = {"rows": "seed 1", "device": "NVIDIA H200", "versions": {"torch": "2.11.0"}}
    write_json(tmp_path / "facts.json", read_facts(tmp_path) | {ELSEWHERE: [elsewhere]})
    models.write_result(tmp_path, "python two.py")
    assert read_facts(tmp_path)[ELSEWHERE] == [elsewhere]
    text = (tmp_path / "README.md").read_text("utf-8")
    assert text.endswith(" Rows of seed 1 come from one NVIDIA H200, with torch 2.11.0.\n")
    assert "**1 of 2 models reach BLEU 35**" in text
    assert "multi30k-en-de, 1 layers" not in text
    assert "multi30k-en-de, 3 layers" in text


def test_models_of_another_kind_than_the_result_are_refused(tmp_path: Path) -> None:
    parser = translators.parser_of_models("", sentences=3)
    captions = parser.parse_args([str(tmp_path), "--only", "multi30k-en-fr"])
    with pytest.raises(
        InputError, match="multi30k-en-fr is no model of this result; choose from: "
    ):
        next(translators.models_of(captions, tmp_path, translators.OTHER_TEXTS))
    speeches = parser.parse_args([str(tmp_path), "--only", "europarl-en-it"])
    with pytest.raises(InputError, match="europarl-en-it is no model of this result"):
        next(translators.models_of(speeches, tmp_path))


@pytest.mark.slow
def test_arms_are_compared_with_the_search_of_all_families(
    small_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bands: dict[str, Any] = {"families": ("band",)}
    ends: dict[str, Any] = {"families": ("band", "ends"), "criterion": "l1"}
    site: dict[str, Any] = {"families": ("band",), "granularity": "layer"}
    # The candidates of the bands are tried by the arm before them.
    arms = {ablation.SEARCHED: {}, "bands": bands, ablation.CONTRASTS[1]: ends, "site": site}
    monkeypatch.setattr(ablation, "ARMS", arms)
    run = load(small_run)
    model, texts = model_and_texts(run, sentences=8, scores=True)
    parts = parts_of(model, texts, calibration=500, validation=300, with_loss=True)
    found = {one.name: one.plan for one in ablation.found_plans(model, parts, (4,))}
    for arm, told in arms.items():
        asked: dict[str, Any] = {"families": ablation.DEFAULT_FAMILIES, "criterion": "loss"} | told
        verb = plan(run, (4,), quick=True, sentences=8, **asked)
        assert found[arm].entries == plans_of(verb)[4].entries
    rows = ablation.measured(run, sentences=8, budgets=(4,))
    assert set(arms) < set(rows["arm"])
    assert {"full", "longformer", ablation.SIGMA} < set(rows["arm"])
    assert rows["arm"].is_unique
    by_arm = rows.set_index("arm")
    gains = by_arm["loss_change"] - by_arm.loc[ablation.SEARCHED, "loss_change"]
    known = by_arm["loss_gain"].notna()
    assert set(by_arm.index[~known]) == {"full", ablation.SEARCHED}
    pd.testing.assert_series_equal(by_arm.loc[known, "loss_gain"], gains[known], check_names=False)
    for seed in range(2):
        put_rows(tmp_path, "table", {"corpus": "multi30k-en-de", "seed": seed}, rows)
    ablation.put_facts(tmp_path, ablation.__file__)
    ablation.write_result(tmp_path)
    contrasts = read_table(tmp_path, "contrasts").set_index("contrast")
    for arm in ablation.CONTRASTS:
        assert contrasts.loc[arm, "difference"] == pytest.approx(
            by_arm.loc[arm, "loss_gain"], abs=1e-5
        )
        assert contrasts.loc[arm, "models"] == 2
    text = (tmp_path / "README.md").read_text("utf-8")
    assert f"against {ablation.CONTRASTS[0]}**" in text
    assert "captions of about 13 words" in text
    others = tmp_path / "others"
    for corpus in ("europarl-en-it", "bible-en-it"):
        put_rows(others, "table", {"corpus": corpus, "seed": 0}, rows)
    ablation.put_facts(others, ablation.__file__)
    ablation.write_result(others)
    text = (others / "README.md").read_text("utf-8")
    assert "captions of about 13 words" not in text
    assert "bible-en-it, europarl-en-it" in text
