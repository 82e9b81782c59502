"""Throw-away distributions that register something of their own."""

import os
import subprocess
import sys
from pathlib import Path

from forks import Forks

ROOT = Path(__file__).resolve().parents[1]


class Distribution:
    """A distribution in a folder of its own, as pip would install one."""

    def __init__(self, folder: Path, forks: Forks) -> None:
        self.folder = folder
        self._forks = forks
        self._paths = [folder, ROOT]

    def register(self, group: str, name: str, code: str, value: str) -> None:
        """Puts a module with `code` there, whose `value` is the entry point `name`."""
        module = f"toy_{name}"
        (self.folder / f"{module}.py").write_text(code)
        about = self.folder / f"{module}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(f"[{group}]\n{name} = {module}:{value}\n")

    def attnlab(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The command in a process of its own that finds the distribution."""
        return self._forks.attnlab(
            *words, folder=self.folder, paths=self._paths, env={**os.environ, "COLUMNS": "200"}
        )

    def python(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Python in a process of its own that finds the distribution and attnlab."""
        paths = os.pathsep.join(map(str, self._paths))
        return subprocess.run(
            [sys.executable, *words],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": paths, "COLUMNS": "200"},
            cwd=self.folder,
            check=False,
        )
