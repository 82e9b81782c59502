"""The embedded grammar in English."""

from attnlab.grammar.english.english_sentences import english_tokens as tokens

CODE = "en"

__all__ = ["CODE", "tokens"]
