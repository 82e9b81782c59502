"""Writes a pruning: tables, the figure, and on request every pruned model as a run of its own."""

from pathlib import Path
from typing import Any

from attnlab.files import write_json, write_table, write_text
from attnlab.reporting.canvas import write_figure
from attnlab.reporting.notes import describe_notes
from attnlab.reporting.pruning_curve import draw_pruning
from attnlab.reporting.result_folder import (
    MODELS,
    PRUNING,
    PRUNING_EXPLANATION,
    PRUNING_FIGURE,
    pruned_run_folder,
    pruned_runs,
)
from attnlab.studies.pruning.columns import GATES, TABLES, TRAINING
from attnlab.studies.pruning.pruning import Pruning
from attnlab.translation.runs.checkpoints import save_model
from attnlab.translation.runs.files import remove_run
from attnlab.translation.runs.folder import SETTINGS


def write_pruning(pruning: Pruning, folder: str | Path, *, command: str = "") -> dict[float, Path]:
    """Writes tables, the figure and `pruning.md`, which explains them; returns the pruned runs by penalty.

    Models that were kept are written to `models/penalty_X`, each a run directory. An older pruning
    in the folder is replaced: its `curve.csv` goes first and the new one comes last, so that a
    folder with it is always one whole pruning.

    Raises:
        AttnlabError: something could not be written.
    """
    folder = Path(folder)
    _remove_older(folder)
    write_table(folder / GATES.file, pruning.gates)
    write_table(folder / TRAINING.file, pruning.training)
    write_figure(draw_pruning(pruning.curve), folder, PRUNING_FIGURE)
    runs = {
        penalty: _write_run(pruning, penalty, pruned_run_folder(folder, penalty), command)
        for penalty in pruning.models
    }
    write_text(folder / PRUNING_EXPLANATION, _explanation(pruning))
    write_table(folder / PRUNING.last, pruning.curve)
    return runs


def _explanation(pruning: Pruning) -> str:
    drawn = f"![Heads left against BLEU]({PRUNING_FIGURE}.svg)"
    notes = (f"Note: {note}\n" for note in describe_notes(pruning.notes))
    tables = (table.explained() for table in TABLES)
    return "\n".join(["# Heads left against BLEU", "", drawn, "", *notes, *tables])


def _remove_older(folder: Path) -> None:
    """Deletes the last file of an older pruning and its models; runs of other origin stay."""
    (folder / PRUNING.last).unlink(missing_ok=True)
    for path in pruned_runs(folder):
        remove_run(path)
        if not any(path.iterdir()):
            path.rmdir()
    if (folder / MODELS).is_dir() and not any((folder / MODELS).iterdir()):
        (folder / MODELS).rmdir()


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
