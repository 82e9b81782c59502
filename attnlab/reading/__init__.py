"""From any model to per-head attention: sentences, batches, passes, statistics, kept matrices."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
