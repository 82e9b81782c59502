"""Contributions: the length of each weighted value behind the output projection, of every family and site."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers as hf
from grids import first
from oracles.contributions import contributions, shares
from reading.test_families import with_eager_twin
from torch import Tensor
from transformers.pytorch_utils import Conv1D
from zoo.analyzed import ANALYZED, TWINS
from zoo.random_models import ALL, IDS, PAIRS, SENTENCES, TYPES, seeded, tokenizer

import attnlab
from attnlab.attention import use
from attnlab.core.errors import InputError
from attnlab.models.configuration import TranslationConfig
from attnlab.models.model import TranslationModel
from attnlab.reading.capture import capture
from attnlab.reading.passes import prepare
from attnlab.reading.reading_notes import ContributionsRead

TOKENIZER = tokenizer()
OWN = tokenizer(specials=["<pad>", "<unk>", "<s>", "</s>"])
_BART = {
    "encoder": ("model.encoder.layers.{}.self_attn.v_proj", "model.encoder.layers.{}.self_attn.out_proj"),
    "decoder": ("model.decoder.layers.{}.self_attn.v_proj", "model.decoder.layers.{}.self_attn.out_proj"),
    "cross": ("model.decoder.layers.{}.encoder_attn.v_proj", "model.decoder.layers.{}.encoder_attn.out_proj"),
}  # fmt: skip
# By family and site: what makes the values of a layer, and what projects the heads.
MODULES: dict[str, dict[str, tuple[str, str]]] = {
    "bert": {"encoder": ("encoder.layer.{}.attention.self.value", "encoder.layer.{}.attention.output.dense")},
    "distilbert": {
        "encoder": ("transformer.layer.{}.attention.v_lin", "transformer.layer.{}.attention.out_lin"),
    },
    "gpt2": {"decoder": ("transformer.h.{}.attn.c_attn", "transformer.h.{}.attn.c_proj")},
    "llama": {"decoder": ("model.layers.{}.self_attn.v_proj", "model.layers.{}.self_attn.o_proj")},
    "grouped": {"decoder": ("model.layers.{}.self_attn.v_proj", "model.layers.{}.self_attn.o_proj")},
    "marian": _BART,
    "bart": _BART,
    "t5": {
        "encoder": ("encoder.block.{}.layer.0.SelfAttention.v", "encoder.block.{}.layer.0.SelfAttention.o"),
        "decoder": ("decoder.block.{}.layer.0.SelfAttention.v", "decoder.block.{}.layer.0.SelfAttention.o"),
        "cross": ("decoder.block.{}.layer.1.EncDecAttention.v", "decoder.block.{}.layer.1.EncDecAttention.o"),
    },
    "own": {
        "encoder": ("encoder.layers.{}.attention.value", "encoder.layers.{}.attention.output"),
        "decoder": ("decoder.layers.{}.attention.value", "decoder.layers.{}.attention.output"),
        "cross": ("decoder.layers.{}.cross.value", "decoder.layers.{}.cross.output"),
    },
}  # fmt: skip


def own() -> TranslationModel:
    config = TranslationConfig(
        vocab_size=TYPES, dim=15, heads=5, encoder_layers=2, decoder_layers=2, feed_forward=11
    )
    return seeded(lambda: TranslationModel(config))


def grouped() -> hf.PreTrainedModel:
    """Of four query heads two share a key head each."""
    config = hf.LlamaConfig(
        vocab_size=TYPES, hidden_size=16, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=2, intermediate_size=11, max_position_embeddings=37, **IDS,
    )  # fmt: skip
    return seeded(lambda: hf.LlamaForCausalLM(config))


BUILD = ALL | {"own": own, "grouped": grouped}


def built(name: str) -> tuple[Any, Any]:
    """A model in float64 with biases of values and projections, and its tokenizers."""
    model = BUILD[name]().double().eval()
    for number, (path, parameter) in enumerate(model.named_parameters()):
        if path.endswith("bias"):
            parameter.data = (
                torch.linspace(-1, 1, parameter.numel(), dtype=torch.double) + number % 3
            )
    return model, SimpleNamespace(source=OWN, target=OWN) if name == "own" else TOKENIZER


def inputs(model: Any, text: Any, reads: Any) -> dict[str, Any]:
    """One text as the model reads it."""
    if isinstance(text, str):
        return {"input_ids": torch.tensor([reads(text)["input_ids"]])}
    source, target = (torch.tensor([reads(side)["input_ids"]]) for side in text)
    if reads is not OWN:
        start = model.config.decoder_start_token_id
        target = torch.cat([torch.tensor([[start]]), target], 1)
    return {"input_ids": source, "decoder_input_ids": target[:, :-1], "use_cache": False}


def by_loops(model: Any, name: str, text: Any, reads: Any) -> dict[tuple[str, int], Tensor]:
    """Contributions in one text, from the outputs of modules that are known by name."""
    if name != "own":
        model.set_attn_implementation("eager")
    modules, noted, found = dict(model.named_modules()), dict[str, Tensor](), {}
    ways = {
        (site, layer): (value.format(layer), projection.format(layer))
        for site, (value, projection) in MODULES[name].items()
        for layer in range(9)
        if value.format(layer) in modules
    }
    hooks = [
        modules[path].register_forward_hook(
            lambda _, __, out, path=path: noted.update({path: out[0]})
        )
        for path, _ in ways.values()
    ]
    with torch.no_grad():
        given = inputs(model, text, reads)
        outputs = model(**given, output_attentions=True, return_dict=True)
    for hook in hooks:
        hook.remove()
    for (site, layer), (path, projection) in ways.items():
        shown = outputs.get(f"{site}_attentions", outputs.get("attentions"))[layer][0]
        matrix = modules[projection].weight
        matrix = matrix if isinstance(modules[projection], Conv1D) else matrix.T
        parts = matrix.unflatten(0, (len(shown), -1))
        values = noted[path]
        values = values[:, -matrix.shape[0] :] if name == "gpt2" else values
        values = values.unflatten(-1, (-1, parts.shape[1])).transpose(0, 1)
        group = len(shown) // len(values)
        found[site, layer] = torch.tensor(
            [
                contributions(
                    weights.tolist(), values[head // group].tolist(), parts[head].tolist()
                )
                for head, weights in enumerate(shown)
            ],
            dtype=torch.double,
        )
    return found


@pytest.mark.parametrize("name", MODULES)
def test_contributions_are_those_of_plain_loops(name: str) -> None:
    model, reads = built(name)
    texts = (PAIRS if "cross" in MODULES[name] else SENTENCES)[:3]
    seen: dict[tuple[int, str, int], tuple[Tensor, Tensor]] = {}

    class Seen:
        def update(self, layer: Any) -> None:
            for place, number in enumerate(layer.sentences):
                queries, keys = (
                    int(side.real[place].sum()) for side in (layer.queries, layer.keys)
                )
                seen[number, layer.site, layer.layer] = (
                    layer.weights[place, :, :queries, :keys], layer.contribution[place, :, :queries],
                )  # fmt: skip

    before = model.config._attn_implementation
    prepare((model, reads), texts, weights="contribution").feed([Seen()])
    assert model.config._attn_implementation == before
    # These take the softmax in float32, whatever they compute in.
    exact, checked = (2e-6 if name in {"llama", "grouped", "t5"} else 1e-10), 0
    for number, text in enumerate(texts):
        expected = by_loops(model, name, text, OWN if name == "own" else TOKENIZER)
        for (site, layer), sizes in expected.items():
            rows, sums = seen[number, site, layer]
            of_loops = torch.tensor([shares(head.tolist()) for head in sizes], dtype=torch.double)
            torch.testing.assert_close(rows, of_loops, atol=exact, rtol=exact)
            torch.testing.assert_close(sums, sizes.sum(-1), atol=exact, rtol=exact)
            checked += 1
    assert checked == len(seen) == len(texts) * sum(map(len, by_site(seen).values()))


def by_site(seen: Mapping[tuple[int, str, int], Any]) -> dict[str, set[int]]:
    sites: dict[str, set[int]] = {}
    for _, site, layer in seen:
        sites.setdefault(site, set()).add(layer)
    return sites


# Families that compute attention inside their own modules.
WITHOUT = {
    "falcon", "falcon-alibi", "gptj", "gpt_neo", "bloom", "mpt", "mpnet", "deberta", "deberta_v2",
    "roformer", "xlnet", "xlm", "flaubert", "openai_gpt", "xglm", "codegen", "rembert", "fsmt",
}  # fmt: skip


def of_gradients(
    model: Any, projection: torch.nn.Module, hook: Any, given: Mapping[str, Any]
) -> Tensor:
    """c_ij of one layer, where d output_i / d a_ij is the projected value of key j."""
    outs, weights = list[Tensor](), list[Tensor]()
    handles = [
        projection.register_forward_hook(lambda _, __, out: outs.append(out)),
        hook.module.register_forward_hook(lambda _, __, out: weights.append(out[hook.index])),
    ]
    model(**given, output_attentions=True, return_dict=True)
    for handle in handles:
        handle.remove()
    out = outs[0].flatten(0, -2)
    squares = sum(
        torch.autograd.grad(out[:, dim].sum(), weights[0], retain_graph=True)[0] ** 2
        for dim in range(out.shape[-1])
    )
    return (weights[0] * squares.sqrt())[0].detach()


@pytest.mark.grid
@pytest.mark.parametrize("name", first(ANALYZED, but=TWINS))
def test_contributions_of_every_family_are_those_of_gradients_or_refused(name: str) -> None:
    model, plain = with_eager_twin(name)
    text = PAIRS[0] if model.config.is_encoder_decoder else SENTENCES[0]
    if name in WITHOUT:
        with pytest.raises(InputError, match=type(model).__name__):
            prepare((model, TOKENIZER), [text], weights="contribution")
        return
    found: dict[tuple[str, int], Tensor] = {}

    class Seen:
        def update(self, layer: Any) -> None:
            found[layer.site, layer.layer] = layer.weights[0] * layer.contribution[0, :, :, None]

    reading = prepare((model, TOKENIZER), [text], weights="contribution")
    reading.feed([Seen()])
    twin = reading.by(plain)
    for hook in twin.attention_sites.hooks:
        if hook.call == 0:
            projection = twin.values[hook.site, hook.layer].projection
            expected = of_gradients(plain, projection, hook, inputs(plain, text, TOKENIZER))
            torch.testing.assert_close(found[hook.site, hook.layer], expected, atol=3e-5, rtol=1e-3)


@pytest.mark.parametrize("name", ["llama", "marian", "own"])
def test_selected_heads_and_rows_are_those_of_whole_matrices(name: str) -> None:
    model, reads = built(name)
    texts = (SENTENCES if name == "llama" else PAIRS)[:3]
    given = {"weights": "contribution", "keep_matrices": 9}
    whole = capture((model, reads), texts, **given)
    some = capture((model, reads), texts, layers=[1], heads=[0, 2], rows=[1, 3], **given)
    assert some.kept.matrices
    for at, matrix in some.kept.matrices.items():
        expected = whole.kept.matrices[at][[0, 2]][:, [1, 3]]
        torch.testing.assert_close(matrix, expected)
    table = some.table.set_index(["site", "layer", "head"])
    assert table["contribution"].notna().all()
    assert {*table.index.get_level_values("head")} == {0, 2}


def test_padding_batches_and_half_precision_change_nothing_but_rounding() -> None:
    model = ALL["llama"]().eval()
    alone = capture((model, TOKENIZER), SENTENCES, batch_size=1, weights="contribution").table
    together = capture((model, TOKENIZER), SENTENCES, weights="contribution").table
    half = capture((model.bfloat16(), TOKENIZER), SENTENCES, weights="contribution").table
    columns = ["contribution", "mass_on_first", "weight_on_first", "entropy_nats"]
    torch.testing.assert_close(
        torch.tensor(together[columns].to_numpy()), torch.tensor(alone[columns].to_numpy())
    )
    assert ((half[columns] - alone[columns]).abs() < 0.05 * alone[columns].abs() + 0.02).all().all()


def test_a_norm_behind_the_projection_is_told_and_a_gate_before_it_refused() -> None:
    for name, normed in (("olmo2", True), ("gemma2", True), ("llama", False)):
        model = seeded((ALL | ANALYZED)[name]), TOKENIZER
        found = capture(model, SENTENCES[:2], weights="contribution")
        assert ContributionsRead(normed=normed) in found.notes
    model = seeded(ALL["llama"])
    projection = model.model.layers[1].self_attn.o_proj
    projection.register_forward_pre_hook(lambda _, given: (given[0].sigmoid() * given[0],))
    with pytest.raises(
        InputError, match=r"LlamaForCausalLM: in decoder.1 no linear .* a gate or a norm"
    ):
        capture((model, TOKENIZER), SENTENCES[:2], weights="contribution")


class Adapted(torch.nn.Module):
    def __init__(self, base: torch.nn.Module) -> None:
        super().__init__()
        self.base, self.down = base, torch.nn.Linear(15, 2)
        self.up = torch.nn.Linear(2, 15)

    def forward(self, heads: Tensor) -> Tensor:
        return self.base(heads) + self.up(self.down(heads))


class Wrapped(torch.nn.Module):
    """As an adapter that is merged."""

    def __init__(self, base: torch.nn.Linear) -> None:
        super().__init__()
        self.base, self.in_features = base, base.in_features

    def forward(self, heads: Tensor) -> Tensor:
        return self.base(heads)


class Quantized(torch.nn.Module):
    def __init__(self, base: torch.nn.Linear, kind: torch.dtype = torch.int8) -> None:
        super().__init__()
        self.in_features, self.bias, self.scale = base.in_features, base.bias, 2**-9
        whole = (base.weight / self.scale).round().to(kind)
        self.weight = torch.nn.Parameter(whole, requires_grad=False)

    def forward(self, heads: Tensor) -> Tensor:
        return torch.nn.functional.linear(heads, self.weight.float() * self.scale, self.bias)


def of_float8(base: torch.nn.Linear) -> torch.nn.Linear:
    """As transformers' `FP8Linear`, which is a linear module of torch."""
    base.weight = torch.nn.Parameter(base.weight.to(torch.float8_e4m3fn), requires_grad=False)
    base.forward = lambda heads: torch.nn.functional.linear(heads, base.weight.float(), base.bias)
    return base


