"""What stands in a run directory, told by its names and `settings.json`; nothing heavy is imported."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge

from attnlab.documents import document_text, fitting, parse_json, read_json
from attnlab.errors import InputError, reason
from attnlab.folders import PRETRAINED_MARKS, RESULT_MARK, RUN_MARK
from attnlab.translation.model_settings import OWN_TYPES, TRANSLATION
from attnlab.translation.settings import RUN_FORMAT, settings_from

SETTINGS = RUN_MARK
WEIGHTS = "model.safetensors"
_ADVICE = "restore it or train again into another folder"
# What takes hours to make; it is never deleted along with the model that it is of.
STUDIES = ("importance", "pruning", "substitution")
# Where an older run stays while another takes its place; `replacing` says in which order.
MOVING, REPLACED, DELETED = ".moving-run", ".replaced-run", ".deleted-run"


@dataclass(frozen=True)
class _Numbered:
    """What a record of any format has."""

    format: int


@dataclass(frozen=True)
class _Pairs:
    train: Annotated[int, Ge(0)]
    validation: Annotated[int, Ge(0)]
    test: Annotated[int, Ge(0)]


@dataclass(frozen=True)
class _Corpus:
    name: str
    checksum: str
    pairs: _Pairs
    path: str | None = None
    dropped_over_max_tokens: Mapping[str, Annotated[int, Ge(0)]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Record:
    """What readers of a run rely on."""

    settings: Mapping[str, Any]
    corpus: _Corpus


def is_run(folder: str | Path) -> bool:
    """Whether `folder` is a run, whole or damaged.

    It is one when its `settings.json` has the parts that attnlab writes; that of another program does
    not count. A damaged run counts, and `load` then says so: where a `config.json` stands beside a
    `settings.json` that is no table of JSON, or that of one of attnlab's own models beside one that lacks
    parts. Whether a model is there yet is not asked.
    """
    path = Path(folder) / SETTINGS
    try:
        record = fitting(dict[str, Any], parse_json(document_text(path)))
    except InputError:
        return path.is_file() and (path.parent / "config.json").is_file()
    whole = {"format", "settings", "corpus"} <= set(record)
    return whole or (path.is_file() and _holds_own_model(path.parent))


def _holds_own_model(folder: Path) -> bool:
    """Whether the `config.json` of a folder is that of a model that attnlab trains."""
    try:
        found = fitting(dict[str, Any], parse_json(document_text(folder / "config.json")))
    except InputError:
        return False
    return found.get("model_type") in OWN_TYPES


def refuse_without_sentences(source: str | Path, options: str) -> None:
    """Raises where `source` is no run, the one kind of model that brings sentences of its own.

    Args:
        source: a folder, or the name of a model on the hub.
        options: how the caller can be given sentences, in words.

    Raises:
        InputError: see above; the message tells files, folders and what is not there apart.
    """
    path = Path(source)
    if is_run(path):
        return
    if path.is_file():
        msg = f"{source} is a file; give the folder of a run or of a model."
    elif not path.exists():
        msg = (
            f"There is no folder {source}; give a run, or for a model of that name on the hub add "
            f"{options}."
        )
    else:
        msg = f"{source} is no run of attnlab and brings no sentences; add {options}."
    raise InputError(msg)


def read_record(folder: str | Path) -> dict[str, Any]:
    """What `settings.json` says.

    Raises:
        InputError: it is missing, of a newer format, or damaged, where the field is named.
    """
    folder = Path(folder)
    path = folder / SETTINGS
    if not path.exists() and is_aside(folder):
        msg = (
            f"Replacing the run in {folder} was cut short; put it back with: attnlab train {folder}"
        )
        raise InputError(msg)
    if not path.is_file():
        raise no_run(folder)
    record = read_json(path, dict[str, Any], advice=_ADVICE)
    try:
        written = fitting(_Numbered, record).format
        if written <= RUN_FORMAT:
            settings_from(dict(fitting(_Record, record).settings))
    except InputError as error:
        msg = f"{path} is damaged ({reason(error)}); {_ADVICE}."
        raise InputError(msg) from error
    if written > RUN_FORMAT:
        msg = (
            f"{folder} was written by a newer attnlab (format {written}, this one reads up to "
            f"{RUN_FORMAT}); update attnlab to read it."
        )
        raise InputError(msg)
    return record


def no_run(source: str | Path) -> InputError:
    """The error that says what there is in the stead of a run, and where a run may be had."""
    path = Path(source)
    if path.is_file():
        return InputError(f"{path} is a file; name a run directory that attnlab train has made.")
    if not path.is_dir() or not any(path.iterdir()):
        msg = f"{path} is not a run directory (no {SETTINGS}); make one with: attnlab train {path}"
        return InputError(msg)
    wanted = "name a run directory that attnlab train has made"
    near = [one for one in (path.parent, *sorted(path.iterdir())) if is_run(one)]
    if near:
        wanted += f", such as {near[0]}"
    if any((path / name).is_file() for name in PRETRAINED_MARKS):
        holds = "holds a transformers model, which analyze, compare, importance and inspect take"
    elif (path / RESULT_MARK).is_file():
        holds = "holds results"
    else:
        holds = "holds other files"
    return InputError(f"{path} is not a run directory but {holds}; {wanted}.")


def task_of(record: dict[str, Any]) -> str:
    """What the model of a run learned, by `read_record`."""
    return settings_from(record["settings"]).model.task


def refuse_other_task(folder: str | Path, task: str, wanted: str) -> None:
    """Raises InputError where a run has learned another task than a command is for."""
    if task == wanted:
        return
    if wanted == TRANSLATION:
        msg = (
            f"{folder} is a language model, which translates nothing; let it write with: attnlab "
            f"generate {folder}."
        )
    else:
        msg = (
            f"{folder} is a translation model, which writes no text of its own; use: attnlab translate "
            f"{folder}."
        )
    raise InputError(msg)


def refuse_existing(folder: str | Path, *, overwrite: bool) -> None:
    """Raises InputError where training into `folder` would damage what is there."""
    folder = Path(folder)
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not is_run(folder):
        msg = f"{folder} exists and is not a run directory; choose another folder for the run."
        raise InputError(msg)
    if not overwrite:
        msg = (
            f"{folder} already holds a run; go on with attnlab train {folder} --resume, or start anew "
            f"with attnlab train {folder} --overwrite."
        )
        raise InputError(msg)
    if replaced_run(folder) is not None:
        msg = f"{folder} holds two runs: {ways_on(folder)}."
        raise InputError(msg)
    refuse_results(folder)


def refuse_results(folder: str | Path, names: Sequence[str] = STUDIES) -> None:
    """Raises where results stand in `folder` that a new model in it would make wrong.

    Args:
        folder: a run.
        names: of the folders in it that hold results.

    Raises:
        InputError: see above.
    """
    folder = Path(folder)
    found = [name for name in names if any((folder / name).glob("*"))]
    if found:
        msg = (
            f"{folder} holds results of its model ({', '.join(found)}); move or delete them, or write "
            "to another folder."
        )
        raise InputError(msg)


def is_aside(folder: str | Path) -> bool:
    """Whether a run is set aside in `folder`, or was being moved there or back."""
    return any((Path(folder) / name).is_dir() for name in (MOVING, REPLACED))


def replaced_run(folder: str | Path) -> Path | None:
    """Where the run is that the one in `folder` replaces; None when there is none."""
    path = Path(folder) / REPLACED
    return path if path.is_dir() else None


def ways_on(folder: str | Path) -> str:
    """What can be done where a run and the one that it replaces are both kept, as a clause."""
    folder = Path(folder)
    return (
        f"the replaced run is kept in {folder / REPLACED} until the new one is trained: "
        f"attnlab train {folder} --resume does that; to go back, delete {folder / SETTINGS} and type "
        f"attnlab train {folder}; to drop the replaced run, delete {folder / REPLACED}"
    )
