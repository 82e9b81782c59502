"""The files of a run directory, by their names and `settings.json`; nothing heavy is imported."""

import itertools
import os
import re
import shutil
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from attnlab.core import (
    PRETRAINED_MARKS,
    RESULT_MARK,
    RUN_MARK,
    AttnlabError,
    InputError,
    delete,
    delete_leftovers,
    document_text,
    fitting,
    flush_to_disk,
    parse_json,
    read_json,
    reason,
    set_usual_permissions,
    similar_folder,
    write_json,
)
from attnlab.corpora import corpus_paths
from attnlab.models.training_settings import OWN_TYPES, RUN_FORMAT, TRANSLATION, settings_from

SETTINGS = RUN_MARK
# The one file of a run that says where on this machine something lies; a run is handed on without it.
LOCAL = "local_paths.json"
WEIGHTS = "model.safetensors"
_ADVICE = "restore it or train again into another folder"
# What takes hours to make; it is never deleted along with the model that it is of.
STUDIES = ("importance", "pruning", "comparison")
# Where an older run stays while another takes its place; `replacing` says in which order.
MOVING, REPLACED, DELETED = ".moving-run", ".replaced-run", ".deleted-run"


@dataclass(frozen=True)
class _Numbered:
    """The part that records of all formats have."""

    format: int


@dataclass(frozen=True)
class _Pairs:
    train: Annotated[int, Field(ge=0)]
    validation: Annotated[int, Field(ge=0)]
    test: Annotated[int, Field(ge=0)]


@dataclass(frozen=True)
class _Corpus:
    name: str
    checksum: str
    pairs: _Pairs
    dropped_over_max_tokens: Mapping[str, Annotated[int, Field(ge=0)]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Record:
    """The parts of a record that readers of a run rely on."""

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
    if {"format", "settings", "corpus"} <= set(record):
        return True
    kind = _configuration(path.parent / "config.json").get("model_type")
    return path.is_file() and kind in OWN_TYPES


def is_model(folder: str | Path) -> bool:
    """Whether `folder` is a run, or what `save_pretrained` wrote of a model or an adapter."""
    marks = (Path(folder) / name for name in PRETRAINED_MARKS)
    return is_run(folder) or any(_OF_MODELS & set(_configuration(path)) for path in marks)


# One of them is in every configuration of a model or an adapter, and in hardly any other file of the name.
_OF_MODELS = {"model_type", "architectures", "peft_type"}


def _configuration(path: Path) -> dict[str, Any]:
    """The table in a file of JSON; empty where it holds something else."""
    try:
        return fitting(dict[str, Any], parse_json(document_text(path)))
    except InputError:
        return {}


def check_has_sentences(source: str | Path, options: str) -> None:
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
            f"{options}.{similar_folder(path)}"
        )
    else:
        msg = f"{source} is no run of attnlab and brings no sentences; add {options}."
    raise InputError(msg, options=["text", "corpus"])


