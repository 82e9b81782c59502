"""How a result was asked for, so that it can be made again: the call, and checksums of what it read."""

import hashlib
import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from attnlab.core import (
    Settings,
    file_checksum,
    option_fields,
    path_label,
    usable_device,
    versions,
    words_typed,
)
from attnlab.models import Model

# Larger files are told by size and time: a checksum takes two seconds per gigabyte.
_MOST_BYTES = 2**30
# Longer lists, and all of texts, are told by their length and checksum.
_MOST_LISTED = 10
_WEIGHTS = ("*.safetensors", "*.bin")


def call_of(question: str, source: object, settings: Settings) -> dict[str, Any]:
    """The question, its source, and the options that differ from their defaults, as JSON holds them.

    Beside them stand the seed, the versions of libraries, what tells the files that were read from others,
    and the words of a terminal, where the options can be typed. Paths are `path_label`s.
    """
    label, folder = _source(source)
    fields = option_fields(type(settings))
    given = {
        field.name: value
        for field in fields
        if field.is_given(value := getattr(settings, field.name))
    }
    named = {
        field.name: given[field.name]
        for field in fields
        if Path in field.kinds() and isinstance(given.get(field.name), str | Path)
    }
    words = words_typed(settings)
    typed = None if folder is None or words is None else ["attnlab", question, label, *words]
    return {
        "question": question,
        "source": label,
        "options": {
            # Texts may be private, and a result is handed on.
            field.name: _plain(
                field.labelled(given[field.name]), 0 if field.takes_texts else _MOST_LISTED
            )
            for field in fields
            if field.name in given
        },
        "seed": getattr(settings, "seed", None),
        "command": "" if typed is None else shlex.join(typed),
        "files": {} if folder is None else _files(folder, named),
        "versions": versions(("torch", "transformers")),
    }


def making_of(settings: Settings) -> dict[str, Any]:
    """When and on what a result is made, which two that are compared may differ in."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": str(usable_device(getattr(settings, "device", None))),
        "threads": torch.get_num_threads(),
    }


def call_in_words(call: Mapping[str, Any], making: Mapping[str, Any]) -> dict[str, str]:
    """The call and the making of a result in words, by heading."""
    if not call:
        return {}
    options = "".join(f", {name}={_written(value)}" for name, value in call["options"].items())
    python = f"attnlab.{call['question']}({call['source']!r}{options})"
    files = (f"{name} {' '.join(map(str, file.values()))}" for name, file in call["files"].items())
    return {
        "Repeat with": call["command"] or python,
        "Files read": ", ".join(files),
        "Made": f"{making['date']}, {making['device']}, {making['threads']} threads",
        "Versions": versions_in_words(call["versions"]),
    }


def words_of_showing(model: Model, texts: Sequence[str], options: Mapping[str, str | None]) -> str:
    """The command that shows a text again; of a model that was handed in the call of Python."""
    label, folder = _source(model)
    given = {name: value for name, value in options.items() if value is not None}
    if folder is not None:
        named = [word for name, value in given.items() for word in (f"--{name}", value)]
        end = ["--"] if any(text.startswith("-") for text in texts) else []
        return shlex.join(["attnlab", "show", *named, label, *end, *texts])
    named = [f"{name}={value!r}" for name, value in given.items()]
    return f"attnlab.show({', '.join([label, *map(repr, texts), *named])})"


def versions_in_words(libraries: Mapping[str, str]) -> str:
    """Names with versions, as in `torch 2.11.0, transformers 5.0.0`."""
    return ", ".join(f"{name} {version}" for name, version in libraries.items())


def _source(source: object) -> tuple[str, Path | None]:
    """How the source is called, and its path where it has one."""
    name = source.name if isinstance(source, Model) else source
    if isinstance(name, str | Path) and str(name):
        return path_label(name), Path(name)
    return source.label if isinstance(source, Model) else type(source).__name__, None


def _written(value: Any) -> str:
    """A value in a call; what `_plain` counted is named in brackets, since nobody can hand that in."""
    counted = isinstance(value, Mapping)
    return f"<{value['count']} values, sha256 {value['sha256'][:8]}>" if counted else repr(value)


def _plain(value: Any, most_listed: int = _MOST_LISTED) -> Any:
    """A value as JSON holds it; of a longer list how long it is, and its checksum."""
    if not isinstance(value, list | tuple):
        return value if isinstance(value, str | int | float | None) else type(value).__name__
    if len(value) <= most_listed:
        return [_plain(item) for item in value]
    return {"count": len(value), "sha256": hashlib.sha256(repr(value).encode()).hexdigest()}


def _files(source: Path, named: Mapping[str, str | Path]) -> dict[str, dict[str, Any]]:
    """What tells files from others: of weights by their names, of options by those of the options."""
    weights = {path.name: path for pattern in _WEIGHTS for path in sorted(source.glob(pattern))}
    read = {source.name: source, **weights, **{name: Path(path) for name, path in named.items()}}
    return {name: _fingerprint(path) for name, path in read.items() if path.is_file()}


def _fingerprint(path: Path) -> dict[str, Any]:
    facts = path.stat()
    if facts.st_size <= _MOST_BYTES:
        return {"sha256": file_checksum(path)}
    time = datetime.fromtimestamp(facts.st_mtime, UTC).isoformat(timespec="seconds")
    return {"bytes": facts.st_size, "modified": time}
