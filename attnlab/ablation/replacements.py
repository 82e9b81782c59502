"""Replacements of a head's output; apart, so that a command knows them before torch is loaded."""

from typing import Literal, get_args

Replacement = Literal["zero", "mean", "uniform"]
REPLACEMENTS: tuple[Replacement, ...] = get_args(Replacement)
