"""Whether a model attends to what its configuration says, layer by layer and as a whole."""

from attnlab.questions.check.question import QUESTION

__all__ = ["QUESTION"]
