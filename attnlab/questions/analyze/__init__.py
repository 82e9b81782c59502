"""What every attention head does, what it looks like and what is lost without it."""

from attnlab.questions.analyze.question import QUESTION

__all__ = ["QUESTION"]
