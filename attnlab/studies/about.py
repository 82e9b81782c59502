"""What a study was made of, in words by heading, as its results show it."""

from pathlib import Path
from typing import Any

import torch


def model_in_words(source: str | Path | tuple[Any, Any], model: Any) -> dict[str, str]:
    """Where the model is from, its class and its size."""
    name, parameters = type(model).__name__, sum(weight.numel() for weight in model.parameters())
    return {
        "Source": name if isinstance(source, tuple) else str(source),
        "Model": f"{name}, {parameters:,} parameters",
    }


def versions() -> dict[str, str]:
    """What the figures were computed with."""
    import transformers

    from attnlab import __version__

    parts = {"attnlab": __version__, "torch": torch.__version__}
    parts["transformers"] = transformers.__version__
    return {"Versions": ", ".join(f"{name} {version}" for name, version in parts.items())}
