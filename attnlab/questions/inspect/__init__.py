"""How a model reads one or two texts: tokens, shapes, contextual vectors, and what its heads look at."""

from attnlab.questions.inspect.question import QUESTION

__all__ = ["QUESTION"]
