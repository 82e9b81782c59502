"""Plans as layer types: plain transformers gives what the plan gives, or nothing is written."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GenerationConfig,
    MistralConfig,
    MistralForCausalLM,
    ModernBertConfig,
    ModernBertModel,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen2ForSequenceClassification,
    Qwen3Config,
    Qwen3ForCausalLM,
)
from typer.testing import CliRunner
from zoo import random_models
from zoo.random_models import IDS, TYPES, seeded, tokenizer

import attnlab
from attnlab.attention import Band, model_with_layer_types, use
from attnlab.attention.bridge.card import is_card
from attnlab.attention.bridge.installing import installed_plan
from attnlab.attention.plan import plan_of, write_plan
from attnlab.cli.app import app
from attnlab.core import write_json
from attnlab.core.errors import InputError
from attnlab.models import Model, export_layer_types, model_of

SIZES: dict[str, Any] = {
    "vocab_size": TYPES, "hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4,
    "intermediate_size": 11, "max_position_embeddings": 64,
}  # fmt: skip
GROUPED = SIZES | {"num_key_value_heads": 2, "head_dim": 4} | IDS
FULL = ["full_attention"] * 3


def gemma() -> PreTrainedModel:
    ropes = {
        "full_attention": {"rope_type": "default", "rope_theta": 1_000_000.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
    }
    config = Gemma3TextConfig(**GROUPED, layer_types=FULL, rope_parameters=ropes)
    return seeded(lambda: Gemma3ForCausalLM(config))


FAMILIES = {
    "qwen2": lambda: seeded(lambda: Qwen2ForCausalLM(Qwen2Config(**GROUPED))),
    "qwen3": lambda: seeded(lambda: Qwen3ForCausalLM(Qwen3Config(**GROUPED))),
    "gemma3": gemma,
    "modernbert": lambda: seeded(
        lambda: ModernBertModel(ModernBertConfig(**SIZES, layer_types=FULL, pad_token_id=0))
    ),
}


def a_plan(name: str) -> dict[str, str]:
    site = "encoder" if name == "modernbert" else "decoder"
    return {f"{site}.0": "band(window=2)", f"{site}.2": "band(window=2)"}


def ids(seed: int = 3) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randint(3, TYPES, (3, 23), generator=generator)
    mask = torch.ones_like(drawn)
    mask[1, 15:] = 0
    return {"input_ids": drawn, "attention_mask": mask}


@torch.no_grad()
def scores(model: Any) -> torch.Tensor:
    found: torch.Tensor = model.eval()(**ids())[0]
    return found[ids()["attention_mask"].bool()]


@pytest.mark.parametrize("name", FAMILIES)
def test_plain_transformers_gives_what_the_plan_gives(name: str, tmp_path: Path) -> None:
    model = FAMILIES[name]().double()
    whole = scores(model)
    made = model_with_layer_types(model, plan_of(a_plan(name)))
    made.save_pretrained(tmp_path)
    kind = AutoModel if name == "modernbert" else AutoModelForCausalLM
    plain = kind.from_pretrained(tmp_path, dtype=torch.float64)
    with use(model, a_plan(name)):
        expected = scores(model)
    assert (expected - whole).abs().max() > 1e-3, "the plan changes something"
    torch.testing.assert_close(scores(plain), expected, rtol=0, atol=1e-6)
    assert torch.equal(scores(model), whole), "the model is left as it was"
    assert [kind == "sliding_attention" for kind in plain.config.layer_types] == [True, False, True]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", FAMILIES)
def test_models_of_half_precision_are_compared_in_single(name: str, dtype: torch.dtype) -> None:
    model = FAMILIES[name]().to(dtype)
    model.generation_config = GenerationConfig(max_new_tokens=7, eos_token_id=[2, 5])
    drawn = torch.get_rng_state()
    made = model_with_layer_types(model, plan_of(a_plan(name)))
    assert torch.equal(drawn, torch.get_rng_state())
    assert made.generation_config.to_dict() == model.generation_config.to_dict()
    assert made.generation_config is not model.generation_config
    for part, before in zip(made.parameters(), model.parameters(), strict=True):
        assert part.dtype == dtype
        assert torch.equal(part, before)
    fresh = type(model)(made.config)
    assert [part.dtype for part in made.buffers()] == [part.dtype for part in fresh.buffers()]


def test_scores_of_whole_texts_are_compared_too() -> None:
    model = seeded(lambda: Qwen2ForSequenceClassification(Qwen2Config(**GROUPED)))
    made = model_with_layer_types(model, plan_of(a_plan("qwen2")))
    assert made.config.layer_types == ["sliding_attention", FULL[0], "sliding_attention"]


@pytest.mark.parametrize("name", ["qwen2", "qwen3", "gemma3"])
def test_a_window_that_transformers_forgets_behind_its_cache_is_refused(name: str) -> None:
    """Of a window of one key transformers' cache keeps all keys, and what it writes is of full attention."""
    with pytest.raises(InputError, match=r"whose window is 1, .* behind its cache than the plan"):
        model_with_layer_types(FAMILIES[name](), plan_of({"decoder": "band(window=0)"}))
    model_with_layer_types(FAMILIES[name](), plan_of({"decoder": "band(window=(1, 0))"}))


