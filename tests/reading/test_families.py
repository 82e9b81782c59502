"""Families of transformers models: the heads of each are captured exactly, or refused in one sentence."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pandas as pd
import pytest
import torch
import transformers as hf
from grids import first
from zoo import random_models
from zoo.analyzed import ANALYZED, READ, REFUSED, TWINS
from zoo.random_models import PAIRS, SENTENCES, TYPES, seeded, tokenizer

from attnlab.ablation.ablation import ablated, close_heads
from attnlab.ablation.projections import check_apart, projections_of
from attnlab.core.addresses import Head
from attnlab.core.errors import AttnlabError, InputError
from attnlab.evaluation.evaluator import load_evaluator
from attnlab.questions.analyze.analysis import analyze
from attnlab.questions.analyze.analysis_notes import LearnedSink
from attnlab.reading.capture import capture
from attnlab.reading.hooks import ready_to_show

pytestmark = pytest.mark.grid

TOKENIZER = tokenizer()


def texts(model: Any) -> list[Any]:
    return (PAIRS if model.config.is_encoder_decoder else SENTENCES)[:3]


def own_attentions(model: Any, text: Any) -> dict[tuple[str, int], torch.Tensor]:
    """Attention of one sentence without padding, as an eager transformers model returns it."""
    if isinstance(text, str):
        given = dict(TOKENIZER(text, return_tensors="pt", return_token_type_ids=False))
    else:
        given = dict(TOKENIZER(text[0], return_tensors="pt", return_token_type_ids=False))
        labels = TOKENIZER(text_target=text[1])["input_ids"]
        start = model.config.decoder_start_token_id
        given["decoder_input_ids"] = torch.tensor([[start, *labels[:-1]]])
        given["use_cache"] = False
    with torch.no_grad():
        found = model(**given, output_attentions=True)
    names = {"encoder": "encoder_attentions", "decoder": "decoder_attentions",
             "cross": "cross_attentions"}  # fmt: skip
    shown = (
        {"one": found.attentions}
        if isinstance(text, str)
        else {site: found[name] for site, name in names.items()}
    )
    if model.config.model_type == "prophetnet":
        # It returns scores but in its decoder, and in cross-attention rows of the streams that predict too.
        shown["encoder"] = [scores.softmax(-1) for scores in shown["encoder"]]
        target = given["decoder_input_ids"].shape[1]
        shown["cross"] = [scores[:, :, :target].softmax(-1) for scores in shown["cross"]]
    return {(site, n): w[0] for site, layers in shown.items() for n, w in enumerate(layers)}


def with_eager_twin(name: str) -> tuple[Any, Any]:
    """A model, and one of the same weights that had eager attention from the start."""

    def build() -> Any:
        model = (ANALYZED | READ)[name]()
        model.config._attn_implementation = "eager"
        return type(model)(model.config)

    model, plain = seeded((ANALYZED | READ)[name]), seeded(build)
    # MobileBERT reads the next token's embedding, which for padding is 0.
    model.get_input_embeddings().weight.data[0] = 0.0
    plain.load_state_dict(model.state_dict())
    return model.eval(), plain.eval()


@pytest.mark.parametrize("name", first(ANALYZED | READ, but=TWINS))
def test_captured_matrices_are_the_models_own(name: str, untouched_randomness: None) -> None:
    model, plain = with_eager_twin(name)
    before = model.config._attn_implementation
    kept = capture((model, TOKENIZER), texts(model), keep_matrices=3).kept.matrices
    assert model.config._attn_implementation == before
    checked = 0
    for number, text in enumerate(texts(model)):
        for (site, layer), expected in own_attentions(plain, text).items():
            at = next(s for n, s, _ in kept if n == number) if site == "one" else site
            torch.testing.assert_close(kept[number, at, layer], expected, atol=3e-5, rtol=1e-3)
            checked += 1
    assert checked == len(kept) > 0


@pytest.mark.parametrize("name", first(random_models.ALL | ANALYZED | READ, but=TWINS))
def test_ids_beyond_the_embedding_are_named_and_do_no_harm_where_no_text_has_them(
    name: str,
) -> None:
    model = seeded((random_models.ALL | ANALYZED | READ)[name]).eval()
    model.get_input_embeddings().weight.data[0] = 0.0
    larger = tokenizer()
    larger.add_tokens(["<new>"])
    larger.add_special_tokens({"pad_token": "<padding>"})
    read = [capture((model, one), texts(model)).statistics.heads() for one in (TOKENIZER, larger)]
    pd.testing.assert_frame_equal(*read)
    both = model.config.is_encoder_decoder
    for text in [("a <new>", "a"), ("a", "a <new>")] if both else ["a <new>"]:
        with pytest.raises(
            InputError,
            match=f"Text 2 has token <new> with id {TYPES}, .* has {TYPES} rows.*resize_token_embeddings",
        ):
            capture((model, larger), [("a", "a") if both else "a", text])


@pytest.mark.parametrize("name", REFUSED)
def test_others_are_refused_in_one_sentence(name: str) -> None:
    model = seeded(REFUSED[name]).eval()
    with pytest.raises(AttnlabError) as refusal:
        capture((model, TOKENIZER), texts(model))
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", ["longt5", "led"])
@pytest.mark.parametrize("site", ["decoder", "cross"])
def test_sites_that_are_read_are_offered_where_another_is_not(name: str, site: str) -> None:
    model, found = seeded(REFUSED[name]).eval(), {}
    model.get_input_embeddings().weight.data[0] = 0.0
    kept = capture((model, TOKENIZER), PAIRS[:3], sites=[site], keep_matrices=3).kept.matrices
    for number, text in enumerate(PAIRS[:3]):
        for (at, layer), expected in own_attentions(model, text).items():
            if at == site:
                torch.testing.assert_close(
                    kept[number, site, layer], expected, atol=3e-5, rtol=1e-3
                )
                found[number, site, layer] = expected
    assert kept.keys() == found.keys()


def test_a_site_without_matrices_is_named_with_those_that_have_some() -> None:
    model = seeded(REFUSED["longt5"]).eval()
    for sites in (None, ["encoder"], ["cross", "encoder"]):
        with pytest.raises(
            InputError,
            match=r"no weights \[head, query, key\] in the encoder.* choose other sites: decoder, cross",
        ):
            capture((model, TOKENIZER), PAIRS[:3], sites=sites)


def test_weights_of_prophetnet_mix_what_its_projections_read() -> None:
    model = seeded(READ["prophetnet"]).eval()
    kept = capture((model, TOKENIZER), PAIRS[:1], keep_matrices=1).kept.matrices
    for site, attention in (
        ("encoder", model.prophetnet.encoder.layers[1].self_attn),
        ("cross", model.prophetnet.decoder.layers[1].cross_attn),
    ):
        values, mixed = [], []
        hooks = [
            attention.value_proj.register_forward_hook(
                lambda _, __, out, to=values: to.append(out)
            ),
            attention.out_proj.register_forward_hook(
                lambda _, given, __, to=mixed: to.append(given[0])
            ),
        ]
        own_attentions(model, PAIRS[0])
        for hook in hooks:
            hook.remove()
        weights = kept[0, site, 1]
        by_head = values[0][0].unflatten(-1, (weights.shape[0], -1))
        again = torch.einsum("hqk,khd->qhd", weights, by_head).flatten(-2)
        torch.testing.assert_close(again, mixed[0][0, : weights.shape[1]], atol=3e-5, rtol=1e-3)
    assert "forward" not in vars(model.prophetnet.decoder.layers[1].cross_attn)


def test_what_a_sink_takes_is_shown() -> None:
    model = seeded(ANALYZED["gpt_oss"]).eval()
    found = analyze((model, TOKENIZER), sentences=SENTENCES, labels=False, keep_matrices=7)
    rows: dict[tuple[int, int], list[float]] = {}
    for (number, _, layer), matrix in found.matrices.matrices.items():
        content = slice(1, len(found.matrices.tokens[number, "decoder"][0]) - 1)
        for head, rest in enumerate(1 - matrix[:, content].sum(-1)):
            rows.setdefault((layer, head), []).extend(rest.tolist())
    table = found.heads.set_index(["layer", "head"])["mass_on_sink_logit"]
    assert table.min() > 0.01
    for key, rest in rows.items():
        assert table[key] == pytest.approx(sum(rest) / len(rest), abs=1e-6)
    assert any(isinstance(note, LearnedSink) for note in found.notes)
    assert (
        "mass_on_sink_logit"
        not in analyze((random_models.llama(), TOKENIZER), sentences=SENTENCES, labels=False).heads
    )


def test_projections_of_layers_that_share_a_module_are_those_of_its_calls() -> None:
    model = seeded(ANALYZED["albert"]).eval()
    ids = TOKENIZER(SENTENCES[0], return_tensors="pt")["input_ids"]
    found = projections_of(model, lambda: model(ids, output_attentions=True))
    (group,) = model.encoder.albert_layer_groups
    dense = group.albert_layers[0].attention.dense
    assert {projection.module for projection in found.values()} == {dense}
    layers = model.config.num_hidden_layers
    assert [(one.call, one.calls) for one in found.values()] == [(n, layers) for n in range(layers)]
    with pytest.raises(AttnlabError, match="encoder layer 1 shares its output projection"):
        close_heads(found, [Head("encoder", 1, 0)])


def test_two_layers_may_have_one_output_projection_and_one_query_projection() -> None:
    model = seeded(random_models.bert).eval()
    first, second = (layer.attention for layer in model.encoder.layer[:2])
    second.output.dense, second.self.query = first.output.dense, first.self.query
    ids = TOKENIZER(SENTENCES[0], return_tensors="pt")["input_ids"]

    def states() -> Any:
        with ready_to_show(model), torch.no_grad():
            return model(ids, output_attentions=True, output_hidden_states=True)

    found, plain = projections_of(model, lambda: model(ids, output_attentions=True)), states()
    assert [(one.module, one.calls) for one in found.values()][:2] == [(first.output.dense, 1)] * 2
    for number, own in enumerate((first, second)):
        with ablated(found, [Head("encoder", number, 1)], "zero"):
            after = states()
        calls = []

        def zeroed(_: Any, given: Any, calls: list[int] = calls, number: int = number) -> Any:
            calls.append(1)
            apart = given[0].clone().unflatten(-1, (found["encoder", 0].heads, -1))
            apart[:, :, 1] *= len(calls) - 1 != number
            return (apart.flatten(-2),)

        handle = first.output.dense.register_forward_pre_hook(zeroed)
        expected = states()
        handle.remove()
        assert not torch.equal(expected.last_hidden_state, plain.last_hidden_state)
        torch.testing.assert_close(after.last_hidden_state, expected.last_hidden_state)
        with ablated(found, [Head("encoder", number, 1)], "uniform"):
            weights = states().attentions
        assert own.self.query is first.self.query
        even = torch.full_like(weights[number][:, 1], 1 / ids.shape[1])
        torch.testing.assert_close(weights[number][:, 1], even)
        other = 1 - number
        alone = slice(None) if other < number else slice(0, 0)
        torch.testing.assert_close(weights[other][:, alone], plain.attentions[other][:, alone])
        assert (weights[other][:, 1] - 1 / ids.shape[1]).abs().max() > 1e-3
    alone = {("encoder", 1): found["encoder", 1]}
    for some in (found, alone):
        with pytest.raises(AttnlabError, match="encoder layer 1 shares its output projection"):
            close_heads(some, [Head("encoder", 1, 0)])


class InHalves(torch.nn.Linear):
    """A linear module that its attention calls for each half of the rows."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        call = super().__call__
        return torch.cat([call(x[:, :3]), call(x[:, 3:])], 1)


