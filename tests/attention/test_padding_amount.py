"""Rule 2 for the amount of padding: before or behind a sentence, it leaves what is real as it was."""

from itertools import pairwise
from typing import Any

import pytest
import torch
from attention_cases import ARRANGED, CAUSAL, CROSS, VOCABULARY, build, can, forms_of
from oracles.ragged import drawn_ids
from torch import Tensor
from torch.nn import functional as F

from attnlab.attention.mechanism import Scoring
from attnlab.attention.mechanisms.softmax import MaskedSoftmax
from attnlab.attention.registry import make
from attnlab.core.errors import AttnlabError

pytestmark = pytest.mark.grid

# So many tokens of padding in front of and behind the three sentences of a batch.
PADDINGS = [
    ((0, 0, 0), (1, 1, 1)),
    ((1, 1, 1), (0, 0, 0)),
    ((0, 1, 5), (5, 4, 0)),
]
LENGTHS = [1, 2, 7, 67]
CLOSE = {"rtol": 0, "atol": 1e-12}


def drawn(tokens: int, seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shape = (3, 2, tokens, 5)
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(3)]


def padded(
    tokens: Tensor, front: tuple[int, ...], behind: tuple[int, ...], content: float
) -> Tensor:
    """Each sentence `[..., token, dim]` between its own amounts of padding."""
    rows = zip(tokens, front, behind, strict=True)
    return torch.stack([F.pad(row, (0, 0, *amounts), value=content) for row, *amounts in rows])


def real_tokens(tokens: int, front: tuple[int, ...], behind: tuple[int, ...]) -> Tensor:
    return padded(torch.ones(3, tokens, 1), front, behind, 0.0)[..., 0].bool()


def ids_between(ids: Tensor, front: tuple[int, ...], behind: tuple[int, ...]) -> Tensor:
    return padded(ids[..., None], front, behind, 0)[..., 0]


def rows_of(out: Tensor, real: Tensor) -> Tensor:
    """The real rows `[batch, head, token, dim]` of each sentence."""
    return torch.stack([row[:, kept] for row, kept in zip(out, real, strict=True)])


def with_gradients(mechanism: Any, inputs: list[Tensor], real: Tensor, **context: Any) -> Any:
    """Real rows of the output, and the gradients of their weighted sum."""
    leaves = [tensor.requires_grad_() for tensor in inputs]
    out = rows_of(mechanism(*leaves, **context), real)
    weights = torch.arange(out.numel(), dtype=out.dtype).view(out.shape).cos()
    found = torch.autograd.grad(out, leaves, weights, allow_unused=True)
    return out.detach(), [
        torch.zeros_like(leaf) if part is None else part
        for leaf, part in zip(leaves, found, strict=True)
    ]


@pytest.mark.parametrize("tokens", LENGTHS)
@pytest.mark.parametrize(("spec", "causal"), ARRANGED)
def test_padding_around_a_sentence_changes_nothing(spec: str, causal: bool, tokens: int) -> None:
    inputs, ids = drawn(tokens), drawn_ids(tokens, VOCABULARY)
    whole = torch.ones(3, tokens, dtype=torch.bool)
    for form in forms_of(spec):
        mechanism = build(spec, causal=causal, form=form)
        expected, expected_found = with_gradients(
            mechanism, [x.clone() for x in inputs], whole, token_ids=ids
        )
        matrix = mechanism.implied_matrix(*inputs[:2], token_ids=ids)
        for front, behind in PADDINGS:
            real = real_tokens(tokens, front, behind)
            context = {"visible": real, "token_ids": ids_between(ids, front, behind)}
            around = [padded(x, front, behind, 3.0) for x in inputs]
            out, found = with_gradients(mechanism, around, real, **context)
            torch.testing.assert_close(out, expected, **CLOSE)
            for part, expected_part in zip(found, expected_found, strict=True):
                torch.testing.assert_close(rows_of(part, real), expected_part, **CLOSE)
            rows = rows_of(mechanism.implied_matrix(*around[:2], **context), real)
            between = rows_of(rows.mT, real).mT
            torch.testing.assert_close(between, matrix, **CLOSE)
            torch.testing.assert_close(rows.sum(-1), between.sum(-1), **CLOSE)
            if isinstance(mechanism, MaskedSoftmax):
                support = mechanism.support(*around[:2], **context)
                assert torch.equal(rows_of(support, real), rows > 0)


