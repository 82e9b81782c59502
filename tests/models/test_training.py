import json
import os
import shutil
import stat
from importlib.metadata import version
from inspect import unwrap
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from small_run import SETTINGS, bleu_of, small_settings, snapshot, write_pairs
from typer.testing import CliRunner

import attnlab
from attnlab.cli.app import app
from attnlab.core.errors import AttnlabError, InputError
from attnlab.core.files import write_text
from attnlab.core.installed import versions
from attnlab.core.library_state import seeded
from attnlab.models import trainer as trainer_module
from attnlab.models.checkpoints import save_model
from attnlab.models.metrics import is_trained
from attnlab.models.model import TranslationModel
from attnlab.models.run import load, score_run
from attnlab.models.run_folder import (
    last_complete_checkpoint,
    read_record,
)
from attnlab.models.run_replacement import recover
from attnlab.models.training import (
    kept_evaluation,
    resume,
    train,
)
from attnlab.models.translating import translate
from attnlab.results.records import ResultRecord, write_record


def test_a_run_holds_what_the_design_says(small_run: Path) -> None:
    names = {path.name for path in small_run.iterdir()}
    assert names >= {
        "config.json",
        "settings.json",
        "tokenizer.json",
        "token_counts.json",
        "model.safetensors",
        "metrics.jsonl",
        "checkpoints",
    }
    assert not [path for path in small_run.rglob("*") if path.name.endswith(("args.bin", ".pkl"))]


def test_metrics_have_a_line_an_epoch(small_run: Path) -> None:
    rows = load(small_run).metrics()
    assert [row["epoch"] for row in rows] == [1.0, 2.0]
    assert rows[1]["training_loss"] < rows[0]["training_loss"]
    assert all(row["validation_loss"] > 0 and row["target_tokens_per_second"] > 0 for row in rows)
    assert rows[0]["bleu_signature"].startswith("nrefs:1|")


def test_every_file_and_folder_has_the_permissions_of_any_new_one(small_run: Path) -> None:
    umask = os.umask(0)
    os.umask(umask)
    for path in small_run.rglob("*"):
        usual = (0o777 if path.is_dir() else 0o666) & ~umask
        assert stat.S_IMODE(path.stat().st_mode) == usual, path


def test_what_a_killed_training_left_is_deleted_by_the_next(copied_run: Path) -> None:
    before = snapshot(copied_run)
    (copied_run / ".model-abc").mkdir()
    for name in (
        ".model-abc/model.safetensors",
        ".metrics.jsonl.0123abcd",
        ".settings.json.ffffffff",
    ):
        (copied_run / name).touch()
    recover(copied_run)
    assert snapshot(copied_run) == before
    assert not (copied_run / ".model-abc").exists()


def test_the_record_tells_how_to_repeat_the_run(small_run: Path) -> None:
    record = read_record(small_run)
    assert record["settings"]["model"]["heads"] == SETTINGS["model"]["heads"]
    assert record["command"] == "attnlab train small"
    assert sum(record["corpus"]["pairs"].values()) == SETTINGS["corpus"]["size"]
    assert set(record["corpus"]["dropped_over_max_tokens"]) == {"train", "validation", "test"}
    assert record["versions"] == versions()
    assert record["versions"]["torch"] == version("torch")


def test_the_same_seed_gives_the_same_weights_and_leaves_the_random_state(
    small_run: Path, tmp_path: Path, untouched_randomness: None
) -> None:
    train(tmp_path / "again", small_settings())
    first, again = (load_file(run / "model.safetensors") for run in (small_run, tmp_path / "again"))
    for name, weight in first.items():
        assert torch.equal(weight, again[name]), name


def best_of(rows: list[dict[str, float]]) -> dict[str, float]:
    """The highest BLEU; of equal BLEU the lowest loss."""
    return max(rows, key=lambda row: (row["validation_bleu"], -row["validation_loss"]))


