"""The ground of every part: errors, settings, files, tables, processes; nothing of attention."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
