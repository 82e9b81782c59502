"""What other distributions register through entry points is used from the command line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


class Distribution:
    """A distribution in a folder of its own, as pip would install one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

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
        paths = os.pathsep.join((str(self.folder), str(ROOT)))
        return subprocess.run(
            [sys.executable, "-m", "attnlab", *words],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": paths, "COLUMNS": "200"},
            cwd=self.folder,
            check=False,
        )


@pytest.fixture
def distribution(tmp_path: Path) -> Distribution:
    return Distribution(tmp_path)


READER = """
from attnlab.corpora.readers import Reader, read_sentences

def read(path, languages):
    lines = read_sentences(path)
    yield from zip(lines[::2], lines[1::2], strict=True)

READER = Reader("a line, its translation", read)
"""


def test_a_corpus_reader(distribution: Distribution) -> None:
    distribution.register("attnlab.corpora", "toy", READER, "READER")
    lines = [f"{word} {n}\n" for n in range(50) for word in ("a cat sees dog", "gatto vede")]
    (distribution.folder / "pairs.toy").write_text("".join(lines))
    known = distribution.attnlab("corpora")
    assert "PATH.toy" in known.stdout, known.stderr
    assert "a line, its translation" in known.stdout
    found = distribution.attnlab("corpora", "pairs.toy")
    assert "46" in found.stdout, found.stderr
    sizes = ["--dim", "8", "--heads", "2", "--feed-forward", "8", "--vocabulary", "60"]
    words = [
        "train",
        "run",
        "--corpus",
        "pairs.toy",
        "--epochs",
        "1",
        "--batch-tokens",
        "400",
        *sizes,
    ]
    trained = distribution.attnlab(*words)
    assert trained.returncode == 0, trained.stderr
    assert (distribution.folder / "run" / "model.safetensors").exists()


def test_what_is_no_reader_is_named(distribution: Distribution) -> None:
    distribution.register("attnlab.corpora", "toy", READER, "read")
    refused = distribution.attnlab("corpora")
    assert refused.returncode == 2
    assert "'toy', registered under attnlab.corpora, is no" in refused.stderr