@pytest.mark.parametrize(
    ("put_in", "refusal"),
    [
        (Adapted, "in encoder.0 no linear module alone reads"),
        (Quantized, "the output projection of encoder.0 .* as where it is quantized"),
        (lambda base: Adapted(Quantized(base)), "the output projection of encoder.0 .* quantized"),
        (partial(Quantized, kind=torch.float32), "the output projection of encoder.0 is no plain"),
        (of_float8, "the output projection of encoder.0 .* quantized"),
    ],
    ids=["adapter", "quantized", "adapter of a quantized one", "scaled", "float8"],
)
def test_a_projection_without_one_matrix_is_refused(put_in: Any, refusal: str) -> None:
    model = seeded(ALL["bert"])
    part = model.encoder.layer[0].attention.output
    part.dense = put_in(part.dense)
    with pytest.raises(InputError, match=f"BertModel: {refusal}"):
        capture((model, TOKENIZER), SENTENCES[:2], weights="contribution")


def test_a_module_around_the_projection_changes_nothing() -> None:
    model = seeded(ALL["bert"])
    expected = capture((model, TOKENIZER), SENTENCES[:2], weights="contribution").table
    part = model.encoder.layer[0].attention.output
    part.dense = Wrapped(part.dense)
    found = capture((model, TOKENIZER), SENTENCES[:2], weights="contribution").table
    assert found.equals(expected)


