"""States of the libraries and of modules for the length of a block: bars and notices, seeds, eval mode."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

import numpy as np
import torch
from torch import nn
from transformers.utils import logging


@contextmanager
def quiet() -> Iterator[None]:
    """Inside the block datasets and transformers show no progress bars and tell only errors."""
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        with _no_bars_of_datasets():
            yield
    finally:
        if bars:
            logging.enable_progress_bar()
        logging.set_verbosity(level)


@contextmanager
def _no_bars_of_datasets() -> Iterator[None]:
    if find_spec("datasets") is None:
        yield
        return
    import datasets

    hidden = datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if not hidden:
            datasets.enable_progress_bars()


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


@contextmanager
def eval_mode(model: nn.Module) -> Iterator[None]:
    """Inside the block the model is in eval mode; afterwards each module is in its mode of before.

    >>> model = nn.Sequential(nn.Dropout(), nn.Dropout().eval())
    >>> with eval_mode(model):
    ...     assert not model.training
    >>> [part.training for part in model]
    [True, False]
    """
    modes = {part: part.training for part in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for part, training in modes.items():
            part.training = training
