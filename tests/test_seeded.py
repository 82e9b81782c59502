"""A block that draws from a seed: the same numbers each time, and nothing of them afterwards."""

import random
from contextlib import suppress

import numpy as np
import pytest
import torch

from attnlab.core.library_state import seeded


def drawn() -> tuple[float, float, float]:
    """The next number of Python, NumPy and torch."""
    return random.random(), float(np.random.rand()), float(torch.rand(1))


@pytest.mark.parametrize("fails", [False, True])
def test_every_library_draws_from_the_seed_and_goes_on_as_before(fails: bool) -> None:
    states = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()
    found = []
    for seed in (3, 3, 4):
        with suppress(KeyError), seeded(seed):
            found.append(drawn())
            if fails:
                raise KeyError
    same, again, other = found
    assert same == again
    assert all(one != two for one, two in zip(same, other, strict=True))
    assert (random.getstate(), np.random.get_state()[1].tolist()) == states[:2]
    assert torch.equal(torch.get_rng_state(), states[2])