def test_nothing_of_an_older_model_is_read_with_the_new_one(tmp_path: Path) -> None:
    model = FAMILIES["qwen3"]()
    given = Model(model, tokenizer()), plan_of(a_plan("qwen3")), tmp_path
    export_layer_types(*given)
    with use(model, {"decoder": "keys(first=1)"}) as installed:
        model.save_pretrained(tmp_path)
        installed.write(tmp_path)
    (tmp_path / "chat_template.jinja").write_text("old", encoding="utf-8")
    assert is_card(tmp_path / "README.md")
    export_layer_types(*given, overwrite=True)
    assert not (tmp_path / "README.md").exists()
    (tmp_path / "README.md").write_text("mine", encoding="utf-8")
    export_layer_types(*given, overwrite=True)
    assert attnlab.load(tmp_path).model.config.layer_types[0] == "sliding_attention"
    assert installed_plan(attnlab.load(tmp_path).model) is None
    assert not (tmp_path / "chat_template.jinja").exists()
    assert (tmp_path / "README.md").exists()


def test_tensors_that_are_no_model_stay_in_the_folder(tmp_path: Path) -> None:
    given = Model(FAMILIES["qwen3"](), tokenizer()), plan_of(a_plan("qwen3")), tmp_path
    export_layer_types(*given)
    (tmp_path / "data.safetensors").write_bytes(b"mine")
    export_layer_types(*given, overwrite=True)
    assert (tmp_path / "data.safetensors").read_bytes() == b"mine"


@pytest.mark.parametrize("kind", [None, "analysis", "export"])
def test_only_what_is_left_of_an_export_is_replaced(tmp_path: Path, kind: str | None) -> None:
    given = Model(FAMILIES["qwen3"](), tokenizer()), plan_of(a_plan("qwen3")), tmp_path
    (tmp_path / "config.json").write_text("mine", encoding="utf-8")
    write_json(tmp_path / ".unfinished" / "result.json", {} if kind is None else {"result": kind})
    if kind == "export":
        export_layer_types(*given, overwrite=True)
        assert attnlab.load(tmp_path).model.config.layer_types[0] == "sliding_attention"
        return
    with pytest.raises(InputError, match="holds something else than an exported model"):
        export_layer_types(*given, overwrite=True)
    assert (tmp_path / "config.json").read_text() == "mine"


