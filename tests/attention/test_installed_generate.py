"""What cannot stand in a model is refused at install; what can be installed generates, padding in front."""

from typing import Any

import pytest
import torch
from zoo.bridged import DECODERS, KINDS, PAIRS, SCORING, SPECS, by_token, ids, model, put_in

from attnlab.attention.bridge.installing import use
from attnlab.attention.registry import MECHANISMS, parse
from attnlab.core.addresses import SITES
from attnlab.core.errors import AttnlabError, InputError

pytestmark = pytest.mark.grid

ROWS, TOKENS, NEW = 3, 6, 5
REAL = torch.ones(ROWS, TOKENS, dtype=torch.long)
REAL[1, :3] = 0
REAL[2, :1] = 0
ONE_STACK = [*DECODERS, *(name for name in SCORING if name != "modernbert")]
PLACES = [(name, "decoder") for name in ONE_STACK] + [
    (name, site) for name in PAIRS for site in SITES
]
CASES = [
    (name, site, spec)
    for name, site in PLACES
    for spec in (SPECS if name in ("llama", "marian") else KINDS)
]
PLAIN = {"max_new_tokens": NEW, "min_new_tokens": NEW, "do_sample": False, "pad_token_id": 0}


def generated(random: Any, **more: Any) -> torch.Tensor:
    given = {"input_ids": ids(ROWS, TOKENS, 3), "attention_mask": REAL}
    return random.generate(**given, **PLAIN, **more)


def test_every_mechanism_is_in_the_list() -> None:
    assert {parse(spec).name for spec in KINDS} == set(MECHANISMS)
    assert set(KINDS) < set(SPECS)


@pytest.mark.parametrize(("name", "site", "spec"), CASES)
def test_install_refuses_or_generation_runs(name: str, site: str, spec: str) -> None:
    random = model(name)
    keys = list(random.state_dict())
    try:
        installed = put_in(random, {site: spec})
    except InputError:
        assert list(random.state_dict()) == keys
        assert spec not in {"full", "none"}
        return
    written = generated(random)
    assert torch.equal(generated(random, use_cache=False), written)
    if random.generation_config.use_cache is False:
        assert by_token(spec) or parse(spec).name == "linformer", "it was written with a cache"
    installed.remove()


@pytest.mark.parametrize("name", ["llama", "marian"])
def test_a_cache_is_refused_before_the_first_token_where_keys_are_chosen_by_id(name: str) -> None:
    random = model(name)
    before = random.generation_config.use_cache
    one = {"max_new_tokens": 1, "min_new_tokens": 1, "use_cache": True}
    with (
        use(random, {"decoder": "keys(tokens=(5, 9), reach=3)"}),
        pytest.raises(AttnlabError, match=r"needs the ids of all keys: .*use_cache=False"),
    ):
        random.generate(ids(1, 1), **PLAIN | one)
    assert random.generation_config.use_cache == before
