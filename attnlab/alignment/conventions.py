"""How links are read from weights, by name; nothing heavy is imported, so that settings can take it."""

from typing import Literal, TypeAlias

# Which row of the weights belongs to a piece, see `word_weights`.
Row: TypeAlias = Literal["output", "input"]
# Over which pieces of a target word weights are taken.
FromWord: TypeAlias = Literal["mean", "first"]
# How weights become links, see `linked`.
LinkRule: TypeAlias = Literal["target", "source", "intersection", "union"]
# How links of both directions are made one, see `symmetrized`.
Symmetrization: TypeAlias = Literal[
    "intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and"
]
# Marian and CTranslate2 return the weights of the step that predicts a token, and no others.
ENGINE_ROW: Row = "output"
