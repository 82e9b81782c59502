"""A model holds one set of installed mechanisms at a time, whoever made the model."""

from collections.abc import Callable

import pytest
import torch
from transformers import PreTrainedModel
from zoo import random_models

from attnlab.attention.bridge.installing import install, installed_plan, use
from attnlab.attention.bridge.sites import attention_modules, mechanism_of
from attnlab.errors import InputError
from attnlab.translation.configuration import LanguageConfig, RecurrentConfig, TranslationConfig
from attnlab.translation.language_model import LanguageModel
from attnlab.translation.model import TranslationModel
from attnlab.translation.recurrent import RecurrentModel

SMALL = {"vocab_size": 11, "dim": 8, "dropout": 0.0}
KINDS: dict[str, Callable[[], PreTrainedModel]] = {
    "encoder-decoder": lambda: TranslationModel(TranslationConfig(**SMALL, feed_forward=16)),
    "planned": lambda: TranslationModel(
        TranslationConfig(**SMALL, feed_forward=16, attention={"encoder": "band(window=3)"})
    ),
    "language model": lambda: LanguageModel(LanguageConfig(**SMALL, feed_forward=16)),
    "recurrent": lambda: RecurrentModel(RecurrentConfig(**SMALL)),
    "bert": random_models.bert,
    "llama": random_models.llama,
    "marian": random_models.small_marian,
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_set_is_refused_until_the_first_is_taken_out(
    kind: str, untouched_randomness: None
) -> None:
    with torch.random.fork_rng():
        model = KINDS[kind]()
    before = standing(model)
    for _ in range(2):
        first = install(model, "band(window=1)")
        inside = standing(model)
        for again in (install, lambda *given: use(*given).__enter__()):
            with pytest.raises(
                InputError, match="has attnlab's mechanisms already; take those out"
            ):
                again(model, "band(window=0)")
        assert standing(model) == inside != before
        assert installed_plan(model) == first.plan
        first.remove()
        assert standing(model) == before
        assert installed_plan(model) is None


def standing(model: PreTrainedModel) -> list[object]:
    """What mixes values in each attention module, and the plans that the model names."""
    modules = [
        mechanism_of(at.module)
        if hasattr(at.module, "mechanism") or hasattr(at.module, "attnlab")
        else None
        for at in attention_modules(model)
    ]
    named = [getattr(model, "attention_plan", None), model.config._attn_implementation]
    return [*modules, *named]