def test_a_projection_that_is_called_in_parts_is_changed_in_all_of_them() -> None:
    model = seeded(random_models.bert).eval()
    ids = TOKENIZER(SENTENCES[0], return_tensors="pt")["input_ids"]
    attention = model.encoder.layer[0].attention
    plain = projections_of(model, lambda: model(ids, output_attentions=True))
    results = []
    for parts in (False, True):
        if parts:
            attention.self.query.__class__ = attention.output.dense.__class__ = InHalves
        for replacement in ("zero", "uniform"):
            with (
                ready_to_show(model),
                torch.no_grad(),
                ablated(plain, [Head("encoder", 0, 1)], replacement),
            ):
                results.append(model(ids, output_attentions=True))
    for whole, halves in zip(results[:2], results[2:], strict=True):
        torch.testing.assert_close(halves.last_hidden_state, whole.last_hidden_state)
        torch.testing.assert_close(halves.attentions[0], whole.attentions[0])


class Twice(hf.LlamaForCausalLM):
    """A model that reads a text two times and shows what it attends to the second time."""

    def forward(self, *args: Any, **named: Any) -> Any:
        super().forward(*args, **named)
        return super().forward(*args, **named)


def test_heads_of_a_layer_that_is_called_twice_are_not_closed() -> None:
    model = seeded(random_models.llama).eval()
    model.__class__ = Twice
    found = projections_of(model, showing(model))
    with pytest.raises(AttnlabError, match="decoder layer 0 shares its output projection with"):
        close_heads(found, [Head("decoder", 0, 0)])


