"""FlexAttention's rule says what the support says; on a GPU its kernel gives the same output."""

import pytest
import torch
from oracles.ragged import ragged
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention.flex_attention import create_mask, flex_attention

from attnlab.attention.kernels import union as flex
from attnlab.attention.kernels.union import Union
from attnlab.attention.mechanism import Context
from attnlab.attention.mechanisms import sparse
from attnlab.attention.mechanisms.sparse import UnionSoftmax
from attnlab.attention.registry import make
from attnlab.core.errors import AttnlabError, InputError

CASES = [
    ("band(window=(3, 1))", False),
    ("band(window=(3, 1))", True),
    ("longformer(window=2, dilation=3, global_tokens=[0, -2])", False),
    ("longformer(window=2, global_tokens=[4])", True),
    ("sigma(window=1, num_pos=2, columns='random')", False),
]


def dense_blocks(
    query: Tensor, key: Tensor, value: Tensor, union: Union, context: Context
) -> Tensor:
    """What the kernel computes, with the rule written out for every pair."""
    rule = flex.rule_of(union, context, key.shape[2])
    mask = create_mask(rule, *query.shape[:3], key.shape[2], device="cpu")
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)


@pytest.mark.parametrize(("spec", "causal"), CASES)
def test_flex_equals_the_dense_form(
    spec: str, causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sparse, "attend_blocks", dense_blocks)
    query, key, value, visible = ragged(67)
    mechanism = make(spec, causal=causal)
    assert isinstance(mechanism, UnionSoftmax)
    for seen in (visible, None):
        out = mechanism.flex(query, key, value, Context(seen))
        expected = mechanism(query, key, value, seen)
        torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)


def test_many_lengths_are_all_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch keeps 8 kernels of a function by default; `fullgraph` makes a ninth an error."""
    kernel = torch.compile(flex_attention, dynamic=False, fullgraph=True, backend="eager")
    monkeypatch.setattr(flex, "_compiled", lambda: kernel)
    for tokens in range(20, 32):
        query, key, value, _ = ragged(tokens)
        with torch.no_grad():
            out = flex.attend_blocks(query, key, value, Union((2, 2)), Context())
        expected = make("band(window=2)")(query, key, value)
        torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)


def test_flex_is_refused_without_a_gpu_and_where_there_is_no_rule() -> None:
    with pytest.raises(InputError, match="no FlexAttention form"):
        make("sigma(window=1, columns='first', extra=1)", form="flex")
    with pytest.raises(
        InputError, match="has no form 'flex'; choose from: 'auto', 'dense', 'fast'"
    ):
        make("bigbird", form="flex")
    query, key, value, visible = ragged(7)
    with pytest.raises(AttnlabError, match="runs on a GPU only"):
        make("band(window=1)", form="flex")(query, key, value, visible)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="the compiled kernel needs a GPU")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("spec", "causal"), CASES)
def test_compiled_flex_equals_the_dense_form(spec: str, causal: bool, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    shape = (2, 2, 300, 64)
    inputs = [
        torch.randn(shape, generator=generator).to("cuda", dtype).requires_grad_() for _ in range(3)
    ]
    visible = (torch.arange(300) < torch.tensor([300, 211])[:, None]).cuda()
    results = {}
    for form in ("flex", "dense"):
        out = make(spec, causal=causal, form=form)(*inputs, visible)
        results[form] = (out, *torch.autograd.grad(out.float().square().sum(), inputs))
    tolerance = 5e-3 if dtype == torch.float32 else 1e-1
    torch.testing.assert_close(results["flex"], results["dense"], rtol=tolerance, atol=tolerance)
