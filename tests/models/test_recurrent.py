"""The recurrent baseline beside its equations; its attention is the head cross.0.0 of every study."""

from pathlib import Path
from typing import Any

import pytest
import torch
from oracles.recurrent import scores_and_weights
from safetensors.torch import load_file
from small_run import RECURRENT, small_settings

from attnlab.ablation.ablation import ablated
from attnlab.ablation.projections import all_heads, projections_of
from attnlab.attention.bridge.installing import use
from attnlab.core.errors import InputError
from attnlab.models.configuration import IGNORED_LABEL, RecurrentConfig
from attnlab.models.model import RecurrentModel
from attnlab.models.run import load, score_run
from attnlab.models.training import resume, train
from attnlab.models.training_settings import settings_from
from attnlab.models.translating import translate

SOURCES = [[2, 7, 8, 9, 3], [2, 5, 3]]
TARGETS = [[2, 6, 4, 10], [2, 9]]


@pytest.fixture(
    params=[(c, s) for c in ("lstm", "gru", "elman") for s in ("additive", "dot")], ids="-".join
)
def form(request: pytest.FixtureRequest) -> dict[str, str]:
    return {"cell": request.param[0], "score": request.param[1]}


def model_of(**options: Any) -> RecurrentModel:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        chosen = {"vocab_size": 11, "dim": 8, "dropout": 0.0} | options
        return RecurrentModel(RecurrentConfig(**chosen)).double().eval()


@pytest.fixture
def model(form: dict[str, str]) -> RecurrentModel:
    return model_of(**form)


def padded(rows: list[list[int]], value: int = 0) -> torch.Tensor:
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[value] * (longest - len(row))] for row in rows])


@torch.no_grad()
def test_every_step_is_that_of_the_equations(model: RecurrentModel, form: dict[str, str]) -> None:
    out = model(padded(SOURCES), decoder_input_ids=padded(TARGETS), output_attentions=True)
    (matrix,) = out.cross_attentions
    assert matrix.shape == (2, 1, 4, 5)
    assert not out.encoder_attentions
    assert not out.decoder_attentions
    for row, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        logits, weights = scores_and_weights(model.state_dict(), source, target, **form)
        queries, keys = len(target), len(source)
        torch.testing.assert_close(out.logits[row, :queries], logits, rtol=0, atol=1e-10)
        torch.testing.assert_close(matrix[row, 0, :queries, :keys], weights, rtol=0, atol=1e-12)
        assert (
            float(matrix[row, 0, queries:].abs().sum() + matrix[row, ..., keys:].abs().sum()) == 0
        )


@torch.no_grad()
def test_nan_in_padding_changes_nothing(model: RecurrentModel) -> None:
    labels = padded([[*ids[1:], 3] for ids in TARGETS], IGNORED_LABEL)
    expected = model(padded(SOURCES), labels=labels)
    alone = model(torch.tensor(SOURCES[1:]), labels=labels[1:, :2])
    torch.testing.assert_close(expected.logits[1:, :2], alone.logits, rtol=0, atol=1e-12)
    model.encoder.embedding.tokens.weight[0] = torch.nan
    found = model(padded(SOURCES), labels=labels)
    torch.testing.assert_close(found.logits[:, :2, 1:], expected.logits[:, :2, 1:])
    memory = model.encoder(padded(SOURCES)).last_hidden_state
    memory[1, 3:] = torch.nan
    mask = (padded(SOURCES) != 0).long()
    handed = model(attention_mask=mask, encoder_outputs=(memory,), labels=labels)
    torch.testing.assert_close(handed.logits[:, :2, 1:], expected.logits[:, :2, 1:])


def test_gradients_reach_every_weight(model: RecurrentModel) -> None:
    labels = padded([[*ids[1:], 3] for ids in TARGETS], IGNORED_LABEL)
    model.train()(padded(SOURCES), labels=labels).loss.backward()
    for name, weight in model.named_parameters():
        assert weight.grad is not None, name
        assert torch.isfinite(weight.grad).all(), name
        assert weight.grad.abs().sum() > 0, name


@torch.no_grad()
def test_beam_search_with_padding_equals_beam_search_alone(model: RecurrentModel) -> None:
    options = {"max_length": 8, "num_beams": 3, "do_sample": False}
    together = model.generate(padded(SOURCES), **options)
    alone = model.generate(torch.tensor(SOURCES[1:]), **options)
    assert together[1, : alone.shape[1]].tolist() == alone[0].tolist()
    greedy = model.generate(torch.tensor(SOURCES[:1]), max_length=6, num_beams=1, do_sample=False)
    ids = [2]
    while len(ids) < 6 and ids[-1] != 3:
        out = model(torch.tensor(SOURCES[:1]), decoder_input_ids=torch.tensor([ids]))
        ids.append(int(out.logits[0, -1].argmax()))
    assert greedy[0].tolist() == ids


def test_a_cache_is_refused(model: RecurrentModel) -> None:
    """With a cache only the newest token comes, without the states of those before it."""
    with pytest.raises(InputError, match="use_cache=False"):
        model.generate(padded(SOURCES), max_length=6, num_beams=1, use_cache=True)