def test_the_best_checkpoint_becomes_the_model(small_run: Path) -> None:
    run = load(small_run)
    best = best_of(run.metrics())
    kept = run.folder / "checkpoints" / f"checkpoint-{best['step']}" / "model.safetensors"
    for name, weight in load_file(kept).items():
        assert torch.equal(weight, load_file(small_run / "model.safetensors")[name]), name


def test_public_load_gives_model_tokenizers_and_corpus(small_run: Path) -> None:
    run = attnlab.load(small_run)
    assert not run.model.training
    assert run.corpus().checksum == run.record["corpus"]["checksum"]
    written = translate(run.model, run.tokenizers, ["Maria sleeps.", "I see her."], beams=2)
    assert len(written) == 2


def test_translations_keep_the_order_of_sentences(small_run: Path) -> None:
    run = load(small_run)
    # An early model seldom ends a sentence: the limit decides, and must be each sentence's own.
    sentences = ["Maria sleeps in the old museum now.", "I see her.", "He does not sleep today."]
    together = translate(run.model, run.tokenizers, sentences, beams=1)
    alone = [translate(run.model, run.tokenizers, [text], beams=1)[0] for text in sentences]
    assert together == alone


@pytest.mark.parametrize(
    ("sentences", "options", "message"),
    [
        (["fine", "  "], {}, "Sentence 2 is empty"),
        (["word " * 60], {"max_tokens": 20}, "Sentence 1 has .* tokens, more than the limit of 20"),
        (["fine"], {"beams": 0}, "beams must be at least 1 and at most 1000, not 0"),
        (["fine"], {"beams": "5"}, "beams must be a whole number, not '5'"),
        (["fine"], {"max_tokens": None}, "max tokens must be a whole number, not None"),
        ("fine", {}, r"write sentences=\['fine'\]"),
        (None, {}, "must be a list of texts"),
        ([5], {}, "Sentence 1 is 5, and sentences are texts"),
        ([("fine", "bene")], {}, "Sentence 1 is the pair .*; hand in the sentence alone"),
    ],
)
def test_what_cannot_be_translated_is_refused(
    small_run: Path, sentences: Any, options: dict[str, Any], message: str
) -> None:
    run = load(small_run)
    # As a user calls it, whose arguments no test's checks of types see first.
    with pytest.raises(InputError, match=message):
        unwrap(translate)(run.model, run.tokenizers, sentences, **options)


def test_scores_name_their_part(small_run: Path) -> None:
    scores, texts = score_run(load(small_run), split="validation", beams=1)
    assert scores["split"] == "validation"
    assert scores["sentences"] == len(texts) > 0
    with pytest.raises(InputError, match="choose from: train, validation, test"):
        score_run(load(small_run), split="dev")


def test_an_existing_run_is_not_touched(small_run: Path) -> None:
    before = snapshot(small_run)
    with pytest.raises(
        InputError,
        match="go on with attnlab train .* --resume, or start anew with attnlab train .* --overwrite",
    ):
        train(small_run, small_settings())
    assert snapshot(small_run) == before


def test_a_folder_of_something_else_is_not_touched_even_with_overwrite(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="not a run directory"):
        train(tmp_path, small_settings(), overwrite=True)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_a_bad_setting_is_found_before_overwriting(copied_run: Path) -> None:
    before = snapshot(copied_run)
    with pytest.raises(InputError, match="3 heads do not divide"):
        train(copied_run, small_settings(model={"heads": 3}), overwrite=True)
    with pytest.raises(InputError, match="no corpus|There is no"):
        train(copied_run, small_settings(corpus={"name": "./absent", "size": None}), overwrite=True)
    assert snapshot(copied_run) == before