@pytest.mark.parametrize("tokens", LENGTHS)
@pytest.mark.parametrize("spec", CROSS)
def test_padding_around_keys_changes_nothing_in_cross_attention(spec: str, tokens: int) -> None:
    query, (_, key, value) = drawn(9, seed=1)[0], drawn(tokens)
    ids, rows = drawn_ids(tokens, VOCABULARY), torch.ones(3, 9, dtype=torch.bool)
    for form in forms_of(spec):
        mechanism = build(spec, cross=True, form=form)
        expected, expected_found = with_gradients(
            mechanism, [query.clone(), key.clone(), value.clone()], rows, token_ids=ids
        )
        matrix = mechanism.implied_matrix(query, key, token_ids=ids)
        for front, behind in PADDINGS:
            real = real_tokens(tokens, front, behind)
            context = {"visible": real, "token_ids": ids_between(ids, front, behind)}
            around = [padded(x, front, behind, 3.0) for x in (key, value)]
            out, found = with_gradients(mechanism, [query.clone(), *around], rows, **context)
            torch.testing.assert_close(out, expected, **CLOSE)
            torch.testing.assert_close(found[0], expected_found[0], **CLOSE)
            for part, expected_part in zip(found[1:], expected_found[1:], strict=True):
                torch.testing.assert_close(rows_of(part, real), expected_part, **CLOSE)
            padded_matrix = mechanism.implied_matrix(query, around[0], **context)
            torch.testing.assert_close(rows_of(padded_matrix.mT, real).mT, matrix, **CLOSE)
            step = mechanism(query[:, :, 5:6], *around, first_query=5, **context)
            torch.testing.assert_close(step, expected[:, :, 5:6], **CLOSE)


@pytest.mark.parametrize("tokens", LENGTHS)
@pytest.mark.parametrize("spec", [spec for spec in CAUSAL if can(spec, "cached")])
def test_padding_around_a_sentence_changes_nothing_behind_a_cache(spec: str, tokens: int) -> None:
    inputs, ids = drawn(tokens), drawn_ids(tokens, VOCABULARY)
    for form in forms_of(spec):
        mechanism = build(spec, causal=True, form=form)
        expected = mechanism(*inputs, token_ids=ids)
        for front, behind in PADDINGS:
            real = real_tokens(tokens, front, behind)
            ids_around = ids_between(ids, front, behind)
            query, key, value = (padded(x, front, behind, 3.0) for x in inputs)
            pieces = []
            bounds = sorted(
                {0, *(step for step in (3, 4, 6) if step < real.shape[1]), real.shape[1]}
            )
            for first, last in pairwise(bounds):
                pieces.append(
                    mechanism(
                        query[:, :, first:last],
                        key[:, :, :last],
                        value[:, :, :last],
                        real[:, :last],
                        first_query=first,
                        token_ids=ids_around[:, :last],
                    )
                )
            found = rows_of(torch.cat(pieces, 2), real)
            torch.testing.assert_close(found, expected, **CLOSE)


@pytest.mark.parametrize("bias_heads", [1, 2])
@pytest.mark.parametrize("spec", ["band(window=2)", "sigma(window=1, columns='random', extra=2)"])
def test_a_bias_follows_its_keys_in_cross_attention(spec: str, bias_heads: int) -> None:
    query, (_, key, value) = drawn(9, seed=1)[0], drawn(7)
    generator = torch.Generator().manual_seed(2)
    bias = torch.randn(3, bias_heads, 9, 7, generator=generator, dtype=torch.float64)
    mechanism = make(spec, cross=True, heads=2).double().eval()
    expected = mechanism(query, key, value, bias=bias)
    for front, behind in PADDINGS:
        around = [padded(x, front, behind, 3.0) for x in (key, value)]
        columns = torch.stack(
            [
                F.pad(row, amounts, value=9.0)
                for row, *amounts in zip(bias, front, behind, strict=True)
            ]
        )
        out = mechanism(query, *around, real_tokens(7, front, behind), bias=columns)
        torch.testing.assert_close(out, expected, **CLOSE)


def pairs_between(
    pairs: Tensor, front: tuple[int, ...], behind: tuple[int, ...], rows: bool
) -> Tensor:
    """`[batch, head, query, key]` with padding around its keys, and around its queries where asked."""
    sides = zip(pairs, front, behind, strict=True)
    return torch.stack(
        [F.pad(row, (*amounts, *(amounts if rows else ())), value=1) for row, *amounts in sides]
    )


@pytest.mark.parametrize(
    ("spec", "cross"), [("band(window=2)", True), ("bigbird(block=2, random=1)", False)]
)
def test_what_a_model_says_of_pairs_follows_their_tokens(spec: str, cross: bool) -> None:
    inputs, generator = drawn(17), torch.Generator().manual_seed(2)
    bias = torch.randn(3, 2, 17, 17, generator=generator, dtype=torch.float64)
    allowed = (torch.rand(3, 1, 17, 17, generator=generator) < 0.7) | torch.eye(17).bool()
    mechanism: Any = make(spec, cross=cross, heads=2).double().eval()
    expected = mechanism(*inputs, bias=bias, scoring=Scoring(allowed))
    front, behind = PADDINGS[2]
    real = real_tokens(17, front, behind)
    around = [padded(x, front, behind, 3.0) for x in inputs]
    bias, allowed = (pairs_between(x, front, behind, not cross) for x in (bias, allowed))
    query = inputs[0] if cross else around[0]
    out = mechanism(query, *around[1:], real, bias=bias, scoring=Scoring(allowed))
    torch.testing.assert_close(out if cross else rows_of(out, real), expected, **CLOSE)


def test_blocks_of_some_queries_behind_padding_are_refused() -> None:
    query, key, value = drawn(9)
    visible = torch.arange(9).expand(3, -1) >= 2
    with pytest.raises(AttnlabError, match="the queries of all its tokens at once"):
        make("bigbird(block=2)", heads=2)(query[:, :, 3:], key, value, visible, first_query=3)
