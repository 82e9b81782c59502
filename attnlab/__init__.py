"""attnlab: what every attention head does, and what could replace it.

Nothing heavy is imported here; `attnlab.load`, `attnlab.analyze` and `attnlab.importance` are looked
up when first used.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"
__all__ = ["__version__", "analyze", "importance", "load"]

_HOMES = {
    "load": "attnlab.translation.run",
    "analyze": "attnlab.studies.analysis",
    "importance": "attnlab.studies.importance",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        msg = f"module 'attnlab' has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(_HOMES[name]), name)
