"""Which heads have the names of the literature: previous token, induction, retrieval, copying."""

from attnlab.questions.detect.question import QUESTION

__all__ = ["QUESTION"]
