"""On a GPU everything says what it says on a CPU, within the rounding of single precision."""

import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from small_run import small_settings
from zoo.analyzed import ANALYZED
from zoo.bridged import ids, put_in
from zoo.bridged import model as bridged
from zoo.random_models import ALL, PAIRS, SENTENCES, seeded, tokenizer

import attnlab
from attnlab.attention import cache_bytes, streaming_cache
from attnlab.attention.bridge.installing import install
from attnlab.models import score_run, train
from attnlab.questions.plan.question import CRITERIA
from attnlab.results.result import Result

pytestmark = pytest.mark.slow
TOKENIZER = tokenizer()
FAMILIES = ALL | ANALYZED
# What stands in for a GPU is slow: there a part of the cases is run.
REAL = torch.cuda.is_available()
CLOSE: dict[str, Any] = {"rtol": 2e-3, "atol": 1e-3 if REAL else 2e-4}
# Rounding can turn the largest weight of a row, of which there are few here.
COUNTED: dict[str, Any] = {"rtol": 0, "atol": 0.05}
NAMES = tuple(FAMILIES) if REAL else ("bert", "gpt_oss", "deepseek_v3", "marian")


def texts(model: Any) -> list[Any]:
    return (PAIRS if model.config.is_encoder_decoder else SENTENCES)[:4]


def assert_same(found: pd.DataFrame, expected: pd.DataFrame) -> None:
    """Equal but for what is measured of the machine."""
    measured = [name for name in expected if name.endswith(("seconds", "bytes", "time_ratio"))]
    counted = [name for name in expected if name.startswith("aer")]
    for left_out, close in (
        (measured + counted, CLOSE),
        (list(expected.drop(columns=counted)), COUNTED),
    ):
        pd.testing.assert_frame_equal(
            found.drop(columns=left_out),
            expected.drop(columns=left_out),
            check_exact=False,
            **close,
        )


def devices(model: Any) -> set[str]:
    return {one.device.type for one in model.parameters()}


def drawn(name: str) -> Any:
    model = seeded(FAMILIES[name]).eval()
    # MobileBERT reads the next token's embedding, which for padding is 0.
    model.get_input_embeddings().weight.data[0] = 0.0
    return model


@pytest.mark.parametrize("rows", [None, 3])
@pytest.mark.parametrize("name", NAMES)
def test_weights_and_statistics_of_every_family(name: str, rows: int | None, gpu: str) -> None:
    model = drawn(name)
    chosen: dict[str, Any] = {"keep_matrices": 3} if rows is None else {"rows": rows}
    expected = attnlab.capture((model, TOKENIZER), texts(model), **chosen)
    found = attnlab.capture((model.to(gpu), TOKENIZER), texts(model), **chosen)
    assert devices(model) == {gpu}
    assert_same(found.statistics.heads(), expected.statistics.heads())
    if rows is None:
        assert found.kept.matrices.keys() == expected.kept.matrices.keys()
        for at, weights in expected.kept.matrices.items():
            torch.testing.assert_close(found.kept.matrices[at].cpu(), weights, **CLOSE)


FEW: dict[str, Any] = {"sentences": 8}
TEXT: dict[str, Any] = {"sentence": "the cat sees a dog"}
SEARCHED = FEW | {"validation": 5, "calibration": 12}
BUDGET: dict[str, Any] = {"budgets": (3,)}
COMPARED = SEARCHED | BUDGET | {"mechanisms": ("band", "linear", "bigbird")}
PLANNED = SEARCHED | BUDGET | {"families": ("none", "band", "ends"), "quick": True}
# The question, and how it is asked.
QUESTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "analyze": ("analyze", FEW | {"labels": True, "structure_sentences": 4, "fit_sentences": 4}),
    **({"analyze translations": ("analyze", FEW | {"generation": True})} if REAL else {}),
    "importance and BLEU": ("importance", FEW | {"points": 2, "bleu": ("zero",)}),
    "compare": ("compare", COMPARED | {"quick": not REAL}),
    **{
        f"plan by {criterion}": ("plan", PLANNED | {"criterion": criterion})
        for criterion in (CRITERIA if REAL else ("gradient",))
    },
    "align": ("align", {"sentences": 20, "quick": True}),
    "detect": ("detect", FEW),
    "claim": ("claim", FEW | {"claims": ["encoder.0.0: dep nsubj", "cross.0.0: aligned"]}),
    "across": ("across", FEW | {"others": ["itself"], "patterns": ["aligned"], "match": "number"}),
    "rollout": ("rollout", TEXT),
    "inspect": ("inspect", TEXT),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_tables_of_questions_about_a_run(name: str, small_run: Path, gpu: str) -> None:
    question, options = QUESTIONS[name]
    ask = getattr(attnlab, question)
    if options.get("others") == ["itself"]:
        options = options | {"others": [small_run]}
    run = attnlab.load(small_run)
    found: Result = ask(run, device=gpu, **options)
    assert devices(run.model) == {gpu}
    expected: Result = ask(attnlab.load(small_run), device="cpu", **options)
    assert found.tables.keys() == expected.tables.keys()
    for table, rows in expected.tables.items():
        assert_same(found.tables[table], rows)


