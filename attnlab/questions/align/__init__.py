"""Which cross-attention heads say what a word translates, and the links that they give."""

from attnlab.questions.align.question import QUESTION

__all__ = ["QUESTION"]
