"""Writes a pruning: tables, the figure, and on request every pruned model as a run of its own."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from attnlab.errors import InputError
from attnlab.files import write_json, write_table, write_text
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
EXPLANATION = "pruning.md"
_WRITTEN = (
    FINISHED,
    "gates.csv",
    "training.csv",
    f"{FIGURE}.svg",
    f"{FIGURE}.png",
    EXPLANATION,
    MODELS,
)
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
    """Writes tables, the figure and `pruning.md`, which explains them; returns the pruned runs by penalty.

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
    write_text(folder / EXPLANATION, _COLUMNS)
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
