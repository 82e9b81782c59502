"""The translation model under attention plans: per head, saved, loaded, trained, swapped, decoded."""

import json
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from small_run import SETTINGS, small_settings
from torch import Tensor
from typer.testing import CliRunner

from attnlab.attention.bridge.installing import install, use
from attnlab.attention.calibration import calibrate, load_frequencies
from attnlab.attention.mechanism import Mechanism, Traits
from attnlab.attention.plan import plan_of, write_plan
from attnlab.cli.app import app
from attnlab.cli.commands.train import _mechanisms_by_address, _merged
from attnlab.core.errors import AttnlabError, InputError
from attnlab.models.configuration import IGNORED_LABEL, TranslationConfig
from attnlab.models.model import TranslationModel
from attnlab.models.run import load
from attnlab.models.run_folder import is_trained
from attnlab.models.tokenizer import checksum
from attnlab.models.training import train
from attnlab.models.training_settings import settings_from
from attnlab.reading.capture import capture

SOURCE = torch.tensor([[2, 7, 8, 9, 3], [2, 5, 3, 0, 0]])
LABELS = torch.tensor([[6, 4, 10, 3], [9, 3, IGNORED_LABEL, IGNORED_LABEL]])
SALIENT = "sigma(window=1, num_pos=1, extra=1, entries='offsets')"
PLAN = {
    "encoder": "band(window=1)",
    "encoder.0.1": "linformer(k=2, max_length=9)",
    "encoder.1.2": "topk(k=2)",
    "decoder.0.0": "band(window=(1, 0))",
    "cross.0.2": "band(window=2)",
}


def model_of(**options: object) -> TranslationModel:
    sizes = {"vocab_size": 11, "dim": 12, "heads": 3, "feed_forward": 20, "dropout": 0.0}
    with torch.random.fork_rng():
        torch.manual_seed(5)
        return TranslationModel(
            TranslationConfig(**(sizes | {"encoder_layers": 2} | options))
        ).eval()


def logits(model: TranslationModel) -> Tensor:
    with torch.no_grad():
        return model(SOURCE, labels=LABELS).logits


def written(model: TranslationModel, **options: object) -> Tensor:
    return model.generate(SOURCE, max_length=9, num_beams=2, do_sample=False, **options)


def test_each_head_of_a_layer_has_its_own_mechanism() -> None:
    with torch.no_grad():
        out = model_of(attention=PLAN)(SOURCE, labels=LABELS, output_attentions=True)
    first, second = out.encoder_attentions
    ahead = torch.ones(5, 5, dtype=torch.bool).triu(2)
    assert float(first[:, [0, 2]][..., ahead].abs().sum()) == 0.0
    assert bool((first[:, 1] < 0).any())  # linformer's implied matrix is no probability
    assert bool(((second[0, 2] > 0).sum(-1) == 2).all())
    assert float(out.decoder_attentions[0][0, 0].tril(-2).abs().sum()) == 0.0
    assert bool((out.decoder_attentions[0][0, 1].tril(-2).sum(-1)[2:] > 0).all())


def test_a_plan_is_saved_with_the_model_and_loaded_again(tmp_path: Path) -> None:
    model = model_of(attention=PLAN)
    model.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["attention"].items() >= PLAN.items()
    loaded = TranslationModel.from_pretrained(tmp_path)
    assert any("key_projection" in name for name in loaded.state_dict())
    assert torch.equal(logits(loaded), logits(model))


def test_projections_shared_by_layers_stay_shared(tmp_path: Path) -> None:
    model = model_of(attention={"encoder": "linformer(k=2, max_length=9, share='layers')"})
    model.save_pretrained(tmp_path)
    loaded = TranslationModel.from_pretrained(tmp_path)
    first, second = (layer.attention.mechanism.key_projection for layer in loaded.encoder.layers)
    assert first is second
    assert torch.equal(logits(loaded), logits(model))


