"""Every analysis of cross heads takes a recurrent model: one head, by additive or dot-product scores."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from answered import Answered
from typer.testing import CliRunner

import attnlab
from attnlab.ablation.ablation import ablated
from attnlab.attention.bridge.installing import use
from attnlab.attention.specification import sides
from attnlab.cli.app import app
from attnlab.core.addresses import Head
from attnlab.core.errors import InputError
from attnlab.evaluation.evaluator import load_evaluator
from attnlab.models.configuration import RecurrentConfig
from attnlab.models.model import RecurrentModel
from attnlab.models.run import load
from attnlab.questions.compare.question import MechanismLeftOut
from attnlab.questions.plan.planning import plans_of
from attnlab.results.result import Result

HEAD = Head("cross", 0, 0)
OF_PRODUCTS = {"linear", "linformer (not trained)"}
NO_SCORES = "the scores here are not these alone"


def heads_of(table) -> set[tuple[str, int, int]]:
    return set(zip(table["site"], table["layer"], table["head"], strict=True))


@pytest.fixture
def analysis(answer: Callable[[str, str], Answered]) -> Result:
    return answer("analyze", "recurrent").result


def test_analysis_and_labels(analysis: Result) -> None:
    assert heads_of(analysis.heads) == {HEAD}
    assert len(analysis.fits)
    assert heads_of(analysis.labels) == {HEAD}


def test_fits_of_its_matrices(analysis: Result, tmp_path: Path) -> None:
    kept = {f"{n}.{site}.{layer}": x for (n, site, layer), x in analysis.matrices.matrices.items()}
    assert {name.split(".", 1)[1] for name in kept} == {"cross.0"}
    name = min(kept, key=lambda one: kept[one].numel())
    file = tmp_path / "matrices.safetensors"
    analysis.matrices.write(file)
    words = ["--array", name, "--families", "band,union", "--json", "--quiet"]
    done = CliRunner().invoke(app, ["approximate", str(file), *words])
    assert done.exit_code == 0, done.output
    found = pd.DataFrame(json.loads(done.stdout)["approximation"]).set_index("family")
    assert set(found["matrix"]) == {"H.0"}, "a single head"
    assert found.at["zero", "l1"] == pytest.approx(float(kept[name].sum()), rel=1e-5)
    assert found.at["union", "l1"] <= found.at["band", "l1"] + 1e-9
    assert found.at["band", "l1"] < found.at["zero", "l1"]


@pytest.mark.parametrize("score", ["additive", "dot"])
def test_comparison(recurrent_run: Path, score: str) -> None:
    run = load(recurrent_run)
    texts = list(
        zip(*(run.corpus().train[side][:12] for side in ("source", "target")), strict=True)
    )
    sizes = {"vocab_size": len(run.tokenizers.target), "dim": 8, "cell": "gru", "score": score}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = RecurrentModel(RecurrentConfig(**sizes)).eval()
    found = attnlab.compare(
        (model, run.tokenizers), [5], sentences=texts[:4], calibration=texts[4:], quick=True
    )
    assert heads_of(found.mechanisms_by_head) == {HEAD}
    tried = set(found.mechanisms_by_head["mechanism"])
    assert {"band", "sigma salience", "top-k", "fixed"} <= tried
    refused = {
        note.mechanism
        for note in found.notes
        if isinstance(note, MechanismLeftOut) and NO_SCORES in note.reason
    }
    assert refused == (OF_PRODUCTS if score == "additive" else set())
    assert tried.isdisjoint(refused)
    band = found.mechanisms_by_head[found.mechanisms_by_head["mechanism"] == "band"].iloc[0]
    left, right = sides("band", attnlab.attention.make(band["setting"], cross=True).spec.window)
    kept = []
    tokens = [
        [
            run.tokenizers.source(source)["input_ids"],
            run.tokenizers.target(target)["input_ids"][:-1],
        ]
        for source, target in texts[:4]
    ]
    for source, target in tokens:
        with torch.no_grad():
            out = model(
                torch.tensor([source]),
                decoder_input_ids=torch.tensor([target]),
                output_attentions=True,
            )
        weights = out.cross_attentions[0][0, 0]
        offset = torch.arange(len(source)) - torch.arange(len(target))[:, None]
        inside = (offset >= -left) & (offset <= right)
        kept.append(float((weights * inside).sum()))
    rows = sum(len(target) for _, target in tokens)
    assert band["mass_fraction"] == pytest.approx(sum(kept) / rows, abs=1e-6)


def test_importance(recurrent_run: Path, answer: Callable[[str, str], Answered]) -> None:
    found = answer("importance", "recurrent").result
    evaluator = load_evaluator(recurrent_run, sentences=6)
    before = evaluator.losses()
    for kind in ("zero", "uniform"):
        with ablated(evaluator.projections, [HEAD], kind):
            change = float((evaluator.losses() - before).sum() / evaluator.tokens.sum())
        assert change != 0
        row = found.replaced[found.replaced["way"] == kind].iloc[0]
        assert row["loss_change"] == pytest.approx(change, abs=1e-6)
    assert set(found.replaced["way"]) == {"zero", "mean", "uniform"}
    assert np.isfinite(found.replaced["loss_change"]).all()


def test_replaced_heads_and_a_written_plan(
    recurrent_run: Path, tmp_path: Path, answer: Callable[[str, str], Answered]
) -> None:
    options = {"sentences": 4, "validation": 4, "calibration": 8}
    searched = answer("plan", "recurrent").result
    assert heads_of(searched.mechanisms) == {HEAD}
    assert set(searched.summary["mechanism"]) >= {"full", "searched", "band"}
    attnlab.attention.write_plan(tmp_path / "mine.json", plans_of(searched)[5])
    found = attnlab.compare(
        recurrent_run, [5], mechanisms=["band", "top-k"], per_head=True, fine_tune=1,
        plans=[tmp_path / "mine.json"], **options,
    )  # fmt: skip
    rows = found.summary
    assert np.isfinite(rows[["loss", "bleu"]]).all(axis=None)
    assert {"full", "band", "top-k", "mine.json"} == set(rows["mechanism"])
    heads = found.mechanisms_by_head
    band = heads[heads["mechanism"] == "band"].iloc[0]
    evaluator = load_evaluator(recurrent_run, sentences=4)
    with use(evaluator.model, {"cross": band["setting"]}):
        loss = float(evaluator.losses().sum() / evaluator.tokens.sum())
    assert band["loss"] == pytest.approx(loss, rel=1e-6)
    refused = r"The mechanism 'linear' cannot be in cross: .* the scores here are not these alone"
    with pytest.raises(InputError, match=refused):
        attnlab.compare(recurrent_run, [5], mechanisms=["band", "linear"], **options)


def test_pruning_the_only_head_leaves_no_context(recurrent_run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "pruning"
    done = CliRunner().invoke(
        app,
        ["prune", str(recurrent_run), "--sentences", "4", "--penalty", "50", "--steps", "20", "--out",
         str(folder), "--save"],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    run = load(next((folder / "models").iterdir()))
    assert not run.model.decoder.cross.output.weight.any()