def read_record(folder: str | Path) -> dict[str, Any]:
    """The content of `settings.json`, checked.

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


@dataclass(frozen=True, kw_only=True)
class LocalPaths:
    """Absolute paths on this machine of what a run was made from; None for what is in no file.

    Attributes:
        corpus: the file or folder, or what the names of the files begin with.
        embeddings: those that training started from.
        note: what a reader of the file is told.
    """

    corpus: str | None = None
    embeddings: str | None = None
    note: str = "Paths on this machine. Leave this file out when you hand the run on."


def write_local(folder: str | Path, paths: LocalPaths) -> None:
    """Writes `local_paths.json`, atomically, where there is a path to write.

    Raises:
        AttnlabError: the disk is full or the folder cannot be written.
    """
    if paths != LocalPaths():
        write_json(Path(folder) / LOCAL, asdict(paths))


def read_local(folder: str | Path) -> LocalPaths:
    """The paths of `local_paths.json`; none where there is no such file, as in a run that was handed on.

    Raises:
        InputError: it is damaged.
    """
    path = Path(folder) / LOCAL
    return read_json(path, LocalPaths, advice=_ADVICE) if path.exists() else LocalPaths()


def corpus_paths_of(folder: str | Path) -> list[Path]:
    """The files and folders on this machine that hold the corpus of a run; none where `folder` is no run."""
    try:
        record = read_record(folder) if is_run(folder) else None
    except InputError:  # told by whoever reads the run
        record = None
    if record is None:
        return []
    names = read_local(folder).corpus, settings_from(record["settings"]).corpus.name
    return [path for name in names if name for path in corpus_paths(name)]


def no_run(source: str | Path) -> InputError:
    """The error that says what there is in the stead of a run, and where a run may be had."""
    path = Path(source)
    if path.is_file():
        return InputError(f"{path} is a file; name a run directory that attnlab train has made.")
    if not path.is_dir() or not any(path.iterdir()):
        advice = similar_folder(path) or f" Make one with: attnlab train {path}"
        return InputError(f"{path} is not a run directory (no {SETTINGS}).{advice}")
    advice = "name a run directory that attnlab train has made"
    near = [folder for folder in (path.parent, *sorted(path.iterdir())) if is_run(folder)]
    if near:
        advice += f", such as {near[0]}"
    if any((path / name).is_file() for name in PRETRAINED_MARKS):
        holds = "holds a transformers model, which other commands take, such as analyze and compare"
    elif (path / RESULT_MARK).is_file():
        holds = "holds results"
    else:
        holds = "holds other files"
    return InputError(f"{path} is not a run directory but {holds}; {advice}.")


def task_of(record: dict[str, Any]) -> str:
    """The task that the model of a run learned, from its record."""
    return settings_from(record["settings"]).model.task


def check_task(folder: str | Path, task: str, expected: str) -> None:
    """Raises InputError where a run has learned another task than a command is for."""
    if task == expected:
        return
    if expected == TRANSLATION:
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


def check_no_run(folder: str | Path, *, overwrite: bool) -> None:
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
    check_no_results(folder)


def check_no_results(folder: str | Path, names: Sequence[str] = STUDIES) -> None:
    """Raises where results stand in `folder` that a new model in it would make wrong.

    Args:
        folder: a run.
        names: of the folders in it that hold results.

    Raises:
        InputError: see above.
    """
    folder = Path(folder)
    nonempty = [name for name in names if any((folder / name).glob("*"))]
    if nonempty:
        msg = (
            f"{folder} holds results of its model ({', '.join(nonempty)}); move or delete them, or write "
            "to another folder."
        )
        raise InputError(msg)


def is_aside(folder: str | Path) -> bool:
    """Whether a run is set aside in `folder`, or was being moved there or back."""
    return any((Path(folder) / name).is_dir() for name in (MOVING, REPLACED))


def replaced_run(folder: str | Path) -> Path | None:
    """The folder of the run that the one in `folder` replaces; None when there is none."""
    path = Path(folder) / REPLACED
    return path if path.is_dir() else None


def ways_on(folder: str | Path) -> str:
    """A clause that says what can be done where a run and the one that it replaces are both kept."""
    folder = Path(folder)
    return (
        f"the replaced run is kept in {folder / REPLACED} until the new one is trained: "
        f"attnlab train {folder} --resume does that; to go back, delete {folder / SETTINGS} and type "
        f"attnlab train {folder}; to drop the replaced run, delete {folder / REPLACED}"
    )


CHECKPOINTS = "checkpoints"
# Weights of chosen steps, which no training goes on from.
KEPT = "kept_checkpoints"
TOKENIZERS = ("source_tokenizer", "target_tokenizer")
# A result in the folder of a run, which training deletes with the run alone.
ANALYSIS = "analysis"
# The settings come first: a folder without them is no run, so that half a run is never one.
RUN_FILES = (
    SETTINGS, LOCAL, "config.json", "generation_config.json", "model.safetensors", "metrics.jsonl",
    "tokenizer.json", "tokenizer_config.json", "token_counts.json", CHECKPOINTS,
    KEPT, *TOKENIZERS, ANALYSIS,
)  # fmt: skip
STATE = "trainer_state.json"
# The Trainer begins with a new optimizer where either of the last two is missing.
COMPLETE = ("model.safetensors", "optimizer.pt", "scheduler.pt")
# A checkpoint that is being written; a killed process leaves it behind.
UNFINISHED = ".unfinished"
_CHECKPOINT = re.compile(r"checkpoint-([0-9]+)")
_KEPT_STEP = re.compile(r"step-([0-9]+)")


def run_paths(folder: Path) -> list[Path]:
    """Paths that training wrote in `folder`, its settings first, and the folder `analysis`.

    Among them are the temporary files of a process that was killed while it wrote one of these.
    """
    paths = [folder / name for name in RUN_FILES if os.path.lexists(folder / name)]
    patterns = (".model-*", *(f".{name}.*" for name in RUN_FILES))
    return paths + [path for pattern in patterns for path in sorted(folder.glob(pattern))]


def check_not_run(folder: str | Path, what: str) -> None:
    """Raises where `what` is to be written straight into a run, or into a folder that training keeps.

    Raises:
        InputError: see above.
    """
    if is_run(folder):
        msg = f"{folder} is a run, which the {what} leaves as it is; name another folder, or one in it."
        raise InputError(msg)
    check_not_run_file(folder)


def check_not_run_file(path: str | Path) -> None:
    """Raises where something is to be written to or among the files that training writes and deletes.

    Raises:
        InputError: see above.
    """
    whole = Path(path).absolute()
    for inner, folder in itertools.pairwise((whole, *whole.parents)):
        if inner.name in RUN_FILES and inner.name != ANALYSIS and is_run(folder):
            msg = (
                f"{path} is among the files of the run in {folder}, which training replaces and "
                "deletes; name another place."
            )
            raise InputError(msg)


def delete_unfinished(folder: Path) -> None:
    """Deletes what a process that was killed while it wrote files of a run left of them.

    Raises:
        OSError: something cannot be deleted.
    """
    for path in folder.glob(".model-*"):
        delete(path)
    delete_leftovers(folder, RUN_FILES)
    for tokenizer in TOKENIZERS:
        if not (folder / tokenizer).is_symlink():
            delete_leftovers(folder / tokenizer, ("tokenizer.json", "tokenizer_config.json"))


def remove_run(folder: Path) -> None:
    """Deletes what training wrote into `folder`, and the folder `analysis`; all else stays.

    Raises:
        AttnlabError: something cannot be deleted; the folder is no run any more then.
    """
    for path in run_paths(folder):
        try:
            delete(path)
        except OSError as error:
            msg = f"Could not delete {path}: {error.strerror or error}; delete it by hand."
            raise AttnlabError(msg) from error


def checkpoint_path(folder: Path, step: int) -> Path:
    """The path of the checkpoint of this optimizer step in the run in `folder`."""
    return folder / CHECKPOINTS / f"checkpoint-{step}"


def checkpoint_step(path: str | Path) -> int | None:
    """The optimizer step that a checkpoint is named after; None for a name that is no checkpoint's.

    >>> checkpoint_step("run/checkpoints/checkpoint-34"), checkpoint_step("checkpoint-34-backup")
    (34, None)
    """
    match = _CHECKPOINT.fullmatch(Path(path).name)
    return None if match is None else int(match[1])


def checkpoints_by_step(folder: Path) -> dict[int, Path]:
    """The checkpoints of the run in `folder`, the oldest first, whether complete or not."""
    steps = {path: checkpoint_step(path) for path in (folder / CHECKPOINTS).glob("checkpoint-*")}
    return dict(sorted((step, path) for path, step in steps.items() if step is not None))


def kept_path(folder: Path, step: int) -> Path:
    """The path of the weights that the run in `folder` keeps of an optimizer step."""
    return folder / KEPT / f"step-{step:06}"


def kept_steps(folder: Path) -> list[int]:
    """The steps of which the run in `folder` keeps weights, whether they can be read or not."""
    matches = (
        _KEPT_STEP.fullmatch(path.parent.name) for path in (folder / KEPT).glob(f"*/{WEIGHTS}")
    )
    return sorted(int(match[1]) for match in matches if match is not None)


def complete_checkpoints(folder: Path) -> list[Path]:
    """The checkpoints that hold all their files, the newest first; whether these can be read is not asked."""
    newest_first = reversed(checkpoints_by_step(folder).values())
    return [
        path for path in newest_first if all((path / name).exists() for name in (STATE, *COMPLETE))
    ]


def last_complete_checkpoint(folder: Path) -> Path | None:
    """The newest checkpoint that holds all its files."""
    return next(iter(complete_checkpoints(folder)), None)


@contextmanager
def new_checkpoint(folder: Path, step: int) -> Iterator[Path]:
    """Yields a folder in which to write `checkpoint-STEP`; it takes its place when the block ends well.

    A checkpoint of that step that is there, a damaged one say, is deleted then. If the block raises,
    all is as it was.

    Raises:
        OSError: the disk is full or cannot be written.
    """
    target = checkpoint_path(folder, step)
    unfinished = target.parent / UNFINISHED
    if unfinished.is_symlink():
        unfinished.unlink()
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        yield unfinished
        written = unfinished / target.name
        set_usual_permissions(written)
        for path in (*written.iterdir(), written):
            flush_to_disk(path)
        if os.path.lexists(target):
            delete(target)
        written.rename(target)
        flush_to_disk(target.parent)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def delete_older_checkpoints(folder: Path, keep: Container[int | None]) -> None:
    """Deletes all checkpoints but the two newest and those of the steps in `keep`.

    The Trainer's own limit also deletes copies such as `checkpoint-34-backup`.
    """
    for step, path in list(checkpoints_by_step(folder).items())[:-2]:
        if step not in keep:
            shutil.rmtree(path, ignore_errors=True)


def is_trained(folder: Path) -> bool:
    """Whether something of the run in `folder` is trained: there is a model or a complete checkpoint."""
    model = os.path.lexists(folder / "model.safetensors")
    return model or last_complete_checkpoint(folder) is not None