def test_projections_behind_which_the_residual_is_added_are_found() -> None:
    model = seeded(ANALYZED["bloom"]).eval()
    ids = TOKENIZER(SENTENCES[0], return_tensors="pt")["input_ids"]
    found = projections_of(model, lambda: model(ids, output_attentions=True))
    layers = [block.self_attention.dense for block in model.transformer.h]
    assert [projection.module for projection in found.values()] == layers
    assert all(projection.heads == 3 for projection in found.values())


def showing(model: Any) -> Callable[[], Any]:
    """Calls the model with sources and targets of unlike lengths, so that weights are returned."""
    given = {"input_ids": torch.arange(3, 12)[None]}
    if model.config.is_encoder_decoder:
        given["decoder_input_ids"] = torch.arange(3, 8)[None]
    return partial(model, **given, output_attentions=True, return_dict=True)


def mixing(_: Any, inputs: tuple[Any, ...], *, heads: int) -> tuple[Any, ...]:
    """Adds a little of each head to the next one, before they are projected."""
    apart = inputs[0].unflatten(-1, (heads, -1))
    return ((apart + 0.1 * apart.roll(1, -2)).flatten(-2), *inputs[1:])


# Their layers return no weights of their own, which is refused before.
@pytest.mark.parametrize("name", first(sorted({*ANALYZED} - {"xlnet", "openai_gpt"}), but=TWINS))
@pytest.mark.parametrize("frozen", [False, True])
def test_heads_that_are_mixed_before_they_are_projected_are_noticed(
    name: str, frozen: bool
) -> None:
    model = seeded(ANALYZED[name]).eval().requires_grad_(not frozen)
    found = projections_of(model, showing(model))
    lasts = {site: (site, layer) for site, layer in found}
    for site, layer in lasts.values():
        one = found[site, layer]
        hook = partial(mixing, heads=one.heads)
        handles = one.at_own_call(one.module.register_forward_pre_hook, hook)
        with (
            ready_to_show(model),
            pytest.raises(AttnlabError, match=f"^{site} layer {layer}: .* mixes its heads"),
        ):
            check_apart(found, showing(model))
        for handle in handles:
            handle.remove()
    projections_of(model, showing(model))
    for part in model.parameters():
        assert part.requires_grad is not frozen
        assert part.grad is None


