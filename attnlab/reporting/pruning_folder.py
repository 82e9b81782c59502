"""Writes a pruning: tables, the figure, and on request every pruned model as a run of its own."""

from pathlib import Path
from typing import Any

from attnlab.files import write_json, write_table, write_text
from attnlab.reporting.canvas import write_figure
from attnlab.reporting.pruning_curve import draw_pruning
from attnlab.reporting.result_folder import (
    MODELS,
    PRUNING,
    PRUNING_EXPLANATION,
    PRUNING_FIGURE,
    pruned_run_folder,
    pruned_runs,
)
from attnlab.studies.pruning.pruning import Pruning
from attnlab.translation.runs.checkpoints import save_model
from attnlab.translation.runs.files import remove_run
from attnlab.translation.runs.folder import SETTINGS

_COLUMNS = """\
# Heads left against BLEU

![Heads left against BLEU](curve.svg)

## curve.csv, a row a model and part of the corpus

- `kind`: `unpruned`, the run; `fine-tuned`, the run trained as many steps further with every head;
  `pruned`, heads closed by learned gates; `random`, as many heads of each site closed by chance from the
  first step.
- `penalty`: price of an open head, nats a token. `split`: `validation`, on which a penalty may be chosen,
  or `test`.
- `heads_left` of `heads`, and of each site.
- `loss_nats`: loss a target token, without label smoothing. `bleu`: greedy. `..._change`: against the
  unpruned run, with a 95% interval (`_low`, `_high`), and for BLEU a p-value, by a paired bootstrap
  over sentences; another draw of gates or heads may change more.
- `unsettled`: gates that are neither 0 nor 1 with probability 0.9 at the end.

## gates.csv, a row a penalty and head

- `p_zero`, `p_one`: probability that the head's gate is exactly 0, or exactly 1. `open`: 0 is not the
  likelier of the two.

## training.csv, a row a penalty and step

- `loss_nats`: loss of the batch in training, with dropout and label smoothing, without the penalty.
- `expected_open`: gates that are not 0 on average.
"""


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
    write_table(folder / "gates.csv", pruning.gates)
    write_table(folder / "training.csv", pruning.training)
    write_figure(draw_pruning(pruning.curve), folder, PRUNING_FIGURE)
    runs = {
        penalty: _write_run(pruning, penalty, pruned_run_folder(folder, penalty), command)
        for penalty in pruning.models
    }
    write_text(folder / PRUNING_EXPLANATION, _COLUMNS)
    write_table(folder / PRUNING.last, pruning.curve)
    return runs


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
