"""Writes a pruning: tables, the figure, and on request every pruned model as a run of its own."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from attnlab.errors import InputError
from attnlab.files import write_json, write_table
from attnlab.reporting.canvas import write_figure
from attnlab.reporting.pruning_curve import draw_pruning
from attnlab.reporting.result_folder import refuse_taken
from attnlab.studies.pruning import Pruning
from attnlab.translation.run import (
    SETTINGS,
    STUDIES,
    is_run,
    read_record,
    refuse_results,
    remove_run,
)
from attnlab.translation.training import save_model

FINISHED = "curve.csv"
FIGURE = "curve"
MODELS = "models"
_WRITTEN = (FINISHED, "gates.csv", "training.csv", f"{FIGURE}.svg", f"{FIGURE}.png", MODELS)


def refuse_pruning(folder: Path, *, overwrite: bool, saved: Iterable[float] = ()) -> None:
    """Raises when `folder` holds a pruning, or files of the same names, that may not be replaced.

    Args:
        folder: where the pruning is to be written.
        overwrite: whether an older pruning may be replaced, its models along with it.
        saved: penalties whose models are to be saved.

    Raises:
        InputError: see above, or `folder` is a file or a run, or a pruned run in it holds results,
            or where a model is to be saved something else stands; all is left as it is.
    """
    if is_run(folder):
        msg = f"{folder} is a run, which pruning leaves as it is; name another folder with --out."
        raise InputError(msg)
    refuse_taken(folder, what="pruning", finished=FINISHED, written=_WRITTEN, overwrite=overwrite)
    older = _pruned_runs(folder)
    for path in older:
        refuse_results(path, ("analysis", *STUDIES))
    for path in (_model_folder(folder, penalty) for penalty in saved):
        if path.exists() and path not in older:
            msg = f"{path} is no pruned run of an older pruning; move it, or name another folder with --out."
            raise InputError(msg)


def write_pruning(pruning: Pruning, folder: Path, *, command: str = "") -> dict[float, Path]:
    """Writes `gates.csv`, `training.csv`, `curve.svg`, `.png`, `curve.csv`; the pruned runs by penalty.

    Models that were kept are written to `models/penalty_X`, each a run directory. An older pruning
    in the folder is replaced: its `curve.csv` goes first and the new one comes last, so that a
    folder with it is always one whole pruning.

    Raises:
        AttnlabError: something could not be written.
    """
    _remove_older(folder)
    write_table(folder / "gates.csv", pruning.gates)
    write_table(folder / "training.csv", pruning.training)
    write_figure(draw_pruning(pruning.curve), folder, FIGURE)
    runs = {
        penalty: _write_run(pruning, penalty, _model_folder(folder, penalty), command)
        for penalty in pruning.models
    }
    write_table(folder / FINISHED, pruning.curve)
    return runs


def _remove_older(folder: Path) -> None:
    """Deletes the last file of an older pruning and its models; runs of other origin stay."""
    (folder / FINISHED).unlink(missing_ok=True)
    for path in _pruned_runs(folder):
        remove_run(path)
        if not any(path.iterdir()):
            path.rmdir()
    if (folder / MODELS).is_dir() and not any((folder / MODELS).iterdir()):
        (folder / MODELS).rmdir()


def _pruned_runs(folder: Path) -> list[Path]:
    """The models that an older pruning saved."""
    paths = sorted((folder / MODELS).glob("penalty_*"))
    return [path for path in paths if is_run(path) and "pruned" in read_record(path)]


def _model_folder(folder: Path, penalty: float) -> Path:
    return folder / MODELS / f"penalty_{penalty:g}"


def _write_run(pruning: Pruning, penalty: float, folder: Path, command: str) -> Path:
    """A run directory with the pruned model, the run's tokenizers, and how it came about."""
    run = pruning.run
    start = {name: tensor.clone() for name, tensor in run.model.state_dict().items()}
    folder.mkdir(parents=True, exist_ok=True)
    try:
        run.model.load_state_dict(pruning.models[penalty])
        save_model(run.model, folder)
    finally:
        run.model.load_state_dict(start)
    run.tokenizers.save(folder)
    told: dict[str, Any] = {
        **pruning.about,
        "penalty": penalty,
        "closed_heads": pruning.closed(penalty),
    }
    write_json(folder / SETTINGS, run.record | {"command": command, "pruned": told})
    return folder
