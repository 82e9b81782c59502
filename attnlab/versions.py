"""Versions of what results are computed with."""

import importlib.metadata
import platform
from collections.abc import Sequence

__version__ = "0.1.0"
LIBRARIES = (
    "torch", "transformers", "accelerate", "datasets", "tokenizers", "safetensors", "sacrebleu",
    "gensim",
    "numpy", "scipy", "statsmodels", "pandas", "matplotlib", "typer", "rich",
)  # fmt: skip


def versions(libraries: Sequence[str] = LIBRARIES) -> dict[str, str]:
    """Versions by name: Python, attnlab, and those of the libraries that are installed."""
    found = {name: version_of(name) for name in libraries}
    own = {"python": platform.python_version(), "attnlab": __version__}
    return own | {name: version for name, version in found.items() if version is not None}


def version_of(distribution: str) -> str | None:
    """The version of an installed distribution; None where it is not installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
