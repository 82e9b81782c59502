"""A model with the sentences that a question asks it: where they come from, its loss, its translations."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
