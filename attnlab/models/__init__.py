"""Our translation and language models: tokenizers, training, the run folder, translating, scoring."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
