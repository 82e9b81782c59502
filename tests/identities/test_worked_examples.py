"""Worked examples of the sources with their right values, and the right form of misprinted equations."""

import cmath
import math
from itertools import product

import pytest
import torch
from zoo import random_models

from attnlab.models import Embeddings, map_of
from attnlab.models.layers import sinusoidal_positions
from attnlab.models.scoring import chunked_cross_entropy
from tests.oracles import translation_model as reference

CLOSE = {"rtol": 0, "atol": 1e-12}
# Rezaei, equations (2) to (5): seven tokens ([CLS], The, artist, painted, ...), and the query projection.
TOKENS = torch.tensor(
    [
        [0.1 * entry for entry in row]
        for row in (
            (10, 2, 3, 1), (3, 9, 2, 4), (2, 1, 8, 3), (4, 3, 2, 9), (1, 7, 4, 2), (5, 2, 6, 3), (8, 1, 2, 5),
        )
    ],
    dtype=torch.float64,
)  # fmt: skip
QUERY_PROJECTION = torch.arange(1, 17, dtype=torch.float64).view(4, 4) / 10
PAINTED = 3


def rounded(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def projections_of_the_tutorial() -> dict[str, torch.Tensor]:
    """W^K is W^Q plus 0.1 and W^V plus 0.2; torch keeps one row per output."""
    shifts = {"query": 0.0, "key": 0.1, "value": 0.2}
    weights = {f"{name}.weight": (QUERY_PROJECTION + by).T for name, by in shifts.items()}
    return weights | {f"{name}.bias": torch.zeros(4, dtype=torch.float64) for name in shifts}


def test_query_scores_and_output_of_painted() -> None:
    """Rezaei's example from its own X and W: [1.54, ...] and not the printed [1.41, ...]."""
    weights = projections_of_the_tutorial()
    mixed, H = reference.head(TOKENS, TOKENS, weights, 0, 1)
    query = TOKENS[PAINTED] @ weights["query.weight"].T
    scores = TOKENS @ weights["key.weight"].T @ query
    torch.testing.assert_close(query, rounded(1.54, 1.72, 1.90, 2.08), **CLOSE)
    torch.testing.assert_close(
        scores, rounded(7.384, 11.963, 11.203, 14.570, 9.755, 10.859, 9.990), rtol=0, atol=5e-4
    )
    torch.testing.assert_close(
        H[PAINTED],
        rounded(0.0150, 0.1482, 0.1014, 0.5456, 0.0491, 0.0853, 0.0553),
        rtol=0,
        atol=5e-5,
    )
    torch.testing.assert_close(
        mixed[PAINTED], rounded(1.679, 1.850, 2.021, 2.192), rtol=0, atol=5e-4
    )


@pytest.mark.parametrize("scale", [1, 2])
def test_softmax_of_four_scores_and_of_their_double(scale: int) -> None:
    scores = [scale * score for score in (1, 2, 0.5, -1)]
    total = sum(math.exp(score) for score in scores)
    expected = rounded(*(math.exp(score) / total for score in scores))
    actual = reference.softmax(rounded(*scores)[None])[0]
    torch.testing.assert_close(actual, expected, **CLOSE)
    printed = {1: (0.2242, 0.6095, 0.1360, 0.0303), 2: (0.1140, 0.8420, 0.0419, 0.0021)}[scale]
    torch.testing.assert_close(actual, rounded(*printed), rtol=0, atol=5e-5)


def test_the_loss_of_a_token_is_minus_the_logarithm_of_its_probability() -> None:
    logits = torch.tensor([[1.0, 2.0, 0.5, -1.0]])
    probability = math.exp(2.0) / sum(math.exp(score) for score in logits[0].tolist())
    loss = chunked_cross_entropy(logits, torch.eye(4), torch.tensor([1]))
    assert float(loss) == pytest.approx(-math.log(probability), rel=1e-6)
    assert float(loss) > 0


def test_positions_turn_by_the_frequency_times_the_position() -> None:
    """Columns 2i and 2i + 1 are the parts of e^(i omega t) with omega = M^(-2i/d), not of e^(i t / omega)."""
    dim = 6
    table = sinusoidal_positions(9, dim, dtype=torch.float64)
    for position, pair in product(range(9), range(dim // 2)):
        frequency = 10_000 ** (-2 * pair / dim)
        turned = cmath.exp(1j * frequency * position)
        own = table[position, 2 * pair : 2 * pair + 2]
        torch.testing.assert_close(own, rounded(turned.imag, turned.real), **CLOSE)


@pytest.mark.parametrize("dim", [6, 10])
def test_exponent_of_the_last_columns_of_the_positions(dim: int) -> None:
    """The last pair of d columns has i = d/2 - 1, so the exponent (d - 2) / d and not 1."""
    angle = 5 / 10_000 ** ((dim - 2) / dim)
    last = sinusoidal_positions(6, dim, dtype=torch.float64)[5, -2:]
    torch.testing.assert_close(last, rounded(math.sin(angle), math.cos(angle)), **CLOSE)
    assert not torch.allclose(last, rounded(math.sin(5 / 10_000), math.cos(5 / 10_000)))


def test_members_of_the_searched_set_differ_by_at_most_n1_plus_2_eps_n2() -> None:
    """An entry of P in [0, 1] can differ by 1, an entry of E in [-eps, eps] by 2 eps, and both do."""
    n1, n2, bound = 2, 3, 0.05
    corners = list(product(*([(0.0, 1.0)] * n1), *([(-bound, bound)] * n2)))
    farthest = max(
        sum(abs(a - b) for a, b in zip(first, second, strict=True))
        for first, second in product(corners, corners)
    )
    assert farthest == pytest.approx(n1 + 2 * bound * n2)


def test_scores_are_normalised_over_keys_at_the_scale_of_a_head() -> None:
    """Rows of softmax(Q K^T / sqrt(d_head)) sum to 1 over keys; normalised over queries they do not."""
    generator = torch.Generator().manual_seed(0)
    X, Y = (torch.randn(n, 8, generator=generator, dtype=torch.float64) for n in (4, 5))
    weights = {
        f"{name}.{part}": torch.randn(shape, generator=generator, dtype=torch.float64)
        for name in ("query", "key", "value")
        for part, shape in (("weight", (8, 8)), ("bias", (8,)))
    }
    Q, K = (
        (T @ weights[f"{name}.weight"].T + weights[f"{name}.bias"])[:, :4]
        for name, T in (("query", X), ("key", Y))
    )
    _, H = reference.head(X, Y, weights, 0, 2)
    torch.testing.assert_close(H, torch.softmax(Q @ K.T / 4**0.5, 1), **CLOSE)
    torch.testing.assert_close(H.sum(1), torch.ones(4, dtype=torch.float64), **CLOSE)
    assert not torch.allclose(H, torch.softmax(Q @ K.T / 8**0.5, 1))
    assert not torch.allclose(H, torch.softmax(Q @ K.T / 4**0.5, 0))


def test_without_positions_sentences_of_the_same_words_have_the_same_states() -> None:
    """Through a whole encoder: each word has the state that it has in the other sentence."""
    model = random_models.bert().double().eval()
    with torch.no_grad():
        one = torch.tensor([[5, 6, 7, 8, 9, 10]])
        order = torch.tensor([3, 4, 2, 0, 1, 5])

        def states(ids: torch.Tensor) -> torch.Tensor:
            return model(input_ids=ids).last_hidden_state[0]

        assert not torch.allclose(states(one[:, order]), states(one)[order])
        model.embeddings.position_embeddings.weight.zero_()
        torch.testing.assert_close(states(one[:, order]), states(one)[order], **CLOSE)


def test_a_word_that_stands_twice_has_one_vector_before_attention_and_two_after() -> None:
    """Tikas's "pool": its two states differ by their positions, or by the sentences that they stand in."""
    model, word = random_models.bert().double().eval(), 7
    one, other = torch.tensor([[1, word, 5, 6, word, 2]]), torch.tensor([[1, word, 9, 10, 8, 2]])

    def states(ids: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return torch.stack(model(input_ids=ids, output_hidden_states=True).hidden_states)[:, 0]

    assert not torch.allclose(states(one)[1:, 1], states(one)[1:, 4], atol=0.1)
    model.embeddings.position_embeddings.weight.data.zero_()
    before, after = states(one)[0], states(one)[1]
    torch.testing.assert_close(before[1], before[4], **CLOSE)
    torch.testing.assert_close(before[1], states(other)[0, 1], **CLOSE)
    # Without positions both see the same words of their sentence, so that only another sentence tells.
    torch.testing.assert_close(after[1], after[4], **CLOSE)
    assert not torch.allclose(after[1], states(other)[1, 1], atol=0.1)


def test_padding_to_the_largest_length_changes_no_token() -> None:
    """Rezaei: texts are padded to `max_length`, and a mask of 0 keeps what was added out of every row."""
    model, tokenizer = random_models.bert().double().eval(), random_models.tokenizer()
    text, longest = "the old cat sees the bird", 14
    plain = tokenizer(text, return_tensors="pt")
    padded = tokenizer(text, padding="max_length", max_length=longest, return_tensors="pt")
    n = plain["input_ids"].shape[1]
    assert padded["attention_mask"].tolist() == [[1] * n + [0] * (longest - n)]
    model.set_attn_implementation("eager")
    with torch.no_grad():
        expected = model(**plain, output_attentions=True)
        found = model(**padded, output_attentions=True)
    torch.testing.assert_close(
        found.last_hidden_state[:, :n], expected.last_hidden_state, rtol=0, atol=1e-10
    )
    for whole, own in zip(found.attentions, expected.attentions, strict=True):
        torch.testing.assert_close(whole[..., :n, :n], own, rtol=0, atol=1e-12)
        assert float(whole[..., :n, n:].abs().max()) == 0


def test_the_map_of_the_seven_tokens() -> None:
    """Rezaei, figure 2: their vectors at the two directions in which they vary most."""
    names = ("[CLS]", "The", "artist", "painted", "x5", "x6", "x7")
    table = map_of(Embeddings(names, TOKENS), names)
    X = TOKENS - TOKENS.mean(0)
    variances, directions = torch.linalg.eigh(X.T @ X)
    for place, component in enumerate(("first", "second"), start=1):
        along = X @ directions[:, -place]
        found = torch.tensor(table[f"{component}_component"].tolist(), dtype=torch.float64)
        torch.testing.assert_close(found * (found @ along).sign(), along, rtol=0, atol=1e-10)
        share = float(variances[-place] / variances.sum())
        assert table[f"{component}_share"].tolist() == pytest.approx([share] * 7)


def test_positions_divided_by_the_length_are_those_of_other_sentences_too() -> None:
    """The second of four words and the first of two have 1/2; sinusoidal positions differ."""
    assert 2 / 4 == 1 / 2
    table = sinusoidal_positions(64, 16)
    apart = torch.cdist(table, table) + torch.eye(64) * 9
    assert apart.min() > 0.1
