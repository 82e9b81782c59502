"""Which mechanism each head should have under one budget of keys for all heads."""

from attnlab.questions.plan.question import QUESTION

__all__ = ["QUESTION"]
