"""The embedded grammar in Italian."""

from attnlab.grammar.italian.italian_sentences import italian_tokens as tokens

CODE = "it"

__all__ = ["CODE", "tokens"]
