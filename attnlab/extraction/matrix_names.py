"""Which files hold matrices, told by their names; nothing heavy is imported."""

from pathlib import Path

SUFFIXES = (".npz", ".npy", ".safetensors")


def is_matrix_file(source: object) -> bool:
    """Whether `source` is the name of a file of matrices."""
    return isinstance(source, str | Path) and Path(source).suffix in SUFFIXES
