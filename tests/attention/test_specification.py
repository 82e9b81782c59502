import re
from dataclasses import fields

import pytest

from attnlab.attention.mechanisms.band import Band
from attnlab.attention.mechanisms.sigma_static import SigmaStatic
from attnlab.attention.registry import (
    MECHANISMS,
    _specification_of,
    catalogue,
    make,
    mechanisms,
    parse,
)
from attnlab.core import LONGEST_TEXT
from attnlab.core.errors import InputError


def test_the_least_width_of_gaussian_heads_is_taken() -> None:
    assert str(parse("gaussian(offset=0, sigma=0.1)")) == "gaussian(offset=0, sigma=0.1)"


def test_lists_of_numbers_are_kept_so_that_specifications_can_be_keys() -> None:
    listed, tupled = parse("keys(offsets=[0, -1])"), parse("keys(offsets=(0, -1))")
    assert {listed: 1}[tupled] == 1


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


@pytest.mark.parametrize("name", mechanisms())
def test_hyphens_underscores_and_capitals_of_names_do_not_count(name: str) -> None:
    for spelled in (name, name.upper(), *(mark.join(name) for mark in "-_")):
        assert _specification_of(spelled) is _specification_of(name)
    assert parse("Top-K(k=4)") == parse("top_k(k=4)") == parse("topk(k=4)")


def test_one_number_is_a_pair_of_equal_sides() -> None:
    assert parse("band(window=(2,2))") == Band(window=2)


def test_a_word_needs_no_quotes() -> None:
    assert parse("linear(feature=taylor)") == parse("linear(feature='taylor')")
    assert parse("longformer(window=3, global_tokens=[0])") == parse("longformer(window=3)")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bund(window=3)", "choose from: full, band"),
        ("top-k", "'topk' needs the option 'k'"),
        ("top-j(k=4)", "no mechanism 'top-j' (did you mean 'topk'?)"),
        ("(foo)", "no mechanism 'foo'; choose"),
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
        ("bigbird(block=1000000000)", "'block' of 'bigbird' is at most 4,096, not 1,000,000,000"),
        (
            "band(window=1000000000000)",
            "window of 'band' is at most 1,000,000, not 1,000,000,000,000",
        ),
        ("band(window=(3, 1000001))", "at most 1,000,000"),
        ("topk(k=1000001)", "'k' of 'topk' is at most 1,000,000"),
        ("linformer(k=3, max_length=1000000)", "'max_length' of 'linformer' is at most 16,384"),
        ("linear(features=1000000)", "'features' of 'linear' is at most 65,536"),
        ("sigma(window=3, extra=1000001)", "'extra' of 'sigma' is at most 1,000,000"),
        ("keys(first=1000001)", "'first' of 'keys' is at most 1,000,000"),
        ("keys(offsets=(0, -1000001))", "numbers of 'offsets' of 'keys' are at most 1,000,000"),
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


@pytest.mark.parametrize(
    "text",
    [
        "(" * 100_000,
        "band(window=" + "(" * 500 + ")" * 500 + ")",
        "-" * 100_000 + "1",
        "band(window=1" + "0" * 9000 + ")",
        "band(window=3, window=4)",
        "band(window={[1]})",
        "band(window=\x00)",
        "band(window='\ud800')",
        "",
    ],
)
def test_texts_of_an_attack_are_refused_in_one_short_sentence(text: str) -> None:
    with pytest.raises(InputError) as told:
        parse(text)
    assert len(str(told.value)) < 400


@pytest.mark.parametrize(
    "kind", ["linear", "sigma(window=1, num_pos=2)", "bigbird(block=2, random=1)"]
)
def test_seeds_that_no_generator_takes_are_refused(kind: str) -> None:
    options = kind.removesuffix(")") + ("," if "(" in kind else "(")
    parse(f"{options} seed={2**32 - 1})")
    with pytest.raises(InputError, match="'seed' of .* is at most 4294967295, not 4294967296"):
        parse(f"{options} seed={2**32})")


def test_the_catalogue_says_of_every_mechanism_what_it_is_in_a_sentence() -> None:
    for entry in catalogue():
        kind = MECHANISMS[entry.name].specification
        assert kind is not None
        assert entry.summary.endswith(".")
        assert entry.summary in str(kind.__doc__)


def test_trained_tables_have_a_greatest_length() -> None:
    for text in ("synthesizer(max_length={})", "sigma_static(window=1, max_length={})"):
        parse(text.format(4096))
        with pytest.raises(InputError, match="'max_length' of .* is at most 4,096, not 4,097"):
            parse(text.format(4097))
    for name in ("num_pos", "extra"):
        with pytest.raises(InputError, match=f"'{name}' of .* is at most 4,096, not 4,097"):
            parse(f"sigma_static(window=1, max_length=9, {name}=4097)")


def test_one_column_and_one_entry_are_trained_unless_told() -> None:
    spec = parse("sigma_static(window=1, max_length=9)")
    assert isinstance(spec, SigmaStatic)
    assert (spec.num_pos, spec.extra) == (1, 1)


WINDOWED = [
    name
    for name, part in MECHANISMS.items()
    if part.specification is not None
    and "window" in {field.name for field in fields(part.specification)}
]


@pytest.mark.parametrize("name", WINDOWED)
def test_a_window_has_one_form_and_a_greatest_length(name: str) -> None:
    rest = ", max_length=9" if name == "sigma_static" else ""
    one, both = parse(f"{name}(window=2{rest})"), parse(f"{name}(window=(2, 2){rest})")
    assert one == both
    assert str(one) == str(both)
    with pytest.raises(InputError, match="at most"):
        parse(f"{name}(window={LONGEST_TEXT + 1}{rest})")