def test_projections_shared_by_use_stay_shared(tmp_path: Path) -> None:
    model = model_of()
    with use(model, {"encoder": "linformer(k=2, max_length=9, share='layers')"}):
        model.save_pretrained(tmp_path)
        within = logits(model)
    loaded = TranslationModel.from_pretrained(tmp_path)
    first, second = (layer.attention.mechanism.key_projection for layer in loaded.encoder.layers)
    assert first is second
    assert torch.equal(logits(loaded), within)


def test_what_was_put_in_with_use_is_what_is_saved(tmp_path: Path) -> None:
    model = model_of()
    before = logits(model)
    with use(model, PLAN):
        within = logits(model)
        model.save_pretrained(tmp_path / "planned")
    assert not torch.allclose(within, before)
    assert torch.equal(logits(model), before)
    assert torch.equal(logits(TranslationModel.from_pretrained(tmp_path / "planned")), within)
    model.save_pretrained(tmp_path / "plain")
    assert torch.equal(logits(TranslationModel.from_pretrained(tmp_path / "plain")), before)


def test_use_equals_a_model_that_was_made_so() -> None:
    plain, planned = model_of(), model_of(attention={"encoder.1": "band(window=1)"})
    planned.load_state_dict(plain.state_dict())
    with use(plain, {"encoder.1": "band(window=1)"}):
        assert torch.equal(logits(plain), logits(planned))


def test_calibrated_salience_is_saved_with_the_model(tmp_path: Path) -> None:
    model = model_of(source_vocab_size=13)
    install(model, {"encoder.0": SALIENT, "cross.0.1": SALIENT})
    with pytest.raises(Exception, match="not learned its table"):
        logits(model)
    calibrate(model, [{"input_ids": SOURCE, "labels": LABELS}])
    model.save_pretrained(tmp_path)
    loaded = TranslationModel.from_pretrained(tmp_path)
    tables = [name for name in loaded.state_dict() if name.endswith(("priority", "offsets"))]
    assert len(tables) == 4
    assert all(torch.equal(loaded.state_dict()[name], model.state_dict()[name]) for name in tables)
    assert torch.equal(logits(loaded), logits(model))


@pytest.mark.parametrize("site", ["encoder", "cross"])
def test_beams_know_the_source_tokens_that_columns_are_chosen_by(site: str) -> None:
    model = model_of()
    install(model, {site: SALIENT})
    calibrate(model, [{"input_ids": SOURCE, "labels": LABELS}])
    with_cache = written(model, use_cache=True)
    assert torch.equal(with_cache, written(model, use_cache=False))


@pytest.mark.parametrize(
    "plan", [{"decoder.0.1": SALIENT}, {"cross.0.1": "linformer(k=2, max_length=9)"}]
)
def test_what_cannot_decode_with_a_cache_is_refused_and_decodes_without(
    plan: dict[str, str],
) -> None:
    model = model_of()
    install(model, plan)
    if "decoder.0.1" in plan:
        calibrate(model, [{"input_ids": SOURCE, "labels": LABELS}])
    with pytest.raises(InputError, match="cannot decode with a cache"):
        written(model, use_cache=True)
    assert torch.equal(written(model), written(model, use_cache=False))


class Uniform(Mechanism):
    """A user's own: every real key alike, with a weight that is learned."""

    name: ClassVar[str] = "uniform"
    traits: ClassVar[Traits] = Traits(causal=False, cached=False, learned=True)

    def __init__(self, *, cross: bool = False) -> None:
        super().__init__(cross=cross)
        self.scale = torch.nn.Parameter(torch.ones(()))

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, visible: Tensor | None = None, **_: object
    ) -> Tensor:
        return self.implied_matrix(query, key, visible) @ value

    def implied_matrix(
        self, query: Tensor, key: Tensor, visible: Tensor | None = None, **_: object
    ) -> Tensor:
        seen = torch.ones(key.shape[0], key.shape[2]) if visible is None else visible.float()
        rows = (seen / seen.sum(-1, keepdim=True))[:, None, None]
        return self.scale * rows.expand(-1, query.shape[1], query.shape[2], -1)


