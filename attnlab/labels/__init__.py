"""What heads do: a file a label, their counts and verdicts, words and treebanks."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
