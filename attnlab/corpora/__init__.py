"""Parallel corpora: readers, splits, the hub, and which corpora there are."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
