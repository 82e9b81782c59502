"""How important every head is to a model."""

from attnlab.questions.importance.question import QUESTION

__all__ = ["QUESTION"]
