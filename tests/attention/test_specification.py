import re

import pytest

from attnlab.attention.mechanisms.band import Band
from attnlab.attention.registry import MECHANISMS, make, parse
from attnlab.errors import InputError


@pytest.mark.parametrize(
    "text",
    [
        "full",
        "band(window=3)",
        "band(window=(3, 0))",
        "longformer(window=(4, 2), dilation=2, global_tokens=(0, -1))",
        "bigbird(block=16, random=2)",
        "sigma(window=3, columns='frequency', extra=1)",
        "linear",
        "linear(feature='favor', features=32)",
        "linformer(k=32, share='kv')",
        "scatterbrain(window=3)",
        "fixed(pattern='previous')",
        "topk(k=8)",
    ],
)
def test_printed_form_reads_back(text: str) -> None:
    assert str(parse(text)) == text
    assert parse(str(parse(text))) == parse(text)


def test_one_number_is_a_pair_of_equal_sides() -> None:
    assert parse("band(window=(2,2))") == Band(window=2)


def test_a_word_needs_no_quotes() -> None:
    assert parse("linear(feature=taylor)") == parse("linear(feature='taylor')")
    assert parse("longformer(window=3, global_tokens=[0])") == parse("longformer(window=3)")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bund(window=3)", "choose from: full, band"),
        ("band", "needs the option 'window'"),
        ("band(widow=3)", "no option 'widow'; its options are: window"),
        ("full(window=3)", "its options are: none"),
        ("band(window=-1)", "from 0 up"),
        ("band(window=True)", "from 0 up"),
        ("band(window=(1,2,3))", "from 0 up"),
        ("band(3)", "write it like"),
        ("band(window=", "write it like"),
        ("band(window=open('x'))", "write it like"),
        ("band(**{'window': 3})", "write it like"),
        ("3 + 4", "write it like"),
        ("sigma(window=3, num_pos=-1)", "'num_pos' of 'sigma' is a whole number from 0 up, not -1"),
        ("sigma(window=3, columns='rare')", "one of 'salience', 'frequency', 'first', 'random'"),
        ("band(window=wide)", "from 0 up, not 'wide'"),
        ("fixed(pattern=x)", "one of 'self', 'previous', 'next'"),
        ("linear(feature='relu')", "one of 'elu', 'taylor', 'favor', not 'relu'"),
        ("fixed(pattern='next', window=3)", "its options are: pattern"),
        ("longformer(window=3, global_tokens=0)", "a list of positions such as"),
        ("bigbird(block=0)", "whole number from 1 up"),
        ("linformer(k='3')", "whole number from 1 up, not '3'"),
        ("keys", "lists no key; give offsets, first, last or tokens, or write 'none'"),
        ("keys(offsets=3)", "a list of different whole numbers such as [0, 2], not 3"),
        ("keys(offsets=(1, 1))", "a list of different whole numbers"),
        ("keys(tokens=(-1,))", "a list of token ids from 0 up"),
        ("static(offsets=(0, 1), weights=(1,))", "a list of numbers above 0, one for each offset"),
        ("static(offsets=(0,), weights=(0,))", "a list of numbers above 0"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_choices(text: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        make(text)


def test_every_specification_has_its_mechanism() -> None:
    for name, kind in MECHANISMS.items():
        assert kind.specification is not None
        assert kind.name == kind.specification.name == name