@pytest.mark.parametrize(
    "change",
    [
        {"tokenizer": {"kind": "char"}},
        {"tokenizer": {"vocabulary": 4}},
        {"optimizer": {"epochs": 0}},
        {"model": {"heads": 3}},
    ],
)
def test_impossible_settings_are_refused_before_the_corpus_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, dict[str, object]]
) -> None:
    monkeypatch.setattr("attnlab.models.training.corpus_of", lambda _: pytest.fail("read"))
    with pytest.raises(InputError):
        train(tmp_path / "run", small_settings(**change))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("site", "mechanism", "longest"),
    [
        ("encoder", "linformer(k=2, max_length={})", 8),
        ("encoder", "synthesizer(max_length={})", 8),
        ("encoder", "sigma_static(window=1, max_length={})", 8),
        ("cross", "linformer(k=2, max_length={})", 8),
        # Written before much is learned: half as many again as the longest target, and 5.
        ("cross", "synthesizer(max_length={})", 15),
        ("cross", "sigma_static(window=1, max_length={})", 15),
    ],
)
def test_a_mechanism_for_shorter_sentences_is_refused_before_anything_is_written(
    tmp_path: Path, site: str, mechanism: str, longest: int
) -> None:
    # A source has two tokens besides its words, and batches are padded to multiples of 4.
    rows = [(f"a b c {word}", f"d e f g h {word}") for word in "klmnopqrstuvwxyz"]
    corpus = write_pairs(tmp_path / "pairs.tsv", rows)
    changes = {
        "corpus": {"name": str(corpus), "size": None},
        "tokenizer": {"kind": "word", "vocabulary": 40},
        "optimizer": {"epochs": 1},
    }
    short, enough = (mechanism.format(length) for length in (longest - 1, longest))
    # One head of the layer, so that it is found within a layer of several mechanisms too.
    head = f"{site}.0.1"
    with pytest.raises(
        AttnlabError, match=f"at most {longest - 1} tokens and met one of {longest}"
    ):
        train(tmp_path / "run", small_settings(**changes, model={"attention": {head: short}}))
    assert not (tmp_path / "run").exists()
    train(tmp_path / "run", small_settings(**changes, model={"attention": {head: enough}}))


def test_overwrite_starts_anew(copied_run: Path) -> None:
    trained = train(copied_run, small_settings(optimizer={"epochs": 1}), overwrite=True)
    assert [row["epoch"] for row in trained.metrics] == [1.0]


def test_resume_can_add_epochs(copied_run: Path) -> None:
    went_on = resume(copied_run, epochs=3)
    assert [row["epoch"] for row in went_on.metrics] == [1.0, 2.0, 3.0]
    assert read_record(copied_run)["settings"]["optimizer"]["epochs"] == 3


def test_a_resumed_training_names_the_results_of_the_model_before(copied_run: Path) -> None:
    for name, weights in (("analysis", "other"), ("importance", "other"), ("untold", None)):
        (copied_run / name).mkdir()
        write_record(copied_run / name, ResultRecord("analysis", "T", weights=weights), {})
    said = CliRunner().invoke(app, ["train", str(copied_run), "--resume", "--epochs", "3"])
    assert said.exit_code == 0, said.output
    told = (
        f"of an older state of the model in {copied_run} are: analysis, importance; make them again"
    )
    assert told in said.stderr


def test_resume_refuses_fewer_epochs_than_were_trained(copied_run: Path) -> None:
    before = snapshot(copied_run)
    message = r"is trained for 2 epochs already; epochs must be 2 or more, not 1"
    with pytest.raises(InputError, match=message):
        resume(copied_run, epochs=1)
    assert snapshot(copied_run) == before
    resume(copied_run, epochs=2)


def test_copies_of_checkpoints_are_left_alone(copied_run: Path) -> None:
    newest = last_complete_checkpoint(copied_run)
    copies = [newest.with_name(name) for name in (f"{newest.name}-backup", "checkpoint-best")]
    for copy in copies:
        shutil.copytree(newest, copy)
    went_on = resume(copied_run, epochs=5)
    assert [row["epoch"] for row in went_on.metrics][-1] == 5.0
    kept = {path.name for path in newest.parent.iterdir()}
    assert {copy.name for copy in copies} < kept
    assert len(kept) == 2 + len(copies)
    train(copied_run, small_settings(optimizer={"epochs": 1}), overwrite=True)