def read(model: RecurrentModel) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Weights, what the decoder reads of the source, and the source in context, of the padded pairs."""
    contexts: list[torch.Tensor] = []
    hook = model.decoder.cross.output.register_forward_pre_hook(
        lambda _, inputs: contexts.append(inputs[0])
    )
    out = model(padded(SOURCES), decoder_input_ids=padded(TARGETS), output_attentions=True)
    hook.remove()
    return out.cross_attentions[0][:, 0], contexts[0], out.encoder_last_hidden_state


@torch.no_grad()
def test_mechanisms_renormalise_the_weights_of_the_keys_they_see(model: RecurrentModel) -> None:
    full, _, memory = read(model)
    offset = torch.arange(5) - torch.arange(4)[:, None]
    best = torch.zeros(full.shape).scatter(-1, full.topk(2).indices, 1.0)
    listed = torch.isin(padded(SOURCES), torch.tensor([2, 5, 8]))[:, None]
    for mechanism, kept in (
        ("band(window=1)", offset.abs() <= 1),
        ("topk(k=2)", best),
        ("keys(tokens=[2, 5, 8])", listed),
    ):
        with use(model, mechanism):
            weights, context, _ = read(model)
        expected = full * kept
        expected /= expected.sum(-1, keepdim=True).clamp(min=1e-300)
        torch.testing.assert_close(weights, expected, rtol=0, atol=1e-12, msg=mechanism)
        real = padded(TARGETS) != 0
        torch.testing.assert_close(context[real], (weights @ memory)[real], rtol=0, atol=1e-12)
    with use(model, "none"):
        assert float(read(model)[1].abs().sum()) == 0
    torch.testing.assert_close(read(model)[0], full, rtol=0, atol=0)


@pytest.mark.parametrize("mechanism", ["linear()", "linformer(k=2)", "scatterbrain(window=1)"])
@torch.no_grad()
def test_mechanisms_of_products_need_scores_that_are_products(mechanism: str) -> None:
    model = model_of(score="additive")
    with pytest.raises(InputError, match=r"cannot stand in cross\.0: it weighs keys by"):
        use(model, mechanism).__enter__()
    with pytest.raises(InputError, match="or train with score dot"):
        RecurrentConfig(score="additive", attention={"cross": mechanism})
    products = model_of(score="dot", attention={"cross": mechanism})
    weights, context, memory = read(products)
    torch.testing.assert_close(context[0], weights[0] @ memory[0], rtol=0, atol=1e-10)


@torch.no_grad()
def test_uniform_ablation_makes_all_scores_alike(model: RecurrentModel) -> None:
    projections = projections_of(
        model,
        lambda: model(
            padded(SOURCES[:1]), decoder_input_ids=padded(TARGETS[:1]), output_attentions=True
        ),
    )
    with ablated(projections, all_heads(projections), "uniform"):
        weights, _, _ = read(model)
    visible = (padded(SOURCES) != 0)[:, None] & (padded(TARGETS) != 0)[..., None]
    expected = visible.double() / visible.sum(-1, keepdim=True).clamp(min=1)
    torch.testing.assert_close(weights, expected, rtol=0, atol=1e-12)


@torch.no_grad()
def test_a_mechanism_is_saved_with_the_model_and_generates(tmp_path: Path) -> None:
    model = model_of(decoder_layers=2)
    with use(model, "keys(tokens=[2, 5])"):
        model.save_pretrained(tmp_path)
        greedy = model.generate(torch.tensor(SOURCES[:1]), max_length=6, num_beams=1)
        ids = [2]
        while len(ids) < 6 and ids[-1] != 3:
            out = model(torch.tensor(SOURCES[:1]), decoder_input_ids=torch.tensor([ids]))
            ids.append(int(out.logits[0, -1].argmax()))
    assert greedy[0].tolist() == ids
    loaded = RecurrentModel.from_pretrained(tmp_path)
    assert str(loaded.attention_plan.at("cross", 0, 0)) == "keys(tokens=(2, 5))"
    with pytest.raises(InputError, match="the model has no encoder attention; it has: cross"):
        RecurrentConfig(attention={"encoder": "full"})


def test_layers_save_and_load(form: dict[str, str], tmp_path: Path) -> None:
    model = model_of(**form, encoder_layers=2, decoder_layers=3, source_vocab_size=13)
    model.save_pretrained(tmp_path)
    loaded = RecurrentModel.from_pretrained(tmp_path).double().eval()
    assert loaded.output.weight is loaded.decoder.embedding.tokens.weight
    for name, weight in model.state_dict().items():
        torch.testing.assert_close(loaded.state_dict()[name], weight, rtol=0, atol=1e-7)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "recurrent", "heads": 4}, "has 1 head, not 4"),
        ({"kind": "recurrent", "dim": 9, "heads": 1}, "must be even"),
        ({"kind": "recurrent", "scaled": False}, "unscaled goes with the score dot"),
        ({"kind": "recurrent", "norm": "pre"}, "norm is for transformers"),
        ({"kind": "recurrent", "task": "language-model"}, "A recurrent model learns translation"),
        ({"score": "dot"}, "cell and score are for a recurrent model"),
        ({"kind": "convolution"}, "model.kind must be one of transformer, recurrent"),
    ],
)
def test_impossible_models_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        settings_from({"model": options})


def test_a_run_translates_scores_and_resumes(recurrent_run: Path, tmp_path: Path) -> None:
    run = load(recurrent_run)
    assert isinstance(run.model, RecurrentModel)
    assert run.settings.model.heads == 1
    sentences = ["Maria sleeps in the old museum now.", "I see her."]
    together = translate(run.model, run.tokenizers, sentences, beams=2)
    assert together == [
        translate(run.model, run.tokenizers, [one], beams=2)[0] for one in sentences
    ]
    assert score_run(run, beams=1)[0]["bleu"] >= 0
    train(tmp_path / "again", small_settings(model=RECURRENT, optimizer={"epochs": 1}))
    resume(tmp_path / "again", epochs=2)
    ends = [load_file(one / "model.safetensors") for one in (recurrent_run, tmp_path / "again")]
    for name, weight in ends[0].items():
        assert torch.equal(weight, ends[1][name]), name
