"""Mechanisms and options written at random are taken, or refused in a sentence."""

import dataclasses
import importlib
import math
import os
import pkgutil
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from jaxtyping import TypeCheckError

import attnlab
from attnlab.attention.registry import MECHANISMS, parse
from attnlab.core.errors import AttnlabError
from attnlab.core.options import Settings, option_fields
from attnlab.questions.claim.question import claim_of

CASES = int(os.environ.get("ATTNLAB_FUZZ_CASES", "100"))
# Each of the two tests by names tries so many for one of them.
EACH = max(CASES // 20, 5)
QUIET = settings(
    max_examples=EACH,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
NUMBERS = st.one_of(
    st.integers(-3, 40),
    st.sampled_from([2**31, 2**32, 2**63, 10**30, 10**400, -(10**400)]),
    st.floats(),
)
PLAIN = st.one_of(st.none(), st.booleans(), NUMBERS, st.text(max_size=8), st.just("\ud800"))
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(st.text(max_size=3), inner, max_size=2),
    ),
    max_leaves=5,
)


def kinds_of_settings() -> list[type[Settings]]:
    """Every class of settings, wherever it is declared."""
    for module in pkgutil.walk_packages(attnlab.__path__, "attnlab."):
        if module.name.endswith("settings"):
            importlib.import_module(module.name)
    found, left = [], [Settings]
    while left:
        below = left.pop().__subclasses__()
        found += below
        left += below
    return sorted(
        {kind for kind in found if kind.__module__.startswith("attnlab.")},
        key=lambda kind: (kind.__module__, kind.__qualname__),
    )


def refused(make: Any) -> str | None:
    """What is told of it; None where it is taken."""
    try:
        make()
    except AttnlabError as error:
        told = str(error)
        assert told.strip()
        assert "\n" not in told
        assert len(told) < 2000
        return told
    # What the suite checks of annotations comes before the settings; `make torture` goes without it.
    except TypeCheckError as error:
        return str(error)
    return None


@pytest.mark.parametrize("kind", kinds_of_settings(), ids=lambda kind: kind.__qualname__)
def test_settings_are_taken_or_refused(kind: type[Settings]) -> None:
    names = [field.name for field in option_fields(kind)]
    if not names:
        pytest.skip("it has no options")
    must = [
        field.name
        for field in dataclasses.fields(kind)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]

    @QUIET
    @given(st.data())
    def tried(data: st.DataObject) -> None:
        chosen = {*must, data.draw(st.sampled_from(names))}
        values = {name: data.draw(VALUES) for name in sorted(chosen)}
        refused(lambda: kind(**values))

    tried()


@pytest.mark.parametrize("name", MECHANISMS)
def test_options_of_mechanisms_are_taken_or_refused(name: str) -> None:
    kind = MECHANISMS[name].specification
    assert kind is not None
    fields = [field.name for field in dataclasses.fields(kind)]

    @QUIET
    @given(st.data())
    def tried(data: st.DataObject) -> None:
        chosen = data.draw(st.lists(st.sampled_from([*fields, "x"]), unique=True))
        options = ", ".join(f"{one}={written(data.draw(VALUES))}" for one in chosen)
        text = f"{name}({options})"
        if refused(lambda: parse(text)) is None:
            assert parse(str(parse(text))) == parse(text)

    tried()


def written(value: Any) -> str:
    """A value as Python writes it, a number of however many digits too."""
    if isinstance(value, int) and abs(value) > 2**64:
        return "-" * (value < 0) + "1" + "0" * round(math.log10(abs(value)))
    return ascii(value)


@QUIET
@example("\n")
@example("band(\x1b[31m\n")
@given(
    st.one_of(
        st.text(),
        st.text("bandfulk()=,[]{}'\"0123456789.-*: \n", max_size=40).map(
            lambda text: f"band{text}"
        ),
    )
)
def test_texts_are_read_as_a_mechanism_or_refused(text: str) -> None:
    refused(lambda: parse(text))


@QUIET
@example("offset -\u0661")
@example("token '\x1b[31m")
@example("(" * 5_000)
@given(
    st.one_of(
        st.text(),
        st.lists(
            st.sampled_from([
                "offset", "word", "-1", "..", "999999999999999999999", "first", "token", '"', "rarest", "pos",
                "dep", "->", "nearest", "|", "&", "not", "(", ")", "aligned", "special", "[SEP]", "same", ":",
            ])
        ).map(" ".join),
    )
)  # fmt: skip
def test_texts_are_read_as_a_claim_or_refused(text: str) -> None:
    refused(lambda: claim_of(f"0.0: {text}"))
