"""A mechanism object is taken at the site that it was made for, and refused where its text is refused."""

from collections.abc import Callable

import pytest
import torch
from zoo.bridged import KINDS, SPECS, model

from attnlab.attention.bridge.installing import install
from attnlab.attention.mechanism import Mechanism
from attnlab.attention.multihead import PerHead
from attnlab.attention.plan import plan_of
from attnlab.attention.registry import MECHANISMS, make, parse
from attnlab.core.addresses import SITES
from attnlab.core.errors import InputError
from attnlab.models.configuration import TranslationConfig
from attnlab.models.training_settings import ModelSettings

pytestmark = pytest.mark.grid

HEADS, TYPES = 2, 40
Planned = dict[str, str | Mechanism]


def plan_layer(planned: Planned) -> None:
    (site,) = planned
    plan_of(planned).mechanism(site, 0, HEADS, vocabulary=TYPES)


ENTRIES: dict[str, Callable[[Planned], object]] = {
    "plan": plan_layer,
    "marian": lambda planned: install(model("marian"), planned),
    "own model": lambda planned: install(model("attnlab"), planned),
}


def made_for(spec: str, site: str) -> Mechanism | None:
    """The mechanism as an object; None where it has no form for the site."""
    arranged = {"causal": site == "decoder", "cross": site == "cross"}
    try:
        with torch.random.fork_rng():
            return make(spec, **arranged, heads=HEADS, vocabulary=TYPES)
    except InputError:
        return None


def accepts(entry: str, planned: Planned) -> bool:
    try:
        with torch.random.fork_rng():
            ENTRIES[entry](planned)
    except InputError:
        return False
    return True


def test_every_mechanism_is_in_the_list() -> None:
    assert {parse(spec).name for spec in SPECS} == set(MECHANISMS)


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize(
    ("entry", "spec"),
    [(entry, spec) for entry in ENTRIES for spec in (SPECS if entry == "plan" else KINDS)],
)
def test_objects_are_refused_exactly_where_text_is(entry: str, spec: str, site: str) -> None:
    possible = accepts(entry, {site: spec})
    for other in SITES:
        found = made_for(spec, other)
        if found is not None:
            assert accepts(entry, {site: found}) == (possible and other == site), other


@pytest.mark.parametrize("causal", [False, True])
def test_the_message_says_how_to_make_it(causal: bool) -> None:
    band = make("band(window=1)", causal=causal)
    with pytest.raises(
        InputError, match=rf"'band' was made with causal={causal} and .*causal=False and cross=True"
    ):
        install(model("marian"), {"cross": band})


def test_each_part_of_an_object_is_checked() -> None:
    parts = [make("full"), make("full", cross=True)]
    mixed = PerHead([([head], part) for head, part in enumerate(parts)])
    with pytest.raises(InputError, match="make it with causal=False and cross=False"):
        make(mixed)


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("kind", [ModelSettings, TranslationConfig])
def test_settings_which_are_written_to_a_file_take_text_alone(
    kind: type, site: str, as_users_call_it: None
) -> None:
    own = made_for("full", site)
    with pytest.raises(InputError, match="attention"):
        kind(attention={site: own})
