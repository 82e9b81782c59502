"""The models of a pruning: runs in the folder of its result; nothing heavy is imported."""

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnlab.core import AttnlabError, InputError, interrupted_result, write_json
from attnlab.models import (
    SETTINGS,
    STUDIES,
    check_no_results,
    is_run,
    read_local,
    read_record,
    run_paths,
    write_local,
)
from attnlab.questions.prune.question import PruningSettings
from attnlab.results import Extra, QuestionFiles

if TYPE_CHECKING:
    from torch import Tensor

    from attnlab.models import Run

MODELS = "models"


class PruningFiles(QuestionFiles):
    """The files of a pruning, its models among them; runs of other origin beside these are not its own."""

    def taken(self, folder: str | Path) -> list[str]:
        """The names in `folder` that a pruning would write, or may."""
        return [*super().taken(folder), *([MODELS] if _runs(folder) else [])]

    def older(self, folder: str | Path) -> list[Path]:
        """The files of an older pruning and of its models."""
        return [*super().older(folder), *(file for run in _runs(folder) for file in _files(run))]

    def named(self, settings: PruningSettings) -> list[str]:
        """The models that a pruning with these settings writes."""
        return [pruned_run(penalty) for penalty in settings.penalties if settings.keep_models]

    def refuse(self, folder: str | Path, extra: Iterable[str]) -> None:
        """Raises where a model that would be replaced holds results, or is none of a pruning.

        Raises:
            InputError: see above; all is left as it is.
        """
        older = _runs(folder)
        for path in older:
            check_no_results(path, ("analysis", *STUDIES))
        for path in (Path(folder) / name for name in extra):
            if os.path.lexists(path) and path not in older and not _cut_short(path, Path(folder)):
                msg = (
                    f"{path} is no pruned run of an older pruning; move it, or name another folder."
                )
                raise InputError(msg)

    def load(self, folder: str | Path) -> Extra:
        """The models in a folder, each with what copies it."""
        return {
            f"{MODELS}/{run.name}": partial(_copy, run, read_record(run)) for run in _runs(folder)
        }


def pruned_run(penalty: float) -> str:
    """Where the model of a penalty is saved in the folder of a pruning."""
    return f"{MODELS}/penalty_{penalty:g}"


def write_pruned_run(
    run: "Run", state: "dict[str, Tensor]", facts: Mapping[str, Any], folder: str | Path
) -> None:
    """A run directory with the pruned model, the run's tokenizers, and how it came about."""
    from attnlab.models import save_model

    folder = Path(folder)
    start = {name: tensor.clone() for name, tensor in run.model.state_dict().items()}
    folder.mkdir(parents=True, exist_ok=True)
    try:
        run.model.load_state_dict(state)
        save_model(run.model, folder)
    finally:
        run.model.load_state_dict(start)
    run.tokenizers.save(folder)
    write_json(folder / SETTINGS, run.record | {"pruned": dict(facts)})
    write_local(folder, read_local(run.folder))


def _copy(run: Path, record: Mapping[str, Any], folder: Path) -> None:
    """The files of a pruned run.

    Raises:
        InputError: it is gone, or another.
        AttnlabError: it could not be copied.
    """
    if not is_run(run) or read_record(run) != record:
        msg = f"{run} is no longer the pruned run that it was; load the result of its folder again."
        raise InputError(msg)
    try:
        for file in _files(run):
            copied = folder / file.relative_to(run)
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, copied)
    except OSError as error:
        msg = f"Could not copy {run}: {error.strerror or error}."
        raise AttnlabError(msg) from error


def _runs(folder: str | Path) -> list[Path]:
    """The models that an older pruning saved in `folder`."""
    paths = sorted((Path(folder) / MODELS).glob("penalty_*"))
    return [path for path in paths if is_run(path) and "pruned" in read_record(path)]


def _cut_short(path: Path, folder: Path) -> bool:
    """Whether a model is what a process that was killed while it put one in place left of it."""
    if is_run(path) or not path.is_dir() or interrupted_result(folder) is None:
        return False
    return set(path.iterdir()) <= set(run_paths(path))


def _files(run: Path) -> Iterator[Path]:
    for path in run_paths(run):
        if path.is_dir() and not path.is_symlink():
            yield from (inner for inner in path.rglob("*") if not inner.is_dir())
        else:
            yield path