def test_a_users_own_mechanism_runs_trains_and_cannot_be_saved_as_text(tmp_path: Path) -> None:
    model = model_of()
    with use(model, {"encoder.0.1": Uniform(), "cross": Uniform(cross=True)}):
        out = model.train()(SOURCE, labels=LABELS, output_attentions=True)
        torch.testing.assert_close(out.encoder_attentions[0][0, 1], torch.full((5, 5), 0.2))
        out.loss.backward()
        scales = [w for name, w in model.named_parameters() if name.endswith("scale")]
        assert len(scales) == 2
        assert all(weight.grad is not None and float(weight.grad) != 0 for weight in scales)
        model.eval()
        with pytest.raises(InputError, match="'uniform' cannot decode with a cache"):
            written(model, use_cache=True)
        with pytest.raises(InputError, match="cannot be written to a file"):
            model.save_pretrained(tmp_path)
    model.save_pretrained(tmp_path)


def test_attention_dropout_stays_when_mechanisms_are_swapped() -> None:
    model = model_of(attention_dropout=0.25)
    with use(model, PLAN) as installed:
        assert {at.module.mechanism.dropout for at in installed.modules} == {0.25}


def test_a_run_trains_under_a_plan_and_loads(tmp_path: Path) -> None:
    write_plan(
        tmp_path / "plan.json",
        plan_of(
            {
                "encoder.0.0": "linformer(k=3, max_length=64)",
                "encoder.0.1": "sigma(window=1, num_pos=1, columns='frequency')",
                "decoder.0.1": "band(window=3)",
            }
        ),
    )
    words = [f"plan={tmp_path / 'plan.json'}", "decoder.0.1=band(window=(2, 0))"]
    attention = _mechanisms_by_address(words)
    assert attention == _mechanisms_by_address([words[0].removeprefix("plan="), words[1]])
    settings = small_settings(
        tokenizer={"shared": False}, model={"attention": attention}, optimizer={"epochs": 1}
    )
    train(tmp_path / "run", settings)
    run = load(tmp_path / "run")
    assert run.model.config.attention["decoder.0.1"] == "band(window=(2, 0))"
    mechanism = run.model.encoder.layers[0].attention.mechanism
    counts = torch.tensor(list(run.tokenizers.source_counts.values()))
    columns = next(part for name, part in mechanism.named_buffers() if name.endswith("priority"))
    assert torch.equal(columns, -counts[None].float())
    assert any("key_projection" in name for name, _ in run.model.named_parameters())


def test_a_plan_with_token_ids_of_another_tokenizer_is_refused(
    small_run: Path, tmp_path: Path
) -> None:
    path = tmp_path / "plan.json"
    plan = plan_of({"encoder.0.1": "keys(tokens=(5,))"})
    write_plan(path, plan.for_tokenizer(checksum(load(small_run).tokenizers.source)))
    words = {"attention": [str(path)]}
    accepted = settings_from(_merged(SETTINGS | {"optimizer": {"epochs": 1}}, words, None, {}))
    train(tmp_path / "same", accepted)
    other = settings_from(_merged(SETTINGS | {"tokenizer": {"vocabulary": 201}}, words, None, {}))
    with pytest.raises(InputError, match="The attention plan names token ids of another tokenizer"):
        train(tmp_path / "other", other)
    assert not (tmp_path / "other").exists()
    write_plan(tmp_path / "more.json", plan.for_tokenizer("abc"))
    words["attention"].append(f"plan={tmp_path / 'more.json'}")
    with pytest.raises(InputError, match="The plans name token ids of different tokenizers"):
        _merged(SETTINGS, words, None, {})


@pytest.mark.parametrize(
    "learning",
    ["sigma(window=1)", "sigma(window=1, num_pos=0, extra=2, entries='offsets')"],
)
def test_tables_that_are_learned_are_refused_before_training(tmp_path: Path, learning: str) -> None:
    settings = small_settings(model={"attention": {"encoder.0.1": learning}})
    with pytest.raises(InputError, match="'encoder.0.1' learns its tables from a trained model"):
        train(tmp_path / "run", settings)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
