"""How much of each token of a text is in each position of a model, through all layers of attention."""

from attnlab.questions.rollout.question import QUESTION

__all__ = ["QUESTION"]
