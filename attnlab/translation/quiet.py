"""Keeping the libraries' own bars and notices off the screen for the length of a block."""

from collections.abc import Iterator
from contextlib import contextmanager

import datasets
from transformers.utils import logging


@contextmanager
def quiet() -> Iterator[None]:
    """No progress bars of datasets and transformers, and only their errors; then as before."""
    bars = datasets.are_progress_bars_disabled()
    level = logging.get_verbosity()
    their_bars = logging.is_progress_bar_enabled()
    datasets.disable_progress_bars()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        if not bars:
            datasets.enable_progress_bars()
        if their_bars:
            logging.enable_progress_bar()
        logging.set_verbosity(level)
