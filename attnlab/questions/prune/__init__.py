"""How many heads a trained model can do without."""

from attnlab.questions.prune.question import QUESTION

__all__ = ["QUESTION"]
