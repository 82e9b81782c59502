"""Mechanisms at a budget of attended keys per query: candidates, their sizes, their measures."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
