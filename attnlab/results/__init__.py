"""Questions that can be asked of a model, and their results: tables, notes, figures, a page and a folder."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