def test_a_window_of_all_layers_where_there_are_no_types() -> None:
    config = MistralConfig(**GROUPED, sliding_window=None)
    model = seeded(lambda: MistralForCausalLM(config)).double()
    made = model_with_layer_types(model, plan_of({"decoder": "band(window=(4, 0))"}))
    assert made.config.sliding_window == 5
    with use(model, {"decoder": "band(window=(4, 0))"}):
        expected = scores(model)
    torch.testing.assert_close(scores(made), expected, rtol=0, atol=1e-6)
    with pytest.raises(InputError, match="no layer_types: its window is that of all layers"):
        model_with_layer_types(model, plan_of({"decoder.0": "band(window=4)"}))


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({"decoder.0.1": "band(window=2)"}, "heads of decoder.0 have different mechanisms"),
        (
            {"decoder.0": "band(window=2)", "decoder.1": "band(window=3)"},
            "one sliding_window for all layers, and those of the plan are 3, 4",
        ),
        ({"decoder.0": "keys(first=1)"}, r"decoder.0 has keys\(first=1\)"),
        ({"decoder": "full"}, "No layer of the plan has a band"),
        ({"decoder": "band(window=2)", "decoder.0.7": "band(window=2)"}, r"decoder\.0\.7"),
        ({"decoder": "band(window=2)", "decoder.5": "full"}, r"decoder\.5"),
    ],
)
def test_what_a_configuration_cannot_say_is_refused(plan: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        model_with_layer_types(FAMILIES["qwen3"](), plan_of(plan))


def test_families_without_windows_and_with_windows_of_their_own_are_refused() -> None:
    narrow = plan_of({"decoder": "band(window=2)"})
    with pytest.raises(InputError, match="LlamaForCausalLM has no sliding_window"):
        model_with_layer_types(random_models.llama(), narrow)
    config = Qwen3Config(
        **GROUPED, use_sliding_window=True, sliding_window=4,
        layer_types=["sliding_attention", *FULL[1:]],
    )  # fmt: skip
    model = seeded(lambda: Qwen3ForCausalLM(config))
    with pytest.raises(InputError, match="have windows of their own, and layer types"):
        model_with_layer_types(model, narrow)
    with pytest.raises(InputError, match="an encoder-decoder has none"):
        model_with_layer_types(random_models.marian(), plan_of({"encoder": Band(1)}))
    with pytest.raises(InputError, match="as wide on both sides"):
        model_with_layer_types(
            FAMILIES["modernbert"](), plan_of({"encoder": "band(window=(2, 1))"})
        )


def test_what_computes_something_else_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    from attnlab.attention.bridge import layer_types

    monkeypatch.setattr(
        layer_types, "_window", lambda entry, *_: 4 if isinstance(entry, Band) else None
    )
    with pytest.raises(InputError, match="gives something else than the plan does"):
        model_with_layer_types(FAMILIES["qwen3"](), plan_of({"decoder": "band(window=2)"}))


def test_a_tokenizer_that_cannot_be_written_leaves_no_model_behind(tmp_path: Path) -> None:
    FAMILIES["qwen3"]().save_pretrained(tmp_path / "model")
    tokenizer().save_pretrained(tmp_path / "model")
    path = tmp_path / "model" / "tokenizer_config.json"
    path.write_text(path.read_text("utf-8").replace('"tokenizers"', '"\\ud800"'), "utf-8")
    model = model_of(tmp_path / "model")
    with pytest.raises(InputError, match="tokenizer of .* cannot be written"):
        export_layer_types(model, plan_of(a_plan("qwen3")), tmp_path / "out")
    assert not list((tmp_path / "out").glob("*"))


def test_export_from_the_command_line(tmp_path: Path) -> None:
    FAMILIES["qwen3"]().save_pretrained(tmp_path / "model")
    tokenizer().save_pretrained(tmp_path / "model")
    write_plan(tmp_path / "plan.json", plan_of(a_plan("qwen3")))
    out = tmp_path / "out"
    words = ["export", str(tmp_path / "plan.json"), str(tmp_path / "model"), "--out", str(out)]
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    plain = AutoModelForCausalLM.from_pretrained(out)
    assert plain.config.layer_types[0] == "sliding_attention"
    assert (out / "tokenizer.json").exists()
    before = (out / "model.safetensors").read_bytes()
    with pytest.raises(InputError, match="already holds a model"):
        CliRunner().invoke(app, words, catch_exceptions=False)
    assert CliRunner().invoke(app, [*words, "--overwrite"], catch_exceptions=False).exit_code == 0
    assert (out / "model.safetensors").read_bytes() == before
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").write_text("mine", encoding="utf-8")
    for folder, message in (
        (tmp_path / "other", "something else than an exported model"),
        (tmp_path, "is read by the same command"),
        (tmp_path / "plan.json", "is a file"),
    ):
        with pytest.raises(InputError, match=message):
            CliRunner().invoke(app, [*words[:-1], str(folder)], catch_exceptions=False)
    with pytest.raises(InputError, match="is read by the same command"):
        CliRunner().invoke(
            app, [*words[:-1], str(tmp_path / "model"), "--overwrite"], catch_exceptions=False
        )
    with pytest.raises(InputError, match="--as must be one of layer-types"):
        CliRunner().invoke(app, [*words, "--as", "onnx"], catch_exceptions=False)


def test_an_encoder_decoder_is_told_how_a_plan_is_used_instead(tmp_path: Path) -> None:
    model = model_of((random_models.bart(), random_models.tokenizer()))
    with pytest.raises(
        InputError, match="An encoder-decoder has no layer types.*install, or train"
    ):
        export_layer_types(model, plan_of({"encoder": "band(window=2)"}), tmp_path / "out")
    assert not (tmp_path / "out").exists()