def test_tables_need_as_many_positions_as_batches_are_padded_to(
    tmp_path: Path, positions: str
) -> None:
    """Where positions are learned, no batch is padded beyond them; else to a multiple of 4."""
    settings = small_settings(
        # Texts of 13 and 14 tokens are the longest.
        corpus={"max_tokens": 14},
        tokenizer={"kind": "word"},
        model={"positions": positions, "attention": {"encoder": "linformer(k=2, max_length=14)"}},
        optimizer={"epochs": 1},
    )
    if positions == "learned":
        train(tmp_path / "run", settings)
        assert is_trained(tmp_path / "run")
        return
    with pytest.raises(AttnlabError, match="at most 14 tokens and met one of 16"):
        train(tmp_path / "run", settings)
    assert not (tmp_path / "run").exists()


def test_a_training_step_moves_what_linformer_learns() -> None:
    model = model_of(attention=PLAN).train()
    projections = {n: w for n, w in model.named_parameters() if "projection" in n}
    before = {name: weight.detach().clone() for name, weight in projections.items()}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(SOURCE, labels=LABELS).loss.backward()
    optimizer.step()
    assert len(projections) == 2
    assert all(not torch.equal(weight, before[name]) for name, weight in projections.items())


GLOBAL = {"encoder": "longformer(window=1, global_tokens=[0])"}


@pytest.mark.parametrize(
    ("mechanism", "moved"),
    [
        ("sigma_static(window=1, max_length=9)", {"band", "columns", "error"}),
        ("synthesizer(max_length=9)", {"table"}),
        ("synthesizer(max_length=9, trained=False)", set()),
    ],
)
def test_weights_without_scores_are_trained_and_saved(
    mechanism: str, moved: set[str], tmp_path: Path
) -> None:
    model = model_of(attention={"encoder.0": mechanism}, source_vocab_size=13)
    load_frequencies(model, torch.arange(13))
    part = model.encoder.layers[0].attention.mechanism
    before = {name: tensor.clone() for name, tensor in part.state_dict().items()}
    model.train()(SOURCE, labels=LABELS).loss.backward()
    torch.optim.SGD(part.parameters(), lr=1.0).step() if moved else None
    after = part.state_dict()
    assert {name for name in after if not torch.equal(after[name], before[name])} == moved
    model.eval().save_pretrained(tmp_path)
    assert torch.equal(logits(TranslationModel.from_pretrained(tmp_path)), logits(model))


def test_second_projections_change_nothing_until_they_are_trained() -> None:
    causal = GLOBAL | {"decoder": "longformer(window=1, global_tokens=[0, 2])"}
    model, plain = model_of(attention=causal, global_projections=True), model_of(attention=causal)
    own = {name for name, _ in model.named_parameters()} - {n for n, _ in plain.named_parameters()}
    assert len(own) == 3 * 2 * 3, "weights and biases of W_Q, W_K and W_V in three layers"
    torch.testing.assert_close(logits(model), logits(plain))
    for stepped in (model, plain):
        optimizer = torch.optim.SGD(stepped.parameters(), lr=0.5)
        stepped.train()(SOURCE, labels=LABELS).loss.backward()
        optimizer.step()
        stepped.eval()
    assert not torch.allclose(logits(model), logits(plain))
    layer = model.encoder.layers[0].attention
    assert not torch.equal(layer.global_rows.query.weight, layer.query.weight)


def test_rows_of_global_tokens_alone_read_the_second_projections() -> None:
    model = model_of(attention=GLOBAL, global_projections=True, encoder_layers=1)
    with torch.no_grad():
        before = model.encoder(SOURCE, output_attentions=True).attentions[0]
        model.encoder.layers[0].attention.global_rows.query.weight.mul_(-3)
        after = model.encoder(SOURCE, output_attentions=True).attentions[0]
    assert not torch.allclose(after[:, :, 0], before[:, :, 0])
    assert torch.equal(after[:, :, 1:], before[:, :, 1:])
    sums = after.sum(-1).transpose(1, 2)[SOURCE != 0]
    torch.testing.assert_close(sums, torch.ones_like(sums))


