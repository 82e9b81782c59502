"""Seeding for libraries that only know global random state: set inside a block, put back after it."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Inside the block Python, NumPy and torch draw from `seed`; afterwards they go on as before.

    >>> before = torch.get_rng_state()
    >>> with seeded(1):
    ...     drawn = torch.rand(1)
    >>> torch.equal(before, torch.get_rng_state())
    True
    """
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 - what Trainer draws from
    with torch.random.fork_rng():
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002 - as above
        torch.manual_seed(seed)
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)  # noqa: NPY002 - as above