@pytest.mark.parametrize("name", ["llama", "bert", "marian"] if REAL else ["llama"])
def test_tables_of_questions_about_a_model_of_transformers(name: str, gpu: str) -> None:
    model = drawn(name)
    few = texts(model)
    other = (PAIRS if model.config.is_encoder_decoder else SENTENCES)[4:]
    searched: dict[str, Any] = {
        "sentences": few, "validation": other, "calibration": other, "budgets": (3,),
    }  # fmt: skip
    for ask, options in (
        (attnlab.analyze, {"sentences": few}),
        (attnlab.importance, {"sentences": few, "points": 2}),
        *([(attnlab.compare, searched), (attnlab.plan, searched)] if REAL else []),
    ):
        results = [ask((model, TOKENIZER), device=device, **options) for device in (gpu, "cpu")]
        for table, expected in results[1].tables.items():
            assert_same(results[0].tables[table], expected)


@pytest.mark.parametrize("random", [False, True] if REAL else [True])
def test_pruning_trains_there(random: bool, small_run: Path, gpu: str) -> None:
    """What draws from the generator of the device is compared in shape alone."""
    found, expected = (
        attnlab.prune(
            attnlab.load(small_run), penalties=(0.1, 1.0), device=device, random=random, steps=4,
            sentences=8, validation=8, calibration=40,
        )
        for device in (gpu, "cpu")
    )  # fmt: skip
    for table, rows in expected.tables.items():
        assert list(found.tables[table]) == list(rows)
        assert len(found.tables[table]) == len(rows)


@pytest.mark.parametrize(
    "name", ["llama", "gpt2", "bert", "t5", "gemma3", "gpt_oss"] if REAL else ["llama"]
)
def test_what_check_finds(name: str, gpu: str) -> None:
    model = drawn(name)
    found = attnlab.check((model, TOKENIZER), device=gpu, tokens=9)
    assert devices(model) == {gpu}
    expected = attnlab.check((model, TOKENIZER), device="cpu", tokens=9)
    for table, rows in expected.tables.items():
        compared = rows.drop(columns=["change", "note"], errors="ignore")
        if table == "properties" and (name == "gpt_oss" or not REAL):
            # FlexAttention does not know the device that stands in for a GPU, nor sinks on a real one.
            compared = compared[compared["property"] != "eager against flex"]
        assert found.tables[table].loc[compared.index, list(compared)].equals(compared)


# Only a real one compiles.
FORMS = ["flex", "dense"] if REAL else ["dense"]
PLAN = {
    "decoder.0": "sigma(window=(2, 0), num_pos=1, columns='first')",
    "decoder.0.1": "full",
    "decoder.1.0": "longformer(window=1, dilation=2)",
    "decoder.1.1": "keys(offsets=(-3, 0), tokens=(5, 9, 30), reach=4)",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["llama", "gpt2", "mistral"])
@torch.no_grad()
def test_an_installed_plan(name: str, form: str, gpu: str) -> None:
    """With grouped keys in Llama; flex is compiled there, for one mask with an axis of heads."""
    model = bridged(name).float()
    given = {"input_ids": ids(3, 9), "attention_mask": torch.ones(3, 9, dtype=torch.long)}
    given["attention_mask"][1, :4] = 0
    real = given["attention_mask"].bool()
    installed = install(model, PLAN, form="dense")
    expected = model(**given, use_cache=False).logits[real]
    installed.remove()
    installed = install(model.to(gpu), PLAN, form=form)
    on_gpu = {key: value.to(gpu) for key, value in given.items()}
    found = model(**on_gpu, use_cache=False).logits[on_gpu["attention_mask"].bool()]
    installed.remove()
    torch.testing.assert_close(found.cpu(), expected, **CLOSE)


@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma3", "marian"])
def test_a_streaming_cache(name: str, gpu: str) -> None:
    model = bridged(name)
    put_in(model, {"decoder": "sigma(window=4, num_pos=2, columns=first)"})
    prompt = {"input_ids": ids(3, 9, 3), "attention_mask": torch.ones(3, 9, dtype=torch.long)}
    prompt["attention_mask"][1, :3] = 0
    plain: dict[str, Any] = {
        "max_new_tokens": 30, "min_new_tokens": 30, "do_sample": False, "pad_token_id": 0,
        "return_dict_in_generate": True,
    }  # fmt: skip
    expected = model.generate(**prompt, **plain).sequences
    model.to(gpu)
    prompt = {key: value.to(gpu) for key, value in prompt.items()}
    full = model.generate(**prompt, **plain)
    cache = streaming_cache(model)
    found = model.generate(**prompt, **plain, past_key_values=cache)
    assert torch.equal(full.sequences.cpu(), expected)
    assert torch.equal(found.sequences.cpu(), expected)
    assert cache_bytes(cache) < cache_bytes(full.past_key_values)


@pytest.mark.parametrize("precision", ["fp32", "auto"] if REAL else ["auto"])
@pytest.mark.parametrize("task", ["translation", "language-model"])
def test_training(task: str, precision: str, tmp_path: Path, gpu: str) -> None:
    sections: dict[str, Any] = {
        "optimizer": {"precision": precision, "epochs": 3},
        "model": {} if task == "translation" else {"task": task},
    }
    losses = []
    for device in (gpu, "cpu"):
        folder = tmp_path / device
        train(folder, small_settings(**sections), device=device)
        run = attnlab.load(folder)
        lines = run.metrics()
        assert lines[-1]["validation_loss"] < lines[0]["validation_loss"]
        losses.append(lines[-1]["validation_loss"])
        if task == "translation":
            assert score_run(run, split="test", beams=1)[0]["sentences"] > 0
        shutil.rmtree(folder)
    # Dropout is drawn otherwise there.
    assert abs(losses[0] - losses[1]) < 0.1
