"""How well each mechanism stands in for full attention at equal budgets."""

from attnlab.questions.compare.question import QUESTION

__all__ = ["QUESTION"]
