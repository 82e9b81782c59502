"""The checks that the suite puts around every function of attnlab."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import torch
from beartype import beartype
from jaxtyping import Float, TypeCheckError
from shape_checks import CHECKED_CALLS, begin_test, jaxtyped
from torch import Tensor

from attnlab.core.documents import parse_json
from attnlab.grammar.embedded import draw_pairs
from attnlab.matrices.bands import project_band
from attnlab.matrices.coded_supports import CodeLength

checked = jaxtyped(typechecker=beartype)


def refused(call: object) -> None:
    with pytest.raises(TypeCheckError):
        call()


def test_dimensions_of_one_name_have_one_size_in_a_call() -> None:
    @checked
    def added(a: Float[Tensor, "row key"], b: Float[Tensor, "row 1"]) -> Float[Tensor, "key row"]:
        return (a + b).mT if len(a) != 5 else a + b

    for rows in (2, 3):
        assert added(torch.zeros(rows, 4), torch.zeros(rows, 1)).shape == (4, rows)
    refused(lambda: added(torch.zeros(2, 4), torch.zeros(3, 1)))
    refused(lambda: added(torch.zeros(5, 4), torch.zeros(5, 1)))
    refused(lambda: added(torch.zeros(2, 4, dtype=torch.long), torch.zeros(2, 1)))


def test_shapes_of_methods_fields_and_generators() -> None:
    @checked
    @dataclass
    class Pair:
        left: Float[Tensor, " row"]
        right: Float[Tensor, " row"]

        @checked
        def added(self, other: Float[Tensor, " row"], third: Float[Tensor, " row"]) -> Tensor:
            return self.left + other + third

    refused(lambda: Pair(torch.zeros(2), torch.zeros(3)))
    pair = Pair(torch.zeros(2), torch.zeros(2))
    refused(lambda: pair.added(torch.zeros(2), torch.zeros(3)))

    @checked
    def pieces(a: Float[Tensor, " row"], b: Float[Tensor, " row"]) -> Iterator[Tensor]:
        yield a
        yield b

    assert len(list(pieces(torch.zeros(3), torch.zeros(3)))) == 2
    refused(lambda: pieces(torch.zeros(3), torch.zeros(2)))


def test_names_that_are_not_loaded_are_not_checked() -> None:
    @checked
    def first(many: list["NotThere"], row: Float[Tensor, " row"]) -> "NotThere":
        return many[0]

    assert first([1], torch.zeros(2)) == 1
    refused(lambda: first([1], torch.zeros(2, 2)))


def test_the_first_calls_of_a_test_are_checked() -> None:
    @checked
    def doubled(row: Float[Tensor, " row"]) -> Tensor:
        return row * 2

    for _ in range(CHECKED_CALLS):
        refused(lambda: doubled(torch.zeros(2, 2)))
    assert doubled(torch.zeros(2, 2)).shape == (2, 2)
    begin_test()
    refused(lambda: doubled(torch.zeros(2, 2)))


def test_functions_of_attnlab_are_checked(pytestconfig: pytest.Config) -> None:
    checked = pytestconfig.getoption("jaxtyping_packages")
    if not checked:
        pytest.skip("this run goes without the checks, as that of the coverage does")
    refused(lambda: project_band(torch.zeros(3), window=1))
    refused(lambda: CodeLength(torch.zeros(2), torch.zeros(3)))
    if "attnlab" not in checked.split(","):
        return
    refused(lambda: draw_pairs("3"))
    # What is imported first too: jaxtyping's own checks take many times as long.
    assert parse_json.__code__.co_filename == jaxtyped.__code__.co_filename