def test_a_disk_that_fills_up_damages_nothing(
    copied_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = (copied_run / "model.safetensors").read_bytes()
    before = last_complete_checkpoint(copied_run)

    def full(self: TranslationModel, folder: str, **_: object) -> None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / "model.safetensors").write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(TranslationModel, "save_pretrained", full)
    with pytest.raises(AttnlabError, match="No space left on device.*resume the training"):
        resume(copied_run, epochs=3)
    assert (copied_run / "model.safetensors").read_bytes() == model
    assert last_complete_checkpoint(copied_run) == before
    assert not [
        p for p in (copied_run / "checkpoints").iterdir() if p.name not in snapshot_names(before)
    ]


def snapshot_names(checkpoint: Path) -> set[str]:
    return {path.name for path in checkpoint.parent.iterdir() if (path / "optimizer.pt").exists()}


def test_a_half_written_checkpoint_is_passed_over(copied_run: Path) -> None:
    complete = last_complete_checkpoint(copied_run)
    half = complete.with_name("checkpoint-9999")
    half.mkdir()
    (half / "model.safetensors").write_bytes(b"half")
    assert last_complete_checkpoint(copied_run) == complete


def test_a_loss_that_is_no_number_ends_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> torch.Tensor:
        return torch.tensor(float("nan"), requires_grad=True)

    monkeypatch.setattr("attnlab.models.model.chunked_cross_entropy", broken)
    with pytest.raises(AttnlabError, match="loss became nan at step"):
        train(tmp_path / "nan", small_settings())


def test_a_newer_format_is_refused(copied_run: Path) -> None:
    record = json.loads((copied_run / "settings.json").read_text())
    (copied_run / "settings.json").write_text(json.dumps(record | {"format": 2}))
    for use in (load, resume):
        with pytest.raises(InputError, match=r"newer attnlab \(format 2.*update attnlab"):
            use(copied_run)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": "x"}'])
def test_damaged_settings_are_named(copied_run: Path, text: str) -> None:
    (copied_run / "settings.json").write_text(text)
    with pytest.raises(InputError, match="settings.json is damaged"):
        load(copied_run)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"settings": []}, r"settings must be a table, not \[\]"),
        ({"corpus": []}, r"corpus must be a table, not \[\]"),
        ({"corpus": {"name": "embedded"}}, r"corpus\.checksum is missing"),
        ({"settings": {"model": []}}, "section 'model' holds keys and values"),
        ({"settings": {"model": {"heads": "x"}}}, r"model\.heads must be a whole number"),
    ],
)
def test_a_field_of_the_settings_that_cannot_be_used_is_named(
    copied_run: Path, change: dict[str, object], message: str
) -> None:
    record = json.loads((copied_run / "settings.json").read_text())
    (copied_run / "settings.json").write_text(json.dumps(record | change))
    before = snapshot(copied_run)
    for use in (load, resume, read_record):
        with pytest.raises(InputError, match=rf"settings\.json is damaged \(.*{message}"):
            use(copied_run)
    assert snapshot(copied_run) == before


def test_what_is_no_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a run directory"):
        load(tmp_path)


def test_a_run_without_a_model_says_how_to_finish_it(copied_run: Path) -> None:
    (copied_run / "model.safetensors").unlink()
    with pytest.raises(AttnlabError, match="attnlab train .* --resume"):
        load(copied_run)


def test_a_changed_corpus_is_noticed(copied_run: Path) -> None:
    record = json.loads((copied_run / "settings.json").read_text())
    record["corpus"]["checksum"] = "0" * 64
    (copied_run / "settings.json").write_text(json.dumps(record))
    with pytest.raises(AttnlabError, match="checksum differs"):
        load(copied_run).corpus()
    with pytest.raises(AttnlabError, match="changed since"):
        resume(copied_run)


