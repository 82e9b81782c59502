"""What can be told at once of paths that were given, before libraries that take seconds to load."""

import json
from collections.abc import Iterable
from pathlib import Path

from attnlab.errors import InputError


def refuse_absent_source(source: str) -> None:
    """Raises InputError for a source that is no folder, no file of matrices and no model on the hub."""
    from attnlab.extraction.matrix_names import is_matrix_file

    path = Path(source)
    if is_matrix_file(source):
        refuse_absent_matrices(path)
    elif not path.is_dir():
        from attnlab.corpora.hub import model_source

        model_source(source)


def refuse_absent_matrices(path: Path) -> None:
    """Raises InputError where there is no such file."""
    from attnlab.extraction.matrix_names import SUFFIXES

    if not path.is_file():
        msg = (
            f"There is no file {path}; give matrices ({', '.join(SUFFIXES)}), such as "
            "matrices.safetensors of an analysis."
        )
        raise InputError(msg)


def refuse_damaged_plans(words: Iterable[str]) -> None:
    """Raises InputError where a word names a plan file that does not exist or is no JSON."""
    for word in words:
        name, equals, text = word.partition("=")
        path = Path(text if equals and name == "plan" else word)
        if path.suffix != ".json":
            continue
        if not path.is_file():
            msg = f"There is no plan file {path}; write one with: attnlab plan RUN --out {path}"
            raise InputError(msg)
        try:
            json.loads(path.read_text(encoding="utf-8"))
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            msg = f"{path} is no attention plan: it is not JSON ({error})."
            raise InputError(msg) from error


def refuse_empty_corpus(name: str | None) -> None:
    """Raises InputError for a corpus that is an empty file."""
    if name is not None and Path(name).is_file() and Path(name).stat().st_size == 0:
        msg = f"{name} is empty; a corpus needs at least one sentence in each file."
        raise InputError(msg)
