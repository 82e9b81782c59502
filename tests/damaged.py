"""Files of models with some tensors missing or damaged, and what is told of them."""

from collections.abc import Iterable

from attnlab.models.safe_loading import NAMES_SHOWN


def threes(names: Iterable[str]) -> list[list[str]]:
    """All names, as many together as a message names, those of one layer apart."""
    every = list(names)
    count = -(-len(every) // NAMES_SHOWN)
    return [sorted(every[start::count]) for start in range(count)]


def named(names: list[str], what: str) -> str:
    """How a message tells that these tensors are missing, say."""
    verb = "tensor is" if len(names) == 1 else "tensors are"
    return f"{len(names)} {verb} {what}: {', '.join(names)}"
