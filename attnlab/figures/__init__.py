"""Figures as matplotlib draws them: style, colours, and what several questions draw."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
