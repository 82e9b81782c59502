"""What install refuses in every kind of model: a second set of mechanisms, and a file for a plan."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import jaxtyping
import pytest
import torch
from transformers import PreTrainedModel
from zoo import random_models

from attnlab.attention.bridge.installing import install, installed_plan, use
from attnlab.attention.bridge.sites import attention_modules, mechanism_of
from attnlab.attention.plan import load_plan, plan_of, write_plan
from attnlab.core.errors import InputError
from attnlab.models.configuration import LanguageConfig, RecurrentConfig, TranslationConfig
from attnlab.models.model import LanguageModel, RecurrentModel, TranslationModel

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


@pytest.mark.parametrize("kind", KINDS)
def test_a_plan_is_read_from_its_file_first(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, untouched_randomness: None
) -> None:
    with torch.random.fork_rng():
        model = KINDS[kind]()
    before = standing(model)
    monkeypatch.chdir(tmp_path)
    site = attention_modules(model)[0].site
    write_plan("plan.json", plan_of({site: "band(window=1)"}))
    shutil.copy("plan.json", "mine")
    shutil.copy("plan.json", "full")
    with as_users_call_it():
        for given in ("plan.json", "absent.json", "mine", Path("mine"), Path("absent")):
            with pytest.raises(InputError, match="names a file and no mechanism; .*load_plan"):
                install(model, given)
    for text in ("x" * 5000, "x\0y", "plan"):
        with pytest.raises(InputError, match="does not read as a mechanism|unknown|no mechanism"):
            install(model, text)
    assert standing(model) == before
    install(model, load_plan("plan.json")).remove()
    install(model, "full").remove()
    assert standing(model) == before


@contextmanager
def as_users_call_it() -> Iterator[None]:
    """Without the checks of types, which run in tests alone and would refuse a path first."""
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


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
