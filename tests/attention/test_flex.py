"""FlexAttention's rule says what the supports of all heads say; its output is that of the masks."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from attention_cases import VOCABULARY, build
from oracles.ragged import drawn_ids, ragged
from torch import Tensor
from torch.nn.attention.flex_attention import create_mask, flex_attention
from zoo.bridged import ids, model, put_in

from attnlab.attention.bridge.installing import install
from attnlab.attention.kernels import block_masks
from attnlab.attention.mechanism import CallContext, Context, Scoring
from attnlab.attention.mechanisms.softmax import MaskedSoftmax
from attnlab.attention.multihead import PerHead, attend_layer
from attnlab.attention.registry import make
from attnlab.core.errors import AttnlabError, InputError

SPECS = [
    "full",
    "none",
    "band(window=(3, 1))",
    "longformer(window=2, dilation=3, global_tokens=[0, -2])",
    "longformer(window=0, global_tokens=[4])",
    "sigma(window=1, num_pos=2, columns='random', extra=2)",
    "sigma(window=1, num_pos=2, columns='first')",
    "sigma(window=1, num_pos=2, columns='salience')",
    "sigma(window=(2, 1), num_pos=0, extra=2, entries='offsets')",
    "keys(offsets=(-4, -1))",
    "keys(offsets=(-3, 0), first=1, last=2)",
    "keys(offsets=(-6,), first=2)",
    "keys(tokens=(1, 5))",
    "keys(offsets=(-2,), tokens=(3, 7), reach=2)",
]
TOKENS = 19
CLOSE = {"rtol": 0, "atol": 1e-12}


def parts(causal: bool, cross: bool = False) -> list[Any]:
    """Every mechanism that has a form for the site."""
    made = []
    for spec in SPECS:
        try:
            made.append(build(spec, causal=causal, cross=cross, form="flex"))
        except InputError:
            assert causal or cross
    assert len(made) >= 9
    return made


def layer(some: Sequence[Any]) -> PerHead:
    """Two heads of each mechanism, which stand apart from each other."""
    count = len(some)
    return PerHead([([head, head + count], part) for head, part in enumerate(some)])


def inputs(heads: int, queries: int = TOKENS) -> tuple[Tensor, Tensor, Tensor]:
    """Queries of all heads, keys and values of half as many."""
    generator = torch.Generator().manual_seed(3)
    shapes = ((2, heads, queries, 5), (2, heads // 2, TOKENS, 5), (2, heads // 2, TOKENS, 5))
    return tuple(torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes)


VISIBLE: dict[str, Tensor | None] = {
    "all real": None,
    "padding behind": torch.arange(TOKENS) < torch.tensor([TOKENS, 11])[:, None],
    "padding in front": torch.arange(TOKENS) >= torch.tensor([0, 6])[:, None],
}


@pytest.mark.parametrize("padding", VISIBLE)
@pytest.mark.parametrize(("causal", "first"), [(False, 0), (True, 0), (True, 12)])
def test_the_rule_is_the_support_of_each_head(causal: bool, first: int, padding: str) -> None:
    some, visible = parts(causal), VISIBLE[padding]
    query, key, _ = inputs(2 * len(some), TOKENS - first)
    told: CallContext = {"first_query": first, "token_ids": drawn_ids(TOKENS, VOCABULARY)[:2]}
    mechanism, context = layer(some), Context(visible, **told)
    rule, batch = block_masks.rule_of(mechanism.parts(), query, key, context)
    found = create_mask(rule, batch, *query.shape[1:3], TOKENS, device="cpu")
    rows = (
        torch.ones(2, TOKENS - first, dtype=torch.bool) if visible is None else visible[:, first:]
    )
    for heads, part in mechanism.parts():
        own = key[:, :2]
        if isinstance(part, MaskedSoftmax):
            expected = part.support(query[:, heads], own, visible, **told)
        else:
            expected = torch.zeros(2, 2, TOKENS - first, TOKENS, dtype=torch.bool)
        same = found[:, heads].expand_as(expected) == expected
        assert bool((same | ~rows[:, None, :, None]).all()), str(part.spec)


@pytest.mark.parametrize("padding", VISIBLE)
@pytest.mark.parametrize("cross", [False, True])
def test_one_call_of_a_layer_gives_what_its_heads_give(cross: bool, padding: str) -> None:
    some, visible = parts(False, cross), VISIBLE[padding]
    query, key, value = inputs(2 * len(some))
    told: CallContext = {"token_ids": drawn_ids(TOKENS, VOCABULARY)[:2]}
    allowed = torch.rand(2, 1, TOKENS, TOKENS, generator=torch.Generator().manual_seed(1)) < 0.7
    repeated = (key.repeat_interleave(2, 1), value.repeat_interleave(2, 1))
    for scoring in (None, Scoring(allowed)):
        dense = [build(str(part.spec), cross=cross) for part in some]
        expected = layer(dense)(query, *repeated, visible, **told, scoring=scoring)
        found = attend_layer(layer(some), query, key, value, visible, **told, scoring=scoring)
        if cross and padding == "padding in front":
            assert found is None
            continue
        rows = torch.ones(2, TOKENS, dtype=torch.bool) if visible is None or cross else visible
        torch.testing.assert_close(
            found.transpose(1, 2)[rows], expected.transpose(1, 2)[rows], **CLOSE
        )


def test_a_layer_without_the_form_or_with_other_scores_is_left_to_its_mechanism() -> None:
    query, key, value = inputs(2)
    mixed = PerHead([([0], make("band(window=1)", form="flex")), ([1], make("topk(k=2)"))])
    assert attend_layer(mixed, query, key, value) is None
    assert attend_layer(make("band(window=1)"), query, key, value) is None
    band = make("band(window=1)", form="flex")
    for scoring in (Scoring(softcap=2.0), Scoring(sinks=torch.zeros(2))):
        assert attend_layer(band, query, key, value, scoring=scoring) is None
    assert attend_layer(band, query, key, value, bias=torch.zeros(1, 2, TOKENS, TOKENS)) is None


def test_masks_are_kept_by_length_and_only_where_positions_decide(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = []
    plain = block_masks.rule_of
    monkeypatch.setattr(block_masks, "rule_of", lambda *given: made.append(1) or plain(*given))
    block_masks._MASKS.clear()
    some = [build("band(window=(3, 1))", form="flex"), build("keys(first=1, last=1)", form="flex")]
    query, key, value = inputs(4)
    counts = []
    for tokens, visible in ((19, None), (19, None), (7, None), (19, VISIBLE["padding behind"])):
        attend_layer(layer(some), query[:, :, :tokens], key, value, visible)
        counts.append(len(made))
    assert counts == [1, 1, 2, 3]
    by_token = build("keys(tokens=(1, 5))", form="flex")
    for seed in (0, 1):
        attend_layer(
            by_token, query, key, value, token_ids=drawn_ids(TOKENS, VOCABULARY)[:2] + seed
        )
    assert len(made) == 5
    for length in range(1, block_masks.MASKS + 3):
        attend_layer(some[0], query[:, :, :1], key[:, :, :1], value[:, :, :1], first_query=length)
    assert len(block_masks._MASKS) == block_masks.MASKS


def test_a_kept_mask_serves_batches_of_its_own_size_alone() -> None:
    """The first keys stand in the mask once for each sentence."""
    block_masks._MASKS.clear()
    first = build("keys(first=2)", form="flex")
    for sentences in (1, 3, 2):
        given = [x[:1].expand(sentences, -1, -1, -1) for x in inputs(2)]
        found = attend_layer(first, *given)
        expected = build("keys(first=2)", form="dense")(
            *given[:1], *(x.repeat_interleave(2, 1) for x in given[1:])
        )
        torch.testing.assert_close(found, expected, **CLOSE)


def test_a_mask_that_is_first_made_in_inference_mode_serves_training() -> None:
    """Autograd refuses tensors of inference mode, which the kernel of a GPU keeps for its backward pass."""
    block_masks._MASKS.clear()
    some = [build("band(window=(3, 1))", form="flex"), build("keys(first=1, last=1)", form="flex")]
    with torch.inference_mode():
        attend_layer(layer(some), *inputs(4))
    (mask,) = block_masks._MASKS.values()
    captured = [cell.cell_contents for cell in closures(mask.mask_mod)]
    tensors = [x for x in (*vars(mask).values(), *captured) if isinstance(x, Tensor)]
    assert len(tensors) > 4
    assert not any(tensor.is_inference() for tensor in tensors)


def closures(function: Any) -> list[Any]:
    """The cells of a function and of those within it."""
    cells = list(getattr(function, "__closure__", None) or ())
    return cells + [inner for cell in cells for inner in closures(cell.cell_contents)]


PLAN = {
    "decoder.0": "sigma(window=(2, 0), num_pos=1, columns='first')",
    "decoder.0.1": "full",
    "decoder.1.0": "longformer(window=1, dilation=2)",
    "decoder.1.1": "keys(offsets=(-3, 0), tokens=(5, 9, 30), reach=4)",
    "decoder.1.2": "none",
}


@pytest.mark.parametrize("name", ["llama", "gpt2", "mistral"])
@torch.no_grad()
def test_an_installed_plan_is_one_call_a_layer_and_gives_what_its_masks_give(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = model(name).float()
    heads = random.config.num_attention_heads
    plan = {at: spec for at, spec in PLAN.items() if at.count(".") < 2 or int(at[-1]) < heads}
    given = {"input_ids": ids(3, 9), "attention_mask": torch.ones(3, 9, dtype=torch.long)}
    given["attention_mask"][1, :4] = 0
    put_in(random, plan).remove()
    results, calls = [], []
    plain = flex_attention

    def noted(query: Tensor, key: Tensor, *more: Any, **options: Any) -> Tensor:
        calls.append((query.shape[1], key.shape[1]))
        return plain(query, key, *more, **options)

    monkeypatch.setattr(block_masks.flex, "flex_attention", noted)
    for form in ("auto", "flex"):
        installed = install(random, plan, form=form)
        results.append(random(**given, use_cache=False).logits[given["attention_mask"].bool()])
        installed.remove()
    torch.testing.assert_close(results[1], results[0], rtol=1e-5, atol=1e-5)
    assert calls == [(heads, getattr(random.config, "num_key_value_heads", heads))] * 2


def test_what_has_no_form_is_refused_and_gradients_on_a_cpu() -> None:
    with pytest.raises(InputError, match="has no form 'flex'; choose from: 'auto', 'dense'"):
        install(model("llama"), "topk(k=2)", form="flex")
    query, key, value = inputs(2)
    band = make("band(window=1)", form="flex")
    with pytest.raises(AttnlabError, match="no gradients on a CPU"):
        band(query.requires_grad_(), key.expand(-1, 2, -1, -1), value.expand(-1, 2, -1, -1))
    with torch.no_grad(), pytest.raises(AttnlabError, match="no dropout of weights"):
        make("band(window=1)", form="flex", dropout=0.5)(query, query, query)


@pytest.mark.slow
def test_many_lengths_are_all_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch keeps 8 kernels of a function by default; `fullgraph` makes a ninth an error."""
    kernel = torch.compile(flex_attention, dynamic=False, fullgraph=True, backend="eager")
    monkeypatch.setattr(block_masks.flex, "flex_attention", kernel)
    monkeypatch.setattr(block_masks, "_uncompiled", lambda _: torch.no_grad())
    band = make("band(window=2)", form="flex")
    for tokens in range(20, 32):
        query, key, value, _ = ragged(tokens)
        found = attend_layer(band, query, key, value)
        torch.testing.assert_close(found, make("band(window=2)")(query, key, value), **CLOSE)