def test_second_projections_are_saved_and_decode_with_a_cache(tmp_path: Path) -> None:
    causal = GLOBAL | {"decoder": "longformer(window=1, global_tokens=[0, 2])"}
    model = model_of(attention=causal, global_projections=True)
    with torch.no_grad():
        for layer in (model.encoder.layers[1], model.decoder.layers[0]):
            layer.attention.global_rows.value.weight.mul_(-2)
    model.save_pretrained(tmp_path)
    loaded = TranslationModel.from_pretrained(tmp_path)
    assert torch.equal(logits(loaded), logits(model))
    assert torch.equal(written(loaded, use_cache=True), written(model, use_cache=False))


def test_each_head_has_its_own_dilation_beside_second_projections() -> None:
    dilated = {
        f"encoder.0.{head}": f"longformer(window=1, dilation={head + 1})" for head in range(3)
    }
    model = model_of(attention=dilated, global_projections=True, encoder_layers=1)
    with torch.no_grad():
        model.encoder.layers[0].attention.global_rows.query.weight.mul_(-3)
        both = model.encoder(SOURCE, output_attentions=True).attentions[0]
        for head in range(3):
            alike = {"encoder": dilated[f"encoder.0.{head}"]}
            alone = model_of(attention=alike, global_projections=True, encoder_layers=1)
            alone.load_state_dict(model.state_dict())
            expected = alone.encoder(SOURCE, output_attentions=True).attentions[0]
            torch.testing.assert_close(both[:, head], expected[:, head])
    seen = (both[0, :, 4] > 0).int().tolist()
    assert seen == [[1, 0, 0, 1, 1], [1, 0, 1, 0, 1], [1, 1, 0, 0, 1]]


@pytest.mark.parametrize(
    ("attention", "message"),
    [
        ({"encoder": "band(window=1)"}, "no head has any"),
        ({"encoder": "longformer(window=1, global_tokens=[])"}, "no head has any"),
        (
            {"encoder.0.1": GLOBAL["encoder"]},
            r"all heads of encoder\.0 have to be longformers with",
        ),
    ],
)
def test_second_projections_without_global_tokens_are_refused(
    attention: dict[str, str], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        model_of(attention=attention, global_projections=True)


def test_a_run_trains_second_projections_from_the_command_line(tmp_path: Path) -> None:
    words = "--size 60 --max-tokens 40 --vocabulary 200 --dim 16 --heads 2 --feed-forward 24"
    words += " --epochs 1 --batch-tokens 400 --warmup 2 --validation-sentences 2 --precision fp32"
    attention = ["--attention", "encoder=longformer(window=(4,4), global_tokens=[0])"]
    folder = tmp_path / "run"
    done = CliRunner().invoke(
        app, ["train", str(folder), *words.split(), *attention, "--global-projections"]
    )
    assert done.exit_code == 0, done.output
    run = load(folder)
    assert run.settings.model.global_projections
    module = run.model.encoder.layers[0].attention
    assert not torch.equal(module.global_rows.query.weight, module.query.weight)
    texts = list(run.corpus().test["source"][:2])
    assert capture((run.model, run.tokenizers), texts).coverage.layers == {"encoder": 1}


def test_a_mechanism_without_global_tokens_cannot_take_the_place_of_one_projected_apart() -> None:
    model = model_of(attention=GLOBAL, global_projections=True)
    before = logits(model)
    for lacking in ("band(window=1)", "longformer(window=1, global_tokens=[])"):
        with pytest.raises(
            InputError, match=r"encoder\.0 projects the rows of global tokens apart"
        ):
            install(model, lacking)
    assert torch.equal(logits(model), before)
    with use(model, {"encoder": "longformer(window=3, global_tokens=[0])"}):
        assert not torch.allclose(logits(model), before)


@pytest.mark.parametrize("word", ["linear", "encoder", "band(window=1)", "plan"])
def test_words_that_name_no_site_and_no_file_are_refused(word: str) -> None:
    with pytest.raises(InputError, match="names no site; write it like: encoder=band"):
        _mechanisms_by_address([word])


def test_what_is_behind_a_site_is_no_file_of_a_plan() -> None:
    words = ["encoder=band(window=1)", "cross=mine.json", "decoder=plan"]
    expected = {"encoder": "band(window=1)", "cross": "mine.json", "decoder": "plan"}
    assert _mechanisms_by_address(words) == expected
