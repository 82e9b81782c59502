"""Files, folders and models that options name, looked for before any work; nothing heavy is imported."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from attnlab.core import (
    PRETRAINED_MARKS,
    RUN_MARK,
    TREEBANK,
    InputError,
    Settings,
    check_file_exists,
    check_has_lines,
    option_fields,
    read_json,
)

_MODEL_FILES = (*PRETRAINED_MARKS, RUN_MARK)
_PLANS = "write one with: attnlab plan RUN --budget N --out FOLDER"


def check_source_exists(source: str, *, matrices: bool = False) -> None:
    """Raises InputError for a source that is no folder with a model, and no model on the hub.

    With `matrices`, a file of them is a source too.
    """
    from attnlab.core import is_matrix_file

    path = Path(source)
    if is_matrix_file(source) and not path.is_dir():
        if not matrices:
            msg = (
                f"{source} names a file of matrices, and a model is wanted; give a run or what "
                "save_pretrained wrote, or the matrices to attnlab analyze or approximate."
            )
            raise InputError(msg)
        check_matrix_file_exists(path)
    elif not source or not path.is_dir():
        from attnlab.core import model_source

        model_source(source)
    elif not _holds_model(path):
        inside = next((folder for folder in sorted(path.iterdir()) if _holds_model(folder)), None)
        advice = (
            "give a run of attnlab train, or what save_pretrained wrote"
            if inside is None
            else f"give {inside}"
        )
        msg = f"{source} holds no model ({', '.join(_MODEL_FILES)}); {advice}."
        raise InputError(msg)


def _holds_model(folder: Path) -> bool:
    """Whether a folder holds a run or a transformers model."""
    return any((folder / name).is_file() for name in _MODEL_FILES)


def check_matrix_file_exists(source: str | Path) -> None:
    """Raises InputError where there is no such file of matrices."""
    from attnlab.core import MATRIX_SUFFIXES

    path = Path(source)
    if path.is_dir():
        places = (path / "matrices.safetensors", path / "analysis" / "matrices.safetensors")
        kept = next((place for place in places if place.is_file()), None)
        example = kept or f"a file of matrices ({', '.join(MATRIX_SUFFIXES)})"
        msg = f"{path} is a folder; give {example}."
        raise InputError(msg)
    if not path.is_file():
        msg = (
            f"There is no file {path}; give matrices ({', '.join(MATRIX_SUFFIXES)}), such as "
            "matrices.safetensors of an analysis."
        )
        raise InputError(msg)


def check_plans(words: Iterable[str]) -> None:
    """Raises InputError where a word names a plan file that does not exist or is no JSON."""
    for word in words:
        name, equals, text = word.partition("=")
        path = Path(text if equals and name == "plan" else word)
        if path.suffix != ".json":
            continue
        if not path.is_file():
            msg = f"There is no plan file {path}; {_PLANS}."
            raise InputError(msg)
        read_json(path, Any, fault="is no attention plan", advice=_PLANS)


def check_corpus(name: str | None) -> None:
    """Raises InputError for a corpus that is an empty file, or a path where there is nothing."""
    if name is None:
        return
    from attnlab.corpora import check_corpus_exists

    check_corpus_exists(name)
    if Path(name).is_file() and Path(name).stat().st_size == 0:
        msg = f"{name} is empty; a corpus needs at least one sentence in each file."
        raise InputError(msg)


def check_named(settings: Settings) -> None:
    """Raises InputError where options name models, sentences, trees, plans or a corpus that are missing."""
    for field in option_fields(type(settings)):
        value = getattr(settings, field.name)
        for word in value if isinstance(value, list | tuple) else (value,):
            # In Python also what is loaded already.
            if field.option.names and isinstance(word, str | Path):
                _CHECKS[field.option.names](str(word))


_CHECKS: dict[str, Callable[[str], None]] = {
    "model": check_source_exists,
    "plan": lambda word: check_plans([word]),
    "texts": check_has_lines,
    "treebank": lambda path: check_file_exists(path, TREEBANK),
    "corpus": check_corpus,
}