@pytest.mark.parametrize("dim", [5, 16, 20])
def test_short_vectors_are_widened_for_the_compiled_kernel(
    dim: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Triton multiplies no matrices of fewer than 16 columns."""
    generator = torch.Generator().manual_seed(3)
    query, key, value = torch.randn(3, 2, 4, 9, dim, generator=generator, dtype=torch.float64)
    value = value[..., :4]
    widths = []

    def kernel(*given: Tensor, **named: Any) -> Tensor:
        widths.extend(x.shape[-1] for x in given)
        return flex_attention(*given, **named)

    monkeypatch.setattr(block_masks, "_compiled", lambda: kernel)
    # Called without a compiler on purpose.
    monkeypatch.setattr(block_masks.flex, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)
    found = block_masks._compiled_on_wide(query, key, value)
    torch.testing.assert_close(found, flex_attention(query, key, value), **CLOSE)
    assert widths == [max(dim, 16), max(dim, 16), 16]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="the compiled kernel needs a GPU")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("causal", [False, True])
def test_the_compiled_kernel_equals_the_dense_form(causal: bool, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    some = [part for part in parts(causal) if not getattr(part, "uses_tokens", False)]
    shapes = [(2, heads, 300, 64) for heads in (2 * len(some), len(some), len(some))]
    given = [
        torch.randn(shape, generator=generator).to("cuda", dtype).requires_grad_()
        for shape in shapes
    ]
    visible = (torch.arange(300) < torch.tensor([300, 211])[:, None]).cuda()
    dense = layer([build(str(part.spec), causal=causal) for part in some]).to("cuda", dtype)
    query, key, value = given
    results = []
    for out in (
        attend_layer(layer(some).to("cuda", dtype), query, key, value, visible),
        dense(query, key.repeat_interleave(2, 1), value.repeat_interleave(2, 1), visible),
    ):
        real = out * visible[:, None, :, None]
        results.append((real, *torch.autograd.grad(real.float().square().sum(), given)))
    tolerance = 5e-3 if dtype == torch.float32 else 1e-1
    torch.testing.assert_close(results[0], results[1], rtol=tolerance, atol=tolerance)
