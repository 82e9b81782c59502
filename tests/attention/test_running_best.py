"""What `running_best` chooses is what a loop over rows chooses, padding and ties included."""

import pytest
import torch

from attnlab.attention.kernels.union import KEYS_AT_ONCE, running_best


@pytest.mark.parametrize("keys", [1, 7, KEYS_AT_ONCE, 2 * KEYS_AT_ONCE + 5])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("first", [0, 5])
def test_the_best_of_every_row_are_those_of_a_loop(keys: int, count: int, first: int) -> None:
    generator = torch.Generator().manual_seed(keys)
    # Of few different values, so that there are ties.
    priority = torch.randint(0, 4, (3, 2, keys), generator=generator).float()
    eligible = torch.rand(3, keys, generator=generator) < 0.6
    eligible[1] = False
    eligible[2] = True
    rows = range(min(first, keys - 1), keys)
    found = running_best(priority, eligible, count, rows)
    for sentence in range(3):
        for head in range(2):
            for place, row in enumerate(rows):
                there = [key for key in range(row + 1) if eligible[sentence, key]]
                ranked = sorted(there, key=lambda key: (-priority[sentence, head, key], key))
                chosen = found.usable[sentence, head, place]
                at = found.index[sentence, head, place][chosen].tolist()
                assert at == ranked[:count], (sentence, head, row)
