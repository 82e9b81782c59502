"""The next-token language model beside its definition, and what cannot be asked of it."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate.data_loader import prepare_data_loader
from oracles.language_model import logits_and_matrices, next_token_losses
from safetensors.torch import load_file
from small_run import small_settings
from torch.nn import functional as F
from torch.utils.data import DataLoader
from typer.testing import CliRunner

import attnlab
from attnlab.cli.app import app
from attnlab.core.errors import InputError
from attnlab.core.processes import Processes
from attnlab.models.configuration import IGNORED_LABEL, LanguageConfig, TranslationConfig
from attnlab.models.model import LanguageModel
from attnlab.models.run import generate, load, score_language_model, score_run
from attnlab.models.training import resume, train
from attnlab.models.training_batches import (
    LastTokens,
    LengthGroupedBatches,
    NextTokenCollator,
    SharedBatches,
    TokenPairs,
    encode_rows,
)
from attnlab.models.training_settings import GenerationSettings, settings_from
from attnlab.reading.capture import capture

SMALL = {"dim": 12, "feed_forward": 20, "dropout": 0.0}
TEXTS = [[2, 7, 8, 9, 5, 3], [2, 5, 3], [2, 10, 4, 6, 3]]
SHAPES = [(1, 1, True), (1, 3, True), (2, 3, True), (1, 1, False), (2, 3, False)]


def model_of(**options: Any) -> LanguageModel:
    with torch.random.fork_rng():
        torch.manual_seed(5)
        config = LanguageConfig(**({"vocab_size": 11} | SMALL | options))
        return LanguageModel(config).double().eval()


def padded() -> torch.Tensor:
    return torch.tensor([[*ids, *[0] * (6 - len(ids))] for ids in TEXTS])


@pytest.fixture(params=SHAPES, ids=lambda shape: "layers={} heads={} scaled={}".format(*shape))
def shape(request: pytest.FixtureRequest) -> dict[str, Any]:
    layers, heads, scaled = request.param
    return {"layers": layers, "heads": heads, "scaled": scaled}


@pytest.fixture
def model(shape: dict[str, Any]) -> LanguageModel:
    found = model_of(decoder_layers=shape["layers"], heads=shape["heads"], scaled=shape["scaled"])
    # Biases and norms start at constants, which would hide a wrong one.
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, weight in found.named_parameters():
            if "tokens" not in name:
                noise = torch.randn(weight.shape, generator=generator, dtype=weight.dtype)
                weight.add_(0.3 * noise)
    return found


@torch.no_grad()
def test_scores_and_weights_are_those_of_the_definition(
    model: LanguageModel, shape: dict[str, Any]
) -> None:
    out = model(padded(), output_attentions=True)
    assert len(out.attentions) == shape["layers"]
    for row, ids in enumerate(TEXTS):
        logits, matrices = logits_and_matrices(model.state_dict(), ids, **shape)
        count = len(ids)
        torch.testing.assert_close(out.logits[row, :count], logits, rtol=0, atol=1e-10)
        found = torch.stack(out.attentions)[:, row]
        torch.testing.assert_close(found[..., :count, :count], matrices, rtol=0, atol=1e-12)
        assert float(found[..., count:, :].abs().sum() + found[..., count:].abs().sum()) == 0


@torch.no_grad()
def test_loss_counts_every_next_token_once(model: LanguageModel, shape: dict[str, Any]) -> None:
    expected = [
        loss
        for ids in TEXTS
        for loss in next_token_losses(logits_and_matrices(model.state_dict(), ids, **shape)[0], ids)
    ]
    batch = NextTokenCollator()([(torch.tensor(ids), torch.tensor(ids[1:])) for ids in TEXTS])
    assert int((batch["labels"] != IGNORED_LABEL).sum()) == len(expected)
    found = model(**batch).loss
    torch.testing.assert_close(float(found), sum(expected) / len(expected), rtol=0, atol=1e-10)
    # The convention of other language models in transformers: labels are the ids.
    labels = padded().masked_fill(padded() == 0, IGNORED_LABEL)
    torch.testing.assert_close(model(padded(), labels=labels).loss, found)


@torch.no_grad()
def test_loss_on_last_tokens(model: LanguageModel, shape: dict[str, Any]) -> None:
    labels = torch.full((3, 6), IGNORED_LABEL)
    for row, ids in enumerate(TEXTS):
        labels[row, len(ids) - 1] = ids[-1]
    expected = [
        next_token_losses(logits_and_matrices(model.state_dict(), ids, **shape)[0], ids)[-1]
        for ids in TEXTS
    ]
    found = float(model(padded(), labels=labels).loss)
    torch.testing.assert_close(found, sum(expected) / 3, rtol=0, atol=1e-10)


def test_one_label_of_each_text_is_drawn_for_the_last_token_of_a_beginning() -> None:
    import datasets

    rows = {"input_ids": TEXTS, "labels": [ids[1:] for ids in TEXTS]}
    texts = LastTokens(datasets.Dataset.from_dict(rows), seed=0)
    drawn = []
    for epoch in range(200):
        texts.set_epoch(epoch)
        drawn.append(texts[0])
    chosen = []
    for ids, labels in drawn:
        assert ids.tolist() == TEXTS[0]
        (index,) = (labels != IGNORED_LABEL).nonzero()
        assert labels[index] == TEXTS[0][index + 1]
        chosen.append(int(index))
    assert set(chosen) == set(range(5)), "every beginning is drawn"


def test_last_tokens_depend_on_seed_epoch_and_text_alone(untouched_randomness: None) -> None:
    """So they are the same for several processes and after a resumption within an epoch."""
    import datasets

    ids = [list(range(50))] * 4
    rows = datasets.Dataset.from_dict({"input_ids": ids, "labels": ids})

    def drawn(seed: int, epoch: int, order: Sequence[int]) -> dict[int, int]:
        texts = LastTokens(rows, seed)
        # As the Trainer tells it, through the loader of accelerate.
        batches = SharedBatches(
            LengthGroupedBatches(texts.source_lengths, texts.target_lengths, batch_tokens=100),
            Processes(),
        )
        loader = prepare_data_loader(
            DataLoader(texts, batch_sampler=batches, collate_fn=list), num_processes=1
        )
        loader.set_epoch(epoch)
        return {index: int((texts[index][1] != IGNORED_LABEL).nonzero()) for index in order}

    whole = drawn(0, 1, range(4))
    assert drawn(0, 1, (3, 1)) == {index: whole[index] for index in (3, 1)}
    assert len({*whole.values()}) > 1
    assert whole != drawn(0, 2, range(4))
    assert whole != drawn(1, 1, range(4))


@torch.no_grad()
def test_a_last_token_loss_is_that_of_the_beginning_alone() -> None:
    model = model_of(heads=2)
    whole = torch.tensor([TEXTS[0]])
    for end in range(1, 6):
        labels = torch.full_like(whole, IGNORED_LABEL)
        labels[0, end] = whole[0, end]
        alone = model(whole[:, : end + 1], labels=labels[:, : end + 1]).loss
        torch.testing.assert_close(model(whole, labels=labels).loss, alone, rtol=0, atol=1e-12)


@torch.no_grad()
def test_later_tokens_and_padding_do_not_reach_back(model: LanguageModel) -> None:
    before = model(torch.tensor([[2, 6, 4, 3]])).logits
    after = model(torch.tensor([[2, 6, 5, 0]])).logits
    torch.testing.assert_close(after[:, :2], before[:, :2], rtol=0, atol=0)
    assert not torch.equal(after[:, 2], before[:, 2])
    alone = model(torch.tensor([TEXTS[1]])).logits
    torch.testing.assert_close(model(padded()).logits[1:2, :3], alone)
    mask = (padded() != 0).long()
    torch.testing.assert_close(
        model(padded(), attention_mask=mask).logits[1:2, :3], alone, rtol=0, atol=1e-12
    )


@torch.no_grad()
def test_nan_in_padding_changes_nothing() -> None:
    model = model_of(heads=2)
    expected = model(padded(), output_attentions=True)
    model.decoder.embedding.tokens.weight[0] = torch.nan
    found = model(padded(), output_attentions=True)
    for row, ids in enumerate(TEXTS):
        real = slice(0, len(ids))
        kinds = [one for one in range(11) if one]
        torch.testing.assert_close(
            found.logits[row, real][:, kinds], expected.logits[row, real][:, kinds]
        )
        for with_nan, without in zip(found.attentions, expected.attentions, strict=True):
            torch.testing.assert_close(with_nan[row][:, real, real], without[row][:, real, real])


def test_generation_with_cache_equals_without(model: LanguageModel) -> None:
    start = torch.tensor([[2, 7]])
    options = {"max_length": 9, "do_sample": False, "num_beams": 1}
    cached = model.generate(start, **options)
    torch.testing.assert_close(cached, model.generate(start, **options, use_cache=False))
    ids = start[0].tolist()
    while len(ids) < 9 and ids[-1] != 3:
        ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
    assert cached[0].tolist() == ids


def test_prompts_of_different_lengths_are_refused() -> None:
    with pytest.raises(InputError, match="Prompts of different lengths"):
        model_of(heads=2).generate(torch.tensor([[2, 5, 0], [2, 6, 7]]))


@pytest.mark.parametrize("tied", [True, False])
def test_tied_weights_stay_tied_after_save_and_load(tied: bool, tmp_path: Path) -> None:
    model = model_of(heads=2, tie_word_embeddings=tied, scaled=False, positions="learned")
    model.save_pretrained(tmp_path)
    assert ("output.weight" in load_file(tmp_path / "model.safetensors")) != tied
    loaded = LanguageModel.from_pretrained(tmp_path)
    assert (loaded.output.weight is loaded.decoder.embedding.tokens.weight) == tied
    with torch.no_grad():
        found = loaded.double().eval()(padded()).logits
        torch.testing.assert_close(found, model(padded()).logits, rtol=0, atol=1e-6)
    assert json.loads((tmp_path / "config.json").read_text())["task"] == "language-model"


def test_smoothing_is_off_unless_asked_for() -> None:
    assert model_of(heads=2).config.label_smoothing == 0
    model = model_of(heads=2, label_smoothing=0.3).train()
    labels = padded().masked_fill(padded() == 0, IGNORED_LABEL)
    hidden = model(padded(), output_hidden_states=True).hidden_states[-1][:, :-1]
    real = labels[:, 1:] != IGNORED_LABEL
    expected = F.cross_entropy(
        hidden[real] @ model.output.weight.T, labels[:, 1:][real], label_smoothing=0.3
    )
    torch.testing.assert_close(model(padded(), labels=labels).loss, expected)


def test_a_run_holds_a_language_model(language_run: Path) -> None:
    run = attnlab.load(language_run)
    assert isinstance(run.model, LanguageModel)
    assert run.tokenizers.shared
    assert "language-model" in repr(run)
    rows = run.metrics()
    assert [row["epoch"] for row in rows] == [1.0, 2.0]
    assert "validation_bleu" not in rows[0]
    assert rows[1]["validation_loss"] < rows[0]["validation_loss"]
    assert rows[1]["validation_perplexity"] == pytest.approx(
        torch.tensor(rows[1]["validation_loss"]).exp().item(), rel=1e-5
    )
    assert run.record["settings"]["optimizer"]["best"] == "loss"


def test_perplexity_is_that_of_the_plain_sum(language_run: Path) -> None:
    run = load(language_run)
    rows = run.corpus().test
    encoded = TokenPairs(encode_rows(rows, run.tokenizers, 40, "", "source"))
    losses = []
    run.model.double()
    with torch.no_grad():
        for ids, _ in encoded:
            logits = run.model(ids[None]).logits[0]
            losses += next_token_losses(logits, ids.tolist())
    found = score_language_model(run)
    mean = sum(losses) / len(losses)
    assert found["tokens"] == len(losses)
    assert found["loss_nats"] == pytest.approx(mean, abs=1e-9)
    assert found["perplexity"] == pytest.approx(torch.tensor(mean).exp().item(), rel=1e-5)
    characters = sum(map(len, rows["source"][:]))
    assert found["bits_per_character"] == pytest.approx(
        sum(losses) / 0.6931471805599453 / characters
    )


def test_captured_matrices_are_those_of_the_definition(language_run: Path) -> None:
    run = load(language_run)
    texts = run.corpus().test["source"][:4]
    run.model.double()
    found = capture((run.model, run.tokenizers), texts, keep_matrices=4)
    assert list(found.coverage.layers) == ["decoder"]
    assert found.coverage.streamed
    for number, text in enumerate(texts):
        ids = run.tokenizers.source(text)["input_ids"]
        _, matrices = logits_and_matrices(
            run.model.state_dict(), ids, layers=2, heads=2, scaled=True
        )
        for layer in range(2):
            kept = found.kept.matrices[number, "decoder", layer]
            expected = matrices[layer].float()
            torch.testing.assert_close(kept.float(), expected, rtol=0, atol=1e-6)


def test_resumed_training_ends_like_one_without_a_break(language_run: Path, tmp_path: Path) -> None:
    settings = load(language_run).settings
    shorter = json.loads(json.dumps(settings.as_dict()))
    shorter["optimizer"]["epochs"] = 1
    train(tmp_path / "run", settings_from(shorter))
    resume(tmp_path / "run", epochs=2)
    ends = [load_file(run / "model.safetensors") for run in (language_run, tmp_path / "run")]
    for name, weight in ends[0].items():
        assert torch.equal(weight, ends[1][name]), name


def test_the_same_seed_writes_the_same_text(language_run: Path, untouched_randomness: None) -> None:
    run = load(language_run)
    chosen = GenerationSettings(samples=3, max_tokens=12, seed=4)
    first = generate(run, "Maria", chosen)
    assert first == generate(run, "Maria", chosen)
    assert len(set(first)) > 1
    assert all(text.startswith("Maria") for text in first)
    other = GenerationSettings(samples=3, max_tokens=12, seed=5)
    assert first != generate(run, "Maria", other)
    greedy = generate(run, "Maria", GenerationSettings(temperature=0.0, max_tokens=12, seed=9))
    assert greedy == generate(run, "Maria", GenerationSettings(top_k=1, max_tokens=12))
    assert len(generate(run)) == 1


@pytest.mark.parametrize("options", [{"samples": 2}, {"top_k": 3}])
def test_sampling_without_a_temperature_is_refused(options: dict[str, int]) -> None:
    with pytest.raises(InputError, match="At temperature 0 there is one text"):
        GenerationSettings(temperature=0.0, **options)


def test_a_temperature_beyond_the_numbers_is_refused() -> None:
    with pytest.raises(InputError, match="0 or at least 0.0001, not 1e-40"):
        GenerationSettings(temperature=1e-40)


@pytest.mark.parametrize(
    ("prompt", "options", "message"),
    [
        ("  ", {}, "The prompt is empty"),
        ("Maria " * 60, {}, "leaves nothing to write of 40"),
        ("Maria", {"max_tokens": 2}, "leaves nothing to write of 2"),
    ],
)
def test_prompts_that_cannot_be_continued(
    prompt: str, options: dict[str, Any], message: str, language_run: Path
) -> None:
    with pytest.raises(InputError, match=message):
        generate(load(language_run), prompt, GenerationSettings(**options))


def test_text_files_are_read_line_by_line(tmp_path: Path) -> None:
    lines = [f"The cat number {number} sleeps." for number in range(60)]
    path = tmp_path / "cats.txt"
    path.write_text("\n\n".join(lines), encoding="utf-8")
    settings = small_settings(
        corpus={"name": str(path), "size": None},
        model={"task": "language-model", "loss_tokens": "last"},
        optimizer={"epochs": 1},
    )
    trained = train(tmp_path / "run", settings)
    assert sum(trained.record["corpus"]["pairs"].values()) == 60
    run = load(tmp_path / "run")
    assert set(run.corpus().train["source"][:]) <= set(lines)
    assert score_language_model(run)["sentences"] == len(run.corpus().test)
    moved = tmp_path / "empty.txt"
    moved.write_text("\n \n", encoding="utf-8")
    empty = small_settings(
        corpus={"name": str(moved), "size": None}, model={"task": "language-model"}
    )
    with pytest.raises(InputError, match="is empty"):
        train(tmp_path / "other", empty)
    with pytest.raises(InputError, match="is no corpus that attnlab can read"):
        train(tmp_path / "other", small_settings(corpus={"name": str(path), "size": None}))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"model": {"task": "summary"}}, "model.task must be one of translation, language-model"),
        (
            {"model": {"task": "language-model"}, "optimizer": {"best": "bleu"}},
            "A language model has no BLEU",
        ),
        ({"model": {"loss_tokens": "last"}}, "loss tokens are for a language model"),
    ],
)
def test_settings_that_do_not_go_together(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        settings_from(values)


def test_attention_of_other_sites_is_refused() -> None:
    with pytest.raises(InputError, match="the model has no encoder attention; it has: decoder"):
        model_of(heads=2, attention={"encoder": "band(window=1)"})
    with pytest.raises(InputError, match="task must be 'translation'"):
        TranslationConfig(task="language-model")


def test_what_is_for_another_task_is_refused(
    language_run: Path, small_run: Path, tmp_path: Path
) -> None:
    refusals = {
        ("translate", str(language_run), "Maria"): "is a language model, which translates nothing",
        ("generate", str(small_run), "Maria"): "is a translation model, which writes no text",
        ("score", str(language_run), "--beams", "2"): "has no translations or BLEU",
        ("score", str(language_run), "--out", str(tmp_path / "out")): "has no translations or BLEU",
    }
    for words, message in refusals.items():
        result = CliRunner().invoke(app, list(words))
        assert isinstance(result.exception, InputError), words
        assert message in str(result.exception)
    with pytest.raises(InputError, match="translates nothing"):
        score_run(load(language_run))
    with pytest.raises(InputError, match="writes no text of its own"):
        generate(load(small_run))


def test_the_command_line_writes_and_scores(language_run: Path) -> None:
    words = ["generate", str(language_run), "Maria", "--samples", "2", "--max-tokens", "9"]
    first, again = (CliRunner().invoke(app, words).stdout for _ in range(2))
    assert first == again
    assert len(first.splitlines()) == 2
    scores = json.loads(CliRunner().invoke(app, ["score", str(language_run)]).stdout)
    assert scores["perplexity"] > 1
    assert scores["split"] == "test"


def test_a_damaged_configuration_is_refused(language_run: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(language_run, tmp_path / "copy"))
    values = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps(values | {"scaled": False}))
    with pytest.raises(InputError, match="scaled is False in config.json and True"):
        load(run)