@pytest.mark.parametrize(
    ("config", "kind"),
    [(hf.ConvBertConfig, hf.ConvBertModel), (hf.DiffLlamaConfig, hf.DiffLlamaModel)],
)
def test_models_that_mix_heads_before_they_are_projected_are_refused(
    config: Any, kind: Any
) -> None:
    sizes = {"num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 24}
    given = {"vocab_size": 60, "num_hidden_layers": 2, "intermediate_size": 32}
    model = kind(config(**sizes, **given)).eval()
    with pytest.raises(
        AttnlabError, match="layer 0: .* mixes its heads before the output projection"
    ):
        projections_of(model, showing(model))


@pytest.mark.parametrize("heads", [2, 3, 4, 8])
def test_any_head_that_another_one_takes_from_is_noticed(heads: int) -> None:
    config = hf.BertConfig(
        vocab_size=60, hidden_size=24, num_hidden_layers=1, num_attention_heads=heads, intermediate_size=8,
        attn_implementation="eager",
    )  # fmt: skip
    model = seeded(lambda: hf.BertModel(config)).eval()
    found = projections_of(model, showing(model))
    (projection,) = found.values()
    for taking in range(heads):
        for giving in set(range(heads)) - {taking}:

            def take(_: Any, given: Any, taking: int = taking, giving: int = giving) -> Any:
                apart = given[0].unflatten(-1, (heads, -1)).clone()
                apart[..., taking, :] += 0.01 * apart[..., giving, :]
                return (apart.flatten(-2),)

            handle = projection.module.register_forward_pre_hook(take)
            with ready_to_show(model), pytest.raises(AttnlabError, match="mixes its heads"):
                check_apart(found, showing(model))
            handle.remove()


def test_heads_that_are_mixed_are_noticed_in_inference_mode_too() -> None:
    sizes = {"num_attention_heads": 4, "hidden_size": 24, "intermediate_size": 32}
    config = hf.ConvBertConfig(vocab_size=len(TOKENIZER), num_hidden_layers=2, **sizes)
    model = hf.ConvBertForMaskedLM(config).eval()
    with torch.inference_mode():
        evaluator = load_evaluator((model, TOKENIZER), sentences=SENTENCES[:3])
        with pytest.raises(AttnlabError, match="mixes its heads"):
            _ = evaluator.projections
        assert bool(evaluator.losses().isfinite().all())


def test_a_norm_that_all_heads_share_does_not_mix_them() -> None:
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4}
    given = {"vocab_size": 60, "num_hidden_layers": 2, "num_key_value_heads": 2}
    model = hf.BitNetForCausalLM(hf.BitNetConfig(**sizes, **given, pad_token_id=2)).eval()
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        assert len(projections_of(model.to(dtype), showing(model))) == 2