@pytest.mark.parametrize("name", ["bert", "llama", "marian"])
def test_full_attention_that_was_put_in_gives_the_same(name: str) -> None:
    model = ALL[name]().eval()
    texts = (PAIRS if name == "marian" else SENTENCES)[:3]
    given = {"weights": "contribution", "keep_matrices": 9}
    before = capture((model, TOKENIZER), texts, **given).kept.matrices
    with use(model, "full"):
        again = capture((model, TOKENIZER), texts, **given).kept.matrices
    for at, matrix in before.items():
        torch.testing.assert_close(again[at], matrix, atol=1e-5, rtol=1e-4)


def test_a_recurrent_model_contributes_its_states(recurrent_run: Path) -> None:
    given = {"sites": ["cross"], "keep_matrices": 1}
    run = attnlab.load(recurrent_run)
    weights = attnlab.capture(run, PAIRS[:1], **given)["cross.0.0"][0]
    shares = attnlab.capture(run, PAIRS[:1], weights="contribution", **given)["cross.0.0"][0]
    sizes = shares / weights
    # The same key is as long in each row, up to the sum of the row.
    torch.testing.assert_close(
        sizes / sizes.sum(1, keepdim=True),
        (sizes / sizes.sum(1, keepdim=True))[:1].expand_as(sizes),
    )
    assert not torch.allclose(shares, weights)
