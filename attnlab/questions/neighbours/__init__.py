"""Which words are near in the embeddings of a run, a file or any model."""

from attnlab.questions.neighbours.question import QUESTION

__all__ = ["QUESTION"]
