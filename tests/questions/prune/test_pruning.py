"""The pruning curve of a run: what is closed first, extremes, baselines, and what stays untouched."""

import dataclasses
import json
import math
import shutil
from pathlib import Path

import pandas as pd
import pytest
import torch

from attnlab.ablation.ablation import ablated, close_heads
from attnlab.ablation.fine_tuning import (
    fine_tune,
    in_training,
    training_loss,
    training_pairs,
)
from attnlab.ablation.projections import Projections, all_heads
from attnlab.core.addresses import Head
from attnlab.core.errors import AttnlabError, InputError
from attnlab.core.folders import UNFINISHED
from attnlab.evaluation.evaluator import load_evaluator
from attnlab.evaluation.shared_settings import FewForIntervals
from attnlab.models.checkpoints import save_model
from attnlab.models.run import load
from attnlab.models.tokenizer import token_ids
from attnlab.models.training import resume
from attnlab.questions.prune import pruner as pruner_module
from attnlab.questions.prune.pruner import load_pruner
from attnlab.questions.prune.pruning import draw_heads, prune
from attnlab.questions.prune.question import AllHeadsClosed, NoRandomHeads, PruningSettings
from attnlab.questions.prune.view import fewest_heads
from attnlab.reading.reading_notes import SentencesDropped
from attnlab.results.result import Result

USELESS = [Head("encoder", 0, 1), Head("cross", 0, 0)]
HUGE = 50.0


def bytes_of(folder: Path) -> dict[str, bytes]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def output_columns(projections: Projections) -> dict[Head, torch.Tensor]:
    """What reads each head: its columns of the output projection's weight."""
    return {
        head: projections[head[:2]]
        .module.weight.detach()
        .unflatten(1, (2, -1))[:, head.head]
        .clone()
        for head in all_heads(projections)
    }


def mark_pruned(folder: Path) -> Path:
    record = json.loads((folder / "settings.json").read_text())
    record["pruned"] = {"run": "runs/whole", "penalty": 0.1, "closed_heads": []}
    (folder / "settings.json").write_text(json.dumps(record))
    return folder