def test_separate_vocabularies_and_a_band_in_the_encoder(tmp_path: Path) -> None:
    settings = small_settings(
        tokenizer={"shared": False, "kind": "word"},
        model={"attention": {"encoder": "band(window=2)"}, "norm": "pre", "positions": "learned"},
        optimizer={"epochs": 1},
    )
    train(tmp_path / "run", settings)
    run = load(tmp_path / "run")
    assert run.tokenizers.source is not run.tokenizers.target
    out = run.model(
        torch.tensor([[2, 5, 6, 7, 8, 3]]), labels=torch.tensor([[5, 3]]), output_attentions=True
    )
    assert torch.equal(out.encoder_attentions[0].triu(3), torch.zeros(1, 2, 6, 6))


def test_bf16_is_refused_where_the_device_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainer_module, "bfloat16_is_native", lambda _: False)
    with pytest.raises(AttnlabError, match="has no bfloat16; use precision fp32"):
        train(tmp_path / "run", small_settings(optimizer={"precision": "bf16"}))


def test_seeded_puts_every_random_state_back() -> None:
    import random

    import numpy as np

    states = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    with seeded(5):
        first = (random.random(), np.random.rand(), float(torch.rand(())))
    with seeded(5):
        assert (random.random(), np.random.rand(), float(torch.rand(()))) == first
    after = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    assert after == states


def test_evaluations_per_epoch_counts_per_epoch(tmp_path: Path) -> None:
    trained = train(
        tmp_path / "run", small_settings(optimizer={"epochs": 2, "evaluations_per_epoch": 3})
    )
    assert 6 <= len(trained.metrics) <= 7
    assert trained.metrics[-1]["epoch"] == 2.0


def test_validation_loss_is_the_mean_over_tokens(tmp_path: Path) -> None:
    """Against the loss of each held-out sentence by itself, added up token by token."""
    words = [f"w{number}" for number in range(12)]
    pairs = [
        (" ".join(words[: 1 + n % 3]), " ".join(words[n % 12 : n % 12 + 1 + (7 * n) % 12]))
        for n in range(400)
    ]
    settings = small_settings(
        corpus={"name": str(write_pairs(tmp_path / "pairs.tsv", pairs)), "size": None},
        optimizer={"epochs": 1, "batch_tokens": 64, "validation_sentences": 20},
    )
    train(tmp_path / "run", settings)
    run = load(tmp_path / "run")
    held_out = run.corpus().validation.select(range(20))
    lengths = sorted(len(run.tokenizers.target(text)["input_ids"]) for text in held_out["target"])
    assert lengths[-1] > 3 * lengths[0], "several unequal batches"
    total = tokens = 0.0
    for row in held_out:
        source = torch.tensor([run.tokenizers.source(row["source"])["input_ids"]])
        labels = torch.tensor([run.tokenizers.target(row["target"])["input_ids"][1:]])
        with torch.no_grad():
            total += float(run.model(source, labels=labels).loss) * labels.shape[1]
        tokens += labels.shape[1]
    losses = [row["validation_loss"] for row in run.metrics()]
    assert any(loss == pytest.approx(total / tokens, rel=1e-4) for loss in losses)


