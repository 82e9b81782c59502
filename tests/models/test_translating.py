"""Beam search against all sequences of a small vocabulary, each tried."""

from functools import cache

import pytest
import torch
from oracles.search import best_sequence

from attnlab.core.library_state import seeded
from attnlab.models.configuration import TranslationConfig
from attnlab.models.model import TranslationModel
from attnlab.models.tokenizer import END, START, Tokenizers, train_tokenizer
from attnlab.models.translating import translate

SOURCE = "uno due"
MAX_TOKENS = 4
# As many as there are unfinished prefixes before the last token, and more: the search is exhaustive.
BEAMS = 32


@pytest.fixture(scope="module")
def tokenizers() -> Tokenizers:
    tokenizer = train_tokenizer([SOURCE], "word", 6)
    return Tokenizers(tokenizer, tokenizer, {}, {})


def peaked_model(types: int, seed: int) -> TranslationModel:
    """A model whose next tokens depend on those before, far from equally likely."""
    with seeded(seed):
        model = TranslationModel(
            TranslationConfig(vocab_size=types, max_positions=8, dim=8, heads=2, feed_forward=8)
        )
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.data.normal_(std=0.6)
    return model.eval()


def best_texts(model: TranslationModel, tokenizers: Tokenizers) -> tuple[str, str]:
    """The texts of the best sequences of all, by mean and by sum."""
    source = torch.tensor([tokenizers.source(SOURCE)["input_ids"]])

    @cache
    @torch.no_grad()
    def log_probabilities(prefix: tuple[int, ...]) -> list[float]:
        behind = torch.tensor([[START, *prefix]])
        logits = model(source, decoder_input_ids=behind).logits
        return logits[0, -1].double().log_softmax(-1).tolist()

    mean, total = (
        best_sequence(
            log_probabilities,
            types=len(tokenizers.target),
            end=END,
            longest=MAX_TOKENS - 1,
            normalised=normalised,
        )
        for normalised in (True, False)
    )
    by_mean, by_sum = tokenizers.target.batch_decode([mean, total], skip_special_tokens=True)
    return by_mean, by_sum


def test_beams_are_ranked_by_mean_log_probability(tokenizers: Tokenizers) -> None:
    differing = 0
    for seed in range(2, 8):
        model = peaked_model(len(tokenizers.target), seed)
        best, best_by_sum = best_texts(model, tokenizers)
        differing += best != best_by_sum
        found = translate(model, tokenizers, [SOURCE], beams=BEAMS, max_tokens=MAX_TOKENS)
        assert found == [best], seed
    assert differing >= 2, "models whose best sequence by the sum is another"


def test_one_beam_takes_the_likeliest_token_each_time(tokenizers: Tokenizers) -> None:
    source = torch.tensor([tokenizers.source(SOURCE)["input_ids"]])
    texts = set()
    for seed in range(4):
        model = peaked_model(len(tokenizers.target), seed)
        written = [START]
        while len(written) < MAX_TOKENS and written[-1] != END:
            with torch.no_grad():
                logits = model(source, decoder_input_ids=torch.tensor([written])).logits
            written.append(int(logits[0, -1].argmax()))
        text = tokenizers.target.decode(written, skip_special_tokens=True)
        found = translate(model, tokenizers, [SOURCE], beams=1, max_tokens=MAX_TOKENS)
        assert found == [text], seed
        texts.add(text)
    assert len(texts) > 1