@pytest.fixture(scope="module")
def planted(small_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small run with two heads that nothing reads."""
    folder = tmp_path_factory.mktemp("planted") / "run"
    shutil.copytree(small_run, folder)
    evaluator = load_evaluator(folder, sentences=1)
    close_heads(evaluator.projections, USELESS)
    save_model(evaluator.model, folder)
    return folder


@pytest.fixture(scope="module")
def found(small_run: Path) -> Result:
    return prune(small_run, [HUGE, 0.0], steps=29, sentences=5, keep_models=True)


@pytest.fixture(scope="module")
def frozen(planted: Path) -> Result:
    return prune(planted, [0.001], steps=59, sentences=3, train_model=False, seed=1)


def test_heads_that_nothing_reads_are_closed_first(frozen: Result) -> None:
    closed = frozen.gates[~frozen.gates["open"]][["site", "layer", "head"]]
    assert [Head(*keys) for keys in closed.itertuples(index=False)] == USELESS
    useless, others = (frozen.gates[frozen.gates["open"] == kept] for kept in (False, True))
    assert useless["p_zero"].min() > 0.9
    assert others["p_zero"].max() < 0.2
    pruned = frozen.curve[frozen.curve["kind"] == "pruned"]
    assert pruned["loss_change"].abs().max() < 1e-6, "nothing read them, so nothing changes"
    assert set(frozen.curve["kind"]) == {"unpruned", "pruned", "random"}


def test_random_heads_are_as_many_of_each_site(frozen: Result) -> None:
    left = ["heads_left", "encoder_left", "decoder_left", "cross_left"]
    pruned, random = (frozen.curve[frozen.curve["kind"] == kind] for kind in ("pruned", "random"))
    assert random[left].to_numpy().tolist() == pruned[left].to_numpy().tolist()
    assert pruned[left].iloc[0].tolist() == [4, 1, 2, 1]
    assert (random["loss_change"] != 0).all()
    assert NoRandomHeads(0.001) not in frozen.notes


def test_penalty_zero_closes_none_and_a_huge_one_all(found: Result) -> None:
    left = found.curve.groupby(["kind", "penalty"], dropna=False)["heads_left"].unique()
    assert left["pruned", 0.0].tolist() == [6]
    assert left["pruned", HUGE].tolist() == [0]
    few = FewForIntervals(3, "test")
    assert {AllHeadsClosed(HUGE, 6), few, NoRandomHeads(HUGE)} <= set(found.notes)
    assert NoRandomHeads(0.0) not in found.notes, "nothing was closed"
    every = found.curve[found.curve["heads_left"] == 0]
    assert every["bleu"].between(0, 5).all()
    assert every["loss"].map(math.isfinite).all()


def test_the_curve_has_its_baselines_on_both_splits(found: Result) -> None:
    rows = [(row.kind, row.split) for row in found.curve.itertuples()]
    kinds = ["unpruned", "fine-tuned", "pruned", "pruned"]
    assert rows == [(kind, split) for kind in kinds for split in ("validation", "test")]
    unpruned = found.curve[found.curve["kind"] == "unpruned"]
    assert (unpruned[["loss_change", "bleu_change"]] == 0).all(axis=None)
    assert unpruned["steps"].tolist() == [0, 0]
    tuned = found.curve[found.curve["kind"] == "fine-tuned"]
    assert (tuned["loss_change"] < 0).all(), "the small run is far from trained"
    assert len(found.training) == 2 * 29
    opening = found.training[found.training["step"] == 1]["expected_open"]
    assert opening.tolist() == pytest.approx([5.7] * 2, abs=0.2)


def test_what_is_kept_is_what_was_measured(found: Result, small_run: Path, tmp_path: Path) -> None:
    evaluator = load_evaluator(small_run, sentences=5)
    closed = [Head(row.site, row.layer, row.head) for row in found.gates.itertuples()
              if row.penalty == HUGE]  # fmt: skip
    found.extra["models/penalty_50"](tmp_path)
    evaluator.model.load_state_dict(load(tmp_path).model.state_dict())
    losses = evaluator.losses()
    row = found.curve[(found.curve["penalty"] == HUGE) & (found.curve["split"] == "test")].iloc[0]
    assert row["loss"] == pytest.approx(float(losses.sum() / evaluator.tokens.sum()), abs=1e-9)
    with ablated(evaluator.projections, closed, "zero"):
        torch.testing.assert_close(evaluator.losses(), losses, rtol=0, atol=1e-6)


def test_closed_heads_stay_closed_while_the_rest_is_tuned(small_run: Path) -> None:
    evaluator = load_evaluator(small_run, sentences=5)
    run, before = evaluator.loaded, evaluator.losses()
    weights = output_columns(evaluator.projections)
    pairs = training_pairs(run, run.corpus(), batch_tokens=None, seed=0)
    with in_training(run.model, 0):
        fine_tune(
            run.model, pairs.batches(7), training_loss(run),
            projections=evaluator.projections, closed=USELESS, schedule=lambda _: 20.0,
        )  # fmt: skip
    with ablated(evaluator.projections, USELESS, "zero"):
        assert evaluator.losses().sum() < before.sum()
    after = output_columns(evaluator.projections)
    unmoved = [head for head in weights if torch.equal(after[head], weights[head])]
    assert unmoved == USELESS, "nothing flows back to closed heads, and to all others something"


def test_batches_hold_every_pair_once_an_epoch(small_run: Path) -> None:
    run = load(small_run)
    pairs = training_pairs(run, run.corpus(), batch_tokens=300, seed=3)
    once = list(pairs.batches(pairs.steps_in_epoch))
    assert sum(len(batch["labels"]) for batch in once) == len(pairs.pairs)
    more = list(pairs.batches(pairs.steps_in_epoch + 2))
    assert len(more) == len(once) + 2
    for batch, same in zip(once, more, strict=False):
        assert torch.equal(batch["labels"], same["labels"])
    assert (
        pairs.steps_in_epoch
        > training_pairs(run, run.corpus(), batch_tokens=900, seed=3).steps_in_epoch
    )


def test_epochs_are_counted_in_batches(planted: Path) -> None:
    options = {"sentences": 2, "random": False, "train_model": False, "sites": ["cross"]}
    short = prune(planted, [0.0], epochs=0.5, **options)
    run = load(planted)
    pairs = training_pairs(run, run.corpus(), batch_tokens=None, seed=0)
    assert short.about["steps"] == round(pairs.steps_in_epoch / 2)
    assert set(short.gates["site"]) == {"cross"}
    assert short.curve["encoder_left"].unique().tolist() == [2]


def test_pairs_of_a_run_that_are_too_long_are_told_of_each_part(
    planted: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(planted, tmp_path / "run")
    record = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    record["settings"]["corpus"]["max_tokens"] = most = 30
    (folder / "settings.json").write_text(json.dumps(record), encoding="utf-8")
    told = prune(folder, [0.0], steps=1, random=False, train_model=False, quick=True)
    left_out = {one.part: one for one in told.notes if isinstance(one, SentencesDropped)}
    run = load(folder)
    for part, split in (("test", "test"), ("validation", "validation"), ("training", "train")):
        rows = run.corpus().part(split)
        note = left_out[part]
        assert (note.total, note.most_tokens) == (len(rows), most)
        assert 0 < told.about[f"{part}_sentences"] == len(rows) - note.count
    source = token_ids(run.tokenizers.source, rows["source"])
    target = token_ids(run.tokenizers.target, rows["target"])
    long = [max(map(len, pair)) > most for pair in zip(source, target, strict=True)]
    assert note.count == sum(long)


def test_more_random_heads_hold_fewer() -> None:
    heads = [
        Head(site, layer, n) for site in ("encoder", "cross") for layer in (0, 1) for n in range(5)
    ]
    few, many = heads[:3] + heads[10:11], heads[:7] + heads[10:13]
    drawn = draw_heads(heads, few, seed=5)
    assert [sum(h.site == site for h in drawn) for site in ("encoder", "cross")] == [3, 1]
    assert set(drawn) < set(draw_heads(heads, many, seed=5))
    assert {tuple(sorted(draw_heads(heads, few, seed=s))) for s in range(9)} != {
        tuple(sorted(drawn))
    }


def test_the_smallest_good_model_is_chosen_on_validation() -> None:
    columns = ["kind", "penalty", "split", "heads_left", "bleu", "bleu_change"]
    rows = [
        ("fine-tuned", None, "validation", 24, 31.0, 0.3),
        ("pruned", 0.01, "validation", 20, 30.9, 0.2),
        ("pruned", 0.1, "validation", 9, 30.3, -0.4),
        ("pruned", 0.3, "validation", 3, 30.1, -0.6),
        ("random", 0.1, "validation", 2, 30.6, -0.1),
        ("pruned", 0.01, "test", 20, 20.0, -9.0),
        ("pruned", 0.1, "test", 9, 20.0, -9.0),
        ("pruned", 0.3, "test", 3, 31.0, 0.4),
    ]
    rows.append(("pruned", 0.003, "validation", 24, 33.0, 2.3))
    curve = pd.DataFrame(rows, columns=columns).assign(head_count=24)
    assert fewest_heads(curve) == 0.1
    assert fewest_heads(curve[curve["heads_left"] == 24]) is None, "nothing was closed"
    assert fewest_heads(curve, tolerance=0.7) == 0.3
    assert fewest_heads(curve, tolerance=-0.5) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"penalties": []}, "There is no penalty; give at least one"),
        ({"penalties": [0.1, 0.10000001]}, "two are the same in six digits"),
        ({"steps": 3, "epochs": 1.0}, "Give either steps or epochs, not both"),
        ({"calibration_text": __file__}, "on its own training pairs; leave calibration text out"),
        ({"device": "abacus"}, "Device 'abacus' cannot be used here"),
    ],
)
def test_what_cannot_be_used_is_refused(
    small_run: Path, options: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        prune(small_run, **options)


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is no run of attnlab and brings no sentences"):
        prune(tmp_path)


def test_a_pruned_run_is_not_pruned_again(small_run: Path, tmp_path: Path) -> None:
    pruned = mark_pruned(shutil.copytree(small_run, tmp_path / "run"))
    with pytest.raises(InputError, match="closed heads would open again; prune .*: runs/whole"):
        prune(pruned)


def test_a_pruned_run_is_not_trained_anew_by_resuming(small_run: Path, tmp_path: Path) -> None:
    pruned = mark_pruned(shutil.copytree(small_run, tmp_path / "run"))
    before = bytes_of(pruned)
    with pytest.raises(InputError, match="was pruned from runs/whole and has no checkpoint"):
        resume(pruned)
    assert bytes_of(pruned) == before


@pytest.mark.parametrize("penalties", [[0.1], []], ids=["gates", "tuning"])
def test_a_loss_that_is_no_number_ends_it(
    planted: Path, penalties: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        pruner_module,
        "training_loss",
        lambda run: lambda batch: training_loss(run)(batch) * math.nan,
    )
    pruner = load_pruner(planted, PruningSettings(sentences=2))
    with pytest.raises(AttnlabError, match="became no number while it was trained further"):
        pruner.learn(penalties[0], 1) if penalties else pruner.tune("it", 1)


def test_every_head_of_the_model_is_counted(found: Result, small_run: Path) -> None:
    evaluator = load_evaluator(small_run, sentences=1)
    assert found.curve["head_count"].unique().tolist() == [len(all_heads(evaluator.projections))]


def saved(found: Result, folder: Path, *, overwrite: bool = False) -> Result:
    """A pruning with the model of its largest penalty alone, quicker to write."""
    name = f"models/penalty_{HUGE:g}"
    found = dataclasses.replace(found, extra={name: found.extra[name]})
    found.save(folder, overwrite=overwrite)
    return found


def test_a_loaded_pruning_is_saved_with_its_models(found: Result, tmp_path: Path) -> None:
    saved(found, tmp_path / "one")
    before = bytes_of(tmp_path / "one")
    Result.load(tmp_path / "one").save(tmp_path / "two")
    assert set(bytes_of(tmp_path / "two")) == set(before)
    models = {name: content for name, content in before.items() if name.startswith("models/")}
    assert models
    assert bytes_of(tmp_path / "two") | models == bytes_of(tmp_path / "two")
    Result.load(tmp_path / "one").save(tmp_path / "one", overwrite=True)
    assert bytes_of(tmp_path / "one") | models == bytes_of(tmp_path / "one"), "over itself"
    again = Result.load(tmp_path / "one")
    shutil.rmtree(tmp_path / "one" / "models")
    with pytest.raises(InputError, match="penalty_50 is no longer the pruned run that it was"):
        again.save(tmp_path / "three")
    assert not (tmp_path / "three" / "result.json").exists()


def test_saving_leaves_pruned_runs_that_hold_results(found: Result, tmp_path: Path) -> None:
    found = saved(found, tmp_path)
    mine = tmp_path / "models" / "penalty_50" / "analysis" / "report.html"
    mine.parent.mkdir()
    mine.write_text("mine")
    before = bytes_of(tmp_path)
    for extra in (found.extra, {}):
        with pytest.raises(InputError, match=r"penalty_50 holds results of its model \(analysis\)"):
            dataclasses.replace(found, extra=extra).save(tmp_path, overwrite=True)
    assert bytes_of(tmp_path) == before


@pytest.mark.parametrize("cut_short", [True, False])
@pytest.mark.parametrize("more", [[], ["mine.txt"]], ids=["", "mine"])
def test_what_a_kill_left_of_a_pruned_run_is_replaced(
    found: Result, tmp_path: Path, cut_short: bool, more: list[str]
) -> None:
    run = tmp_path / "models" / "penalty_50"
    run.mkdir(parents=True)
    for name in ("model.safetensors", *more):
        (run / name).write_text("half")
    (tmp_path / UNFINISHED).mkdir()
    if cut_short:
        (tmp_path / UNFINISHED / "result.json").write_text('{"result": "pruning"}')
    if cut_short and not more:
        saved(found, tmp_path, overwrite=True)
        assert load(run).model is not None
        return
    with pytest.raises(InputError, match="penalty_50 is no pruned run of an older pruning; move"):
        found.save(tmp_path, overwrite=True)
    assert (run / "model.safetensors").read_text() == "half"
