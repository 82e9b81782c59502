"""Environments of the peers: a folder each, with the versions that are compared.

    python experiments/peers/environments.py PEERS

PEERS is a folder outside of the repository. fast_align is no package: its source (clab/fast_align) is
compiled into PEERS/fast_align/bin where it lies in PEERS/fast_align/source.
"""

import argparse
import subprocess
import venv
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

# What pip installs for each beside numpy; torch is that of attnlab.
TORCH = (f"torch=={version('torch')}", "safetensors")
PACKAGES = {
    "bertviz": ["bertviz==1.4.1", *TORCH],
    "local_attention": ["local-attention==1.11.2", *TORCH],
    "transformer_lens": ["transformer-lens==4.3.0", *TORCH],
    "nnsight": ["nnsight==0.8.1", *TORCH],
    "inseq": ["inseq==0.7.1", *TORCH],
    "joeynmt": ["joeynmt==2.3.0", "importlib-metadata", *TORCH],
    "eflomal": ["eflomal==2.0.0"],
    "fast_align": [],
}
NAMES = tuple(PACKAGES)
# The commit of its last change; it has no version.
FAST_ALIGN = "cab1e9a"


def main() -> None:
    """Makes those that are not there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peers", type=Path)
    parser.add_argument("--names", nargs="+", choices=NAMES, default=NAMES)
    options = parser.parse_args()
    for name in options.names:
        make(options.peers / name, PACKAGES[name])


def make(folder: Path, packages: list[str]) -> None:
    """Makes one environment."""
    if not (folder / "bin" / "python").exists():
        venv.create(folder, with_pip=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-compile"]
    subprocess.run([*pip, "numpy", *packages], check=True)
    if folder.name == "fast_align":
        compile_fast_align(folder)


def compile_fast_align(folder: Path) -> None:
    """Compiles the source, which lies in the environment."""
    source = folder / "source"
    files = [str(source / "src" / name) for name in ("fast_align.cc", "ttables.cc")]
    command = ["g++", "-std=c++11", "-O3", "-fopenmp", "-w", f"-I{source}", *files]
    subprocess.run([*command, "-o", str(folder / "bin" / "fast_align")], check=True)


def versions_in(peers: Path, names: Iterable[str]) -> dict[str, str]:
    """Versions of peers; torch and transformers for what runs in the environment of attnlab."""
    here = f"torch {version('torch')}, transformers {version('transformers')}"
    found = {"attnlab": version("attnlab"), "pytorch": here}
    for name in names:
        if name == "fast_align":
            found[name] = FAST_ALIGN
        elif name not in found:
            code = f"from importlib.metadata import version; print(version({name.replace('_', '-')!r}))"
            command = [str(peers / name / "bin" / "python"), "-c", code]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found[name] = done.stdout.strip()
    return found


if __name__ == "__main__":
    main()
