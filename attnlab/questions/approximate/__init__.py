"""How near each family of structured matrices comes to given matrices."""

from attnlab.questions.approximate.question import QUESTION

__all__ = ["QUESTION"]
