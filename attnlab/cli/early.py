"""What can be told at once of paths that were given, before libraries that take seconds to load."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from attnlab.core.documents import read_json
from attnlab.core.errors import InputError
from attnlab.core.folders import PRETRAINED_MARKS, RUN_MARK
from attnlab.core.options import Settings
from attnlab.core.texts import SENTENCES, TREEBANK, check_there

_MODEL_FILES = (*PRETRAINED_MARKS, RUN_MARK)
_PLANS = "write one with: attnlab plan RUN --budget N --out FOLDER"
# Fields of settings that name files.
_TEXTS = {"text": SENTENCES, "calibration_text": SENTENCES, "treebank": TREEBANK}


def check_source_there(source: str, *, matrices: bool = False) -> None:
    """Raises InputError for a source that is no folder with a model, and no model on the hub.

    With `matrices`, a file of them is a source too.
    """
    from attnlab.core.files import is_matrix_file

    path = Path(source)
    if is_matrix_file(source) and not path.is_dir():
        if not matrices:
            msg = (
                f"{source} names a file of matrices, and a model is wanted; give a run or what "
                "save_pretrained wrote, or the matrices to attnlab analyze or approximate."
            )
            raise InputError(msg)
        check_matrices_there(path)
    elif not source or not path.is_dir():
        from attnlab.core.hub import model_source

        model_source(source)
    elif not _holds_model(path):
        inside = next((one for one in sorted(path.iterdir()) if _holds_model(one)), None)
        advice = (
            "give a run of attnlab train, or what save_pretrained wrote"
            if inside is None
            else f"give {inside}"
        )
        msg = f"{source} holds no model ({', '.join(_MODEL_FILES)}); {advice}."
        raise InputError(msg)


def _holds_model(folder: Path) -> bool:
    return any((folder / name).is_file() for name in _MODEL_FILES)


def check_matrices_there(path: Path) -> None:
    """Raises InputError where there is no such file."""
    from attnlab.core.files import MATRIX_SUFFIXES

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
    from attnlab.corpora.corpus import check_corpus_there

    check_corpus_there(name)
    if Path(name).is_file() and Path(name).stat().st_size == 0:
        msg = f"{name} is empty; a corpus needs at least one sentence in each file."
        raise InputError(msg)


def check_texts_there(settings: Settings) -> None:
    """Raises InputError where settings name sentences, trees, plans or a corpus that are not there."""
    for name, wanted in _TEXTS.items():
        path = getattr(settings, name, None)
        if path is not None:
            check_there(path, wanted)
    check_plans(map(str, getattr(settings, "plans", ())))
    check_corpus(getattr(settings, "corpus", None))
