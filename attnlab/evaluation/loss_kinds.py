"""What a loss is of and in which unit it is said, for pages that load no model."""

from typing import Literal, TypeAlias

LossKind: TypeAlias = Literal["next tokens", "masked tokens", "cosine", "squared"]
DISTANCES: tuple[LossKind, ...] = ("cosine", "squared")
# Devlin et al. 2019 (arXiv 1810.04805) mask this share of the tokens; here all of them become the mask token.
MASKED_SHARE = 0.15
LOSS_IN_WORDS: dict[LossKind, str] = {
    "next tokens": "cross-entropy of next tokens, nats per token",
    "masked tokens": f"cross-entropy of masked tokens ({MASKED_SHARE:.0%}, drawn by seed), nats per token",
    "cosine": "1 - cosine between final states and those of the untouched model, mean over tokens",
    "squared": "mean squared error between final states and those of the untouched model, mean over tokens",
}
LOSS_UNITS: dict[str, str] = {
    "next tokens": "nats per token",
    "masked tokens": "nats per masked token",
    "cosine": "cosine distance",
    "squared": "squared error",
}