def test_generalisation_gap_is_of_one_loss_on_both_parts(tmp_path: Path) -> None:
    """Training pairs spread over the corpus, as many as validation pairs, without dropout and smoothing."""
    settings = small_settings(
        corpus={"max_tokens": 200}, optimizer={"epochs": 1}, model={"label_smoothing": 0.3}
    )
    train(tmp_path / "run", settings)
    run = load(tmp_path / "run")
    pairs = run.corpus().train
    total = tokens = 0.0
    for number in range(4):
        row = pairs[number * len(pairs) // 4]
        source = torch.tensor([run.tokenizers.source(row["source"])["input_ids"]])
        labels = torch.tensor([run.tokenizers.target(row["target"])["input_ids"][1:]])
        with torch.no_grad():
            total += float(run.model(source, labels=labels).loss) * labels.shape[1]
        tokens += labels.shape[1]
    (evaluation,) = run.metrics()
    assert evaluation["training_sample_loss"] == pytest.approx(total / tokens, rel=1e-4)
    gap = evaluation["validation_loss"] - evaluation["training_sample_loss"]
    assert evaluation["generalisation_gap_on_validation"] == pytest.approx(gap)


@pytest.mark.slow
def test_runs_without_a_generalisation_gap_are_read_and_go_on(copied_run: Path) -> None:
    rows = load(copied_run).metrics()
    new = ("training_sample_loss", "generalisation_gap_on_validation")
    old = [{name: value for name, value in row.items() if name not in new} for row in rows]
    write_text(copied_run / "metrics.jsonl", "".join(json.dumps(row) + "\n" for row in old))
    assert load(copied_run).metrics() == old
    trained = resume(copied_run, epochs=3)
    assert [name in row for row in trained.metrics for name in new] == [False] * 4 + [True] * 2
    assert attnlab.plot.training(pd.DataFrame(trained.metrics)) is not None


@pytest.mark.parametrize(
    "change",
    [
        {"model": {"attention": {"decoder": "linformer(k=3)"}}},
        {"optimizer": {"learning_rate": float("nan")}},
    ],
)
def test_what_cannot_be_built_is_refused_before_overwriting(
    copied_run: Path, change: dict[str, dict[str, object]]
) -> None:
    before = snapshot(copied_run)
    with pytest.raises(AttnlabError):
        train(copied_run, small_settings(**change), overwrite=True)
    assert snapshot(copied_run) == before


def test_overwrite_keeps_what_no_run_wrote(copied_run: Path) -> None:
    (copied_run / "notes.txt").write_text("mine")
    train(copied_run, small_settings(optimizer={"epochs": 1}), overwrite=True)
    assert (copied_run / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("name", ["importance", "pruning"])
def test_overwrite_never_deletes_what_took_hours(copied_run: Path, name: str) -> None:
    (copied_run / name / "models").mkdir(parents=True)
    (copied_run / name / "notes.txt").write_text("mine")
    before = snapshot(copied_run)
    with pytest.raises(InputError, match=rf"holds results of its model \({name}\); move"):
        train(copied_run, small_settings(optimizer={"epochs": 1}), overwrite=True)
    assert snapshot(copied_run) == before


def test_settings_of_another_program_are_no_run(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text("{}")
    with pytest.raises(InputError, match="not a run directory"):
        train(tmp_path, small_settings(), overwrite=True)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("model.safetensors", b"half", "model in .* is damaged"),
        ("config.json", b"{", "model in .* is damaged"),
        ("settings.json", b'{"format": 1}', "settings.json is damaged"),
    ],
)
def test_damaged_runs_are_named(copied_run: Path, name: str, content: bytes, message: str) -> None:
    (copied_run / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        load(copied_run)


def test_damaged_metrics_are_named(copied_run: Path) -> None:
    (copied_run / "metrics.jsonl").write_text("{")
    with pytest.raises(InputError, match="metrics.jsonl is damaged"):
        load(copied_run).metrics()


@pytest.mark.slow
def test_a_moved_run_goes_on_with_its_best_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attnlab.models.training.scorer", bleu_of(9.0, 8.0, 7.0, 6.0))
    train(tmp_path / "first", small_settings())
    moved = (tmp_path / "first").rename(tmp_path / "moved")
    went_on = resume(moved, epochs=4)
    assert [row["validation_bleu"] for row in went_on.metrics] == [9.0, 8.0, 7.0, 6.0]
    assert kept_evaluation(went_on) == went_on.metrics[0]
    kept = load_file(
        moved / "checkpoints" / f"checkpoint-{went_on.kept_step}" / "model.safetensors"
    )
    for name, weight in load_file(moved / "model.safetensors").items():
        assert torch.equal(weight, kept[name]), name


def test_a_full_disk_while_saving_the_model_is_one_sentence(
    copied_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: TranslationModel, folder: str, **_: object) -> None:
        raise SafetensorError("Error while serializing: I/O error: No space left on device")

    run = load(copied_run)
    before = snapshot(copied_run)
    monkeypatch.setattr(TranslationModel, "save_pretrained", full)
    with pytest.raises(AttnlabError, match="No space left on device; what was there before"):
        save_model(run.model, copied_run)
    assert snapshot(copied_run) == before


def test_of_equal_bleu_the_lower_loss_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attnlab.models.training.scorer", bleu_of(0.0, 0.0, 0.0))
    trained = train(tmp_path / "run", small_settings(optimizer={"epochs": 3}))
    losses = [row["validation_loss"] for row in trained.metrics]
    assert losses == sorted(losses, reverse=True)
    assert kept_evaluation(trained) == trained.metrics[-1]
    newest = load_file(last_complete_checkpoint(tmp_path / "run") / "model.safetensors")
    for name, weight in load_file(tmp_path / "run" / "model.safetensors").items():
        assert torch.equal(weight, newest[name]), name


@pytest.mark.slow
def test_a_moved_run_keeps_its_best_model_without_further_epochs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attnlab.models.training.scorer", bleu_of(9.0, 8.0))
    kept = train(tmp_path / "first", small_settings()).kept_step
    moved = (tmp_path / "first").rename(tmp_path / "moved")
    before = load_file(moved / "model.safetensors")
    assert resume(moved).kept_step == kept
    for name, weight in load_file(moved / "model.safetensors").items():
        assert torch.equal(weight, before[name]), name


@pytest.mark.parametrize(
    ("gone", "message"),
    [
        ("checkpoints", "holds no complete checkpoint"),
        ("checkpoints/{best}", "holds the best model so far, is gone"),
        ("checkpoints/{best}/model.safetensors", "gone|no complete checkpoint"),
        ("token_counts.json", "holds no tokenizers"),
    ],
)
def test_resume_refuses_what_would_lose_the_model(
    copied_run: Path, gone: str, message: str
) -> None:
    newest = last_complete_checkpoint(copied_run)
    first = min((copied_run / "checkpoints").iterdir(), key=lambda path: int(path.name[11:]))
    state = json.loads((newest / "trainer_state.json").read_text())
    (newest / "trainer_state.json").write_text(
        json.dumps(state | {"best_global_step": int(first.name[11:])})
    )
    path = copied_run / gone.format(best=first.name)
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    before = snapshot(copied_run)
    with pytest.raises(InputError, match=message):
        resume(copied_run, epochs=3)
    assert snapshot(copied_run) == before


def test_a_run_that_was_killed_before_its_tokenizers_begins_again(
    small_run: Path, tmp_path: Path
) -> None:
    (tmp_path / "run").mkdir()
    shutil.copy(small_run / "settings.json", tmp_path / "run")
    resume(tmp_path / "run", epochs=2)
    again = load_file(tmp_path / "run" / "model.safetensors")
    for name, weight in load_file(small_run / "model.safetensors").items():
        assert torch.equal(weight, again[name]), name


def test_a_run_is_trained_that_has_its_epochs_or_weights_with_nothing_to_say_how_many(
    copied_run: Path,
) -> None:
    assert [is_trained(copied_run, epochs) for epochs in (1, 2, 3)] == [True, True, False]
    (copied_run / "metrics.jsonl").unlink()
    assert [is_trained(copied_run, epochs) for epochs in (1, 2, 3)] == [True, True, False]
    newest = last_complete_checkpoint(copied_run)
    assert newest is not None
    state = json.loads((newest / "trainer_state.json").read_text("utf-8"))
    # Interrupted in the first epoch, a training has weights and a checkpoint, and no history.
    for damaged in (json.dumps(state | {"epoch": 0.2}), "{"):
        (newest / "trainer_state.json").write_text(damaged, "utf-8")
        assert not is_trained(copied_run, 1)
    shutil.rmtree(copied_run / "checkpoints")
    assert is_trained(copied_run, 3)
    (copied_run / "model.safetensors").unlink()
    assert not is_trained(copied_run, 1)
