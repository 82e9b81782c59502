"""The best of all sequences, by trying each of them."""

from collections.abc import Callable, Iterator, Sequence
from itertools import product


def all_sequences(types: int, end: int, longest: int) -> Iterator[tuple[int, ...]]:
    """Every sequence that ends with `end`, its only one, or is cut at `longest` tokens."""
    others = [token for token in range(types) if token != end]
    for length in range(longest):
        for prefix in product(others, repeat=length):
            yield (*prefix, end)
    yield from product(others, repeat=longest)


def best_sequence(
    log_probabilities: Callable[[tuple[int, ...]], Sequence[float]],
    *,
    types: int,
    end: int,
    longest: int,
    normalised: bool,
) -> tuple[int, ...]:
    """The sequence of the highest mean log-probability per token, or of the highest sum.

    `log_probabilities` gives those of each type behind a prefix; the end token counts as a token.
    """

    def value(sequence: tuple[int, ...]) -> float:
        total = sum(
            log_probabilities(sequence[:position])[token] for position, token in enumerate(sequence)
        )
        return total / len(sequence) if normalised else total

    return max(all_sequences(types, end, longest), key=value)
