"""Which other distributions are installed, and what they add to attnlab through Python entry points."""

import importlib.metadata
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import Any, TypeVar

from attnlab.core.errors import InputError

T = TypeVar("T")


def with_plugins(
    group: str,
    built_in: Mapping[str, T],
    expected: str,
    accepts: Callable[[Any], bool],
    name_of: Callable[[T], str] | None = None,
) -> dict[str, T]:
    """A table of attnlab's own objects, then those that other distributions register, by name.

    Args:
        group: the group of entry points.
        built_in: attnlab's own, by name.
        expected: what must be registered, in words, for the error.
        accepts: whether an object is such a thing.
        name_of: its name; without it that of the entry point.

    Raises:
        InputError: what is registered cannot be imported, is not accepted, or has the name of another.
    """
    objects = dict(built_in)
    for entry, thing in plugins(group).items():
        if not accepts(thing):
            msg = f"'{entry}', registered under {group}, must be {expected}, not {thing!r}."
            raise InputError(msg)
        name = entry if name_of is None else name_of(thing)  # type: ignore[arg-type]
        if name in objects:
            msg = (
                f"'{entry}', registered under {group}, is called '{name}', which exists already; "
                "uninstall what registers it."
            )
            raise InputError(msg)
        objects[name] = thing  # type: ignore[assignment]
    return objects


@cache
def plugins(group: str) -> dict[str, object]:
    """Objects that installed distributions register under `group`, by the name of their entry point.

    An entry point stands in the `pyproject.toml` of the other distribution::

        [project.entry-points."attnlab.mechanisms"]
        nearest = "my_module:NearestAttention"

    Raises:
        InputError: one of them cannot be imported, or two distributions register one name.
    """
    objects: dict[str, object] = {}
    for point in entry_points(group=group):
        origin = "an unnamed distribution" if point.dist is None else point.dist.name
        if point.name in objects:
            msg = f"'{point.name}' is registered twice under {group}; uninstall one, such as {origin}."
            raise InputError(msg)
        try:
            objects[point.name] = point.load()
        except Exception as error:
            msg = f"'{point.name}' of {origin} cannot be imported from {point.value}: {error}"
            raise InputError(msg) from error
    return objects


__version__ = "0.1.0"
LIBRARIES = (
    "torch", "transformers", "accelerate", "datasets", "tokenizers", "safetensors", "sacrebleu",
    "gensim",
    "numpy", "scipy", "pandas", "matplotlib", "typer", "rich",
)  # fmt: skip


def versions(libraries: Sequence[str] = LIBRARIES) -> dict[str, str]:
    """Versions by name: Python, attnlab, and those of the libraries that are installed."""
    installed = {name: version for name in libraries if (version := version_of(name)) is not None}
    return {"python": platform.python_version(), "attnlab": __version__} | installed


# Of a small cell of a study, reading what is installed would be most of the work.
@cache
def version_of(distribution: str) -> str | None:
    """The version of an installed distribution; None where it is not installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


@dataclass(frozen=True)
class Part:
    """A distribution that attnlab does without.

    Attributes:
        name: of the distribution, and of its module.
        purpose: what it is for.
        extra: the extra of attnlab that has it.
    """

    name: str
    purpose: str
    extra: str


OPTIONAL = (
    Part("conllu", "treebanks", "treebanks"),
    Part("gensim", "skip-gram vectors", "embeddings"),
    Part("distributed", "studies on several processes or machines", "cluster"),
    Part("cryptography", "the encryption between such processes", "cluster"),
    Part("bokeh", "the dashboard of such a study", "cluster"),
    Part("beartype", "checks of types and shapes in tests", "dev"),
    Part("pytest", "the tests", "dev"),
)


def check_installed(*names: str) -> None:
    """Raises InputError where one of these parts of `OPTIONAL` is missing; it says how to install it."""
    for part in OPTIONAL:
        if part.name in names and find_spec(part.name) is None:
            msg = (
                f"{part.name} is missing, which is needed for {part.purpose}; install it with: "
                f"pip install {part.name}"
            )
            raise InputError(msg)
