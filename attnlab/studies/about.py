"""What a study was made of, in words by heading, as its results show it."""

from typing import Any

from attnlab.texts import published
from attnlab.translation.runs.run import Run, Source
from attnlab.versions import versions


def source_in_words(source: Source, model: Any) -> str:
    """Where a model is from, or its class where it was handed in."""
    path = source.folder if isinstance(source, Run) else source
    return type(model).__name__ if isinstance(path, tuple) else published(path)


def model_in_words(source: Source, model: Any) -> dict[str, str]:
    """Where the model is from, its class and its size."""
    name, parameters = type(model).__name__, sum(weight.numel() for weight in model.parameters())
    return {
        "Source": source_in_words(source, model),
        "Model": f"{name}, {parameters:,} parameters",
    }


def versions_in_words() -> dict[str, str]:
    """What the figures were computed with."""
    parts = versions(("torch", "transformers"))
    return {"Versions": ", ".join(f"{name} {version}" for name, version in parts.items())}
