"""The skip-gram loss and its gradient against their definitions, and training that finds what was planted."""

import math

import pytest
import torch

from attnlab.core.errors import InputError
from attnlab.models.embedding_settings import ARCHITECTURES, SkipGramSettings
from attnlab.models.embeddings import (
    cbow_loss,
    context_counts,
    nearest,
    skip_gram_gradient,
    skip_gram_loss,
    train_skip_gram,
)

TYPES, DIM = 7, 5
TOKENS = torch.tensor([0, 3, 3, 1, 6, 2, 0, 1, 5, 3, 1])


def tables() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(2)
    drawn = torch.randn(2, TYPES, DIM, generator=generator, dtype=torch.float64)
    return drawn[0].clone().requires_grad_(), drawn[1].clone().requires_grad_()


def pairs(window: int) -> list[tuple[int, int]]:
    """Every token with each token of its window, as a loop."""
    ids = TOKENS.tolist()
    return [
        (ids[t], ids[t + j])
        for t in range(len(ids))
        for j in range(-window, window + 1)
        if j and 0 <= t + j < len(ids)
    ]


@pytest.mark.parametrize("window", [1, 2, 30])
def test_loss_equals_the_sum_over_windows(window: int) -> None:
    words, contexts = (table.detach() for table in tables())
    total = 0.0
    for p, q in pairs(window):
        scores = [math.exp(float(words[p] @ other)) for other in contexts]
        total -= math.log(scores[q] / sum(scores))
    assert float(skip_gram_loss(words, contexts, TOKENS, window)) == pytest.approx(
        total / len(TOKENS)
    )


@pytest.mark.parametrize("window", [1, 2, 30])
def test_cbow_predicts_each_word_from_the_mean_of_its_window(window: int) -> None:
    words, contexts = (table.detach() for table in tables())
    ids, total = TOKENS.tolist(), 0.0
    for t in range(len(ids)):
        around = [ids[t + j] for j in range(-window, window + 1) if j and 0 <= t + j < len(ids)]
        mean = sum(words[one] for one in around) / len(around)
        scores = [math.exp(float(mean @ other)) for other in contexts]
        total -= math.log(scores[ids[t]] / sum(scores))
    found = cbow_loss(words, contexts, TOKENS, window)
    assert float(found) == pytest.approx(total / len(ids))


@pytest.mark.parametrize("window", [1, 2, 30])
def test_counts_equal_the_loop(window: int) -> None:
    expected = torch.zeros(TYPES, TYPES, dtype=torch.float64)
    for p, q in pairs(window):
        expected[p, q] += 1
    assert torch.equal(context_counts(TOKENS, TYPES, window), expected)


@pytest.mark.parametrize("window", [1, 3])
def test_closed_form_gradient_equals_autograd(window: int) -> None:
    words, contexts = tables()
    expected = torch.autograd.grad(
        skip_gram_loss(words, contexts, TOKENS, window), (words, contexts)
    )
    found = skip_gram_gradient(words.detach(), contexts.detach(), TOKENS, window)
    torch.testing.assert_close((found.words, found.contexts), expected, rtol=0, atol=1e-12)


def test_gradient_of_one_table_for_both_is_the_sum() -> None:
    words, _ = tables()
    expected = torch.autograd.grad(skip_gram_loss(words, words, TOKENS, 2), words)[0]
    found = skip_gram_gradient(words.detach(), words.detach(), TOKENS, 2)
    torch.testing.assert_close(found.words + found.contexts, expected, rtol=0, atol=1e-12)


def gradient_by_words(window: int, *, second_delta: bool) -> torch.Tensor:
    """1/T sum_t sum_j [delta(p, i_t) sum_r p(r | i_t) c_r - delta(p, i_t) c_{i_{t+j}}], as loops."""
    words, contexts = (table.detach() for table in tables())
    probabilities = (words @ contexts.T).softmax(1)
    gradient = torch.zeros_like(words)
    for p in range(TYPES):
        for word, context in pairs(window):
            if word == p:
                gradient[p] -= contexts[context]
            if word == p or not second_delta:
                gradient[p] += probabilities[word] @ contexts
    return gradient / len(TOKENS)


def test_without_its_second_delta_the_gradient_is_wrong() -> None:
    words, contexts = (table.detach() for table in tables())
    actual = skip_gram_gradient(words, contexts, TOKENS, 2).words
    expected = gradient_by_words(2, second_delta=True)
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)
    assert not torch.allclose(actual, gradient_by_words(2, second_delta=False))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_words_of_like_contexts_become_neighbours(
    architecture: str, untouched_randomness: None
) -> None:
    """Animals and colours stand in sentences of their own; numbers are drawn the same every time."""
    pytest.importorskip("gensim")
    generator = torch.Generator().manual_seed(0)
    kinds = {"runs": ["cat", "dog", "bird"], "paints": ["red", "blue", "green"]}
    sentences = []
    for verb, words in kinds.items():
        for _ in range(150):
            first, second = torch.randint(3, (2,), generator=generator).tolist()
            sentences.append([words[first], verb, words[second]])
    settings = SkipGramSettings(
        architecture=architecture, dim=8, window=2, epochs=20, subsample=0.0
    )
    found = train_skip_gram(sentences, settings)
    table = nearest(found, ["cat", "blue"], 2)
    near = table.groupby("word")["neighbour"].agg(set)
    assert near["cat"] <= {"dog", "bird", "runs"}
    assert near["blue"] <= {"red", "green", "paints"}
    steps = []
    again = train_skip_gram(sentences, settings, progress=lambda *step: steps.append(step[1:]))
    assert steps == [(epoch, 20) for epoch in range(21)]
    assert again.words == found.words
    assert torch.equal(again.vectors, found.vectors)
    assert set(found.words) == {*kinds, *(word for words in kinds.values() for word in words)}


def test_sentences_of_single_words_are_refused() -> None:
    pytest.importorskip("gensim")
    with pytest.raises(InputError, match="at least two tokens"):
        train_skip_gram([["a"], []])


def test_sentences_that_can_be_read_once_give_the_vectors_of_a_list() -> None:
    pytest.importorskip("gensim")
    texts = ["a b", "b c", "c a d"]
    settings = SkipGramSettings(dim=4, epochs=1)
    wanted = train_skip_gram([text.split() for text in texts], settings)
    for sentences in (map(str.split, texts), (text.split() for text in texts)):
        found = train_skip_gram(sentences, settings)
        assert found.words == wanted.words
        assert torch.equal(found.vectors, wanted.vectors)
