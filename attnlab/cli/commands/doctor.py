"""`attnlab doctor`: what is installed here, what it can use, and what is missing for what."""

import os
import shutil
from dataclasses import dataclass
from typing import Any

from attnlab.cli.output import new_table, output, print_json, print_table, results
from attnlab.core.installed import LIBRARIES, version_of, versions


@dataclass(frozen=True)
class Part:
    """A distribution that attnlab does without.

    Attributes:
        name: of the distribution.
        purpose: what it is for.
        install: how it is installed.
    """

    name: str
    purpose: str
    install: str


OPTIONAL = (
    Part("gensim", "skip-gram vectors: embed, train --embeddings skipgram", "attnlab[embeddings]"),
    Part("distributed", "studies on several processes or machines", "attnlab[cluster]"),
    Part("bokeh", "the dashboard of such a study", "attnlab[cluster]"),
    Part("tensorboard", "curves of a training", "attnlab[tensorboard]"),
    Part("beartype", "checks of types and shapes in tests", "attnlab[dev]"),
    Part("pytest", "the tests", "attnlab[dev]"),
)


def doctor() -> None:
    """Show versions, devices and optional parts, and what each is for."""
    found = _facts()
    if output().as_json:
        print_json(**found)
        return
    table = new_table("part", "version")
    for name, version in found["versions"].items():
        table.add_row(name, version or "missing; run: make install")
    print_table(table)
    console = results()
    console.print(f"\nDevices: {', '.join(found['devices'])}", soft_wrap=True, highlight=False)
    console.print(f"Processor threads: {found['threads']} of {found['cores']} cores")
    console.print(f"Free disk here: {found['free_gib']:.0f} GiB\n")
    optional = new_table("optional part", "version", "for", prose=("for",))
    for part in found["optional"]:
        optional.add_row(part["name"], part["version"] or "missing", part["purpose"])
    print_table(optional)
    missing = dict.fromkeys(p["install"] for p in found["optional"] if p["version"] is None)
    for name in missing:
        console.print(f"Install what is missing with: pip install '{name}'")


def _facts() -> dict[str, Any]:
    optional = {part.name for part in OPTIONAL}
    libraries = {name: version_of(name) for name in LIBRARIES if name not in optional}
    return {
        "versions": versions(()) | libraries,
        "devices": _devices() if libraries["torch"] else ["none: torch is missing"],
        "threads": _threads() if libraries["torch"] else 0,
        "cores": os.cpu_count() or 0,
        "free_gib": shutil.disk_usage(".").free / 2**30,
        "optional": [vars(part) | {"version": version_of(part.name)} for part in OPTIONAL],
    }


def _threads() -> int:
    import torch

    return torch.get_num_threads()


def _devices() -> list[str]:
    """The processor, and every GPU with its memory."""
    import torch

    found = ["cpu"]
    for index in range(torch.cuda.device_count()):
        gpu = torch.cuda.get_device_properties(index)
        found.append(f"cuda:{index} ({gpu.name}, {gpu.total_memory / 2**30:.0f} GiB)")
    if torch.backends.mps.is_available():
        found.append("mps")
    return found