def test_tensors_without_gradients_are_no_traceback() -> None:
    with torch.inference_mode():
        model = random_models.bert().eval()
        found = projections_of(model, showing(model))
    assert len(found) == len(projections_of(model, showing(model))) > 0


@pytest.mark.parametrize("name", ["mobilebert", "bert_decoder", "deberta"])
def test_what_projects_values_is_no_output_projection(name: str) -> None:
    """Also where nothing else reads what values are projected from, as in MobileBERT."""
    model = seeded(ANALYZED[name]).eval()
    ids = TOKENIZER(SENTENCES[0], return_tensors="pt")["input_ids"]
    found = projections_of(model, lambda: model(ids, output_attentions=True))
    names = {module: path for path, module in model.named_modules()}
    assert all(names[one.module].endswith("attention.output.dense") for one in found.values())


@pytest.mark.parametrize("name", ["mpnet", "gpt_oss"])
def test_uniform_is_refused_where_positions_or_sinks_share_in_the_scores(name: str) -> None:
    model = seeded(ANALYZED[name]).eval()
    ids = TOKENIZER(SENTENCES[0], return_tensors="pt")["input_ids"]
    found = projections_of(model, lambda: model(ids, output_attentions=True))
    with (
        pytest.raises(AttnlabError, match="use 'zero' or 'mean'"),
        ablated(found, [Head(*next(iter(found)), 0)], "uniform"),
    ):
        pass
