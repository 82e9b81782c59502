"""Writes a pruning: tables, the figure, and on request every pruned model as a run of its own."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from attnlab.files import write_json, write_table, write_text
from attnlab.folders import replacing_result
from attnlab.reporting.notes import describe_notes
from attnlab.reporting.page.result_page import (
    Contents,
    DrawnFigure,
    ShownTable,
    Tables,
    write_result_page,
)
from attnlab.reporting.pruning_curve import draw_pruning
from attnlab.reporting.record import ResultRecord, write_record
from attnlab.reporting.result_folder import (
    PRUNING,
    PRUNING_EXPLANATION,
    PRUNING_FIGURE,
    pruned_run_folder,
    pruned_runs,
)
from attnlab.studies.pruning.columns import CURVE, GATES, TABLES, TRAINING
from attnlab.studies.pruning.curve import LOSS_TOLERANCE, TOLERANCE, fewest_heads, has_bleu
from attnlab.studies.pruning.pruning import Pruning
from attnlab.translation.runs.checkpoints import save_model
from attnlab.translation.runs.files import run_paths
from attnlab.translation.runs.folder import SETTINGS


def write_pruning(pruning: Pruning, folder: str | Path, *, command: str = "") -> dict[float, Path]:
    """Writes tables, the figure and `pruning.md`, which explains them; returns the pruned runs by penalty.

    Models that were kept are written to `models/penalty_X`, each a run directory. An older pruning
    in the folder is replaced when the new one is whole.

    Raises:
        AttnlabError: something could not be written.
    """
    with replacing_result(folder, PRUNING.last, _older) as aside:
        tables = {
            CURVE.file: pruning.curve,
            GATES.file: pruning.gates,
            TRAINING.file: pruning.training,
        }
        for name, table in tables.items():
            write_table(aside / name, table)
        for penalty in pruning.models:
            _write_run(pruning, penalty, pruned_run_folder(aside, penalty), command)
        write_text(aside / PRUNING_EXPLANATION, _explanation(pruning))
        title, weights = "Heads left against BLEU", pruning.run.weights
        record = ResultRecord(PRUNING.what, title, pruning.about, pruning.notes, weights=weights)
        write_record(aside, record, tables)
        write_result_page(aside, pruning_contents)
    return {penalty: pruned_run_folder(folder, penalty) for penalty in pruning.models}


def pruning_contents(record: ResultRecord, tables: Tables) -> Contents:
    """What the page of a pruning shows."""
    curve = tables[CURVE.file]
    measure = "BLEU" if has_bleu(curve) else "loss"
    there = (curve["kind"] == "random").any()
    beside = ", beside as many heads closed at random" if there else ""
    figure = DrawnFigure(
        PRUNING_FIGURE,
        draw_pruning(curve),
        f"Left: change of {measure} on the test part against the unpruned run by heads left, with paired "
        f"95 % intervals{beside}. Right: the share of each site's heads that a penalty leaves.",
    )
    shown = (
        ShownTable(CURVE.file, "Heads left and scores", ("_p_value",)),
        ShownTable(GATES.file, "The gate of every head"),
        ShownTable(TRAINING.file, "Training of the gates"),
    )
    facts = {
        "Heads": str(curve["heads"].iloc[0]),
        "Penalties": ", ".join(f"{p:g}" for p in curve["penalty"].dropna().unique()),
        "Run": str(record.about["run"]),
        "Seed": str(curve["seed"].iloc[0]),
    }
    return Contents([smallest_model(curve)], facts, [figure], shown)


def smallest_model(curve: pd.DataFrame) -> str:
    """The model of fewest heads that costs little, chosen on validation, as a sentence."""
    translates = has_bleu(curve)
    within = f"{TOLERANCE} BLEU" if translates else f"{LOSS_TOLERANCE} nats per token"
    pruned = curve[curve["kind"] == "pruned"]
    if (pruned["heads_left"] == pruned["heads"]).all():
        return "No penalty closed a head."
    penalty = fewest_heads(curve)
    if penalty is None:
        return f"No penalty that closed heads stayed within {within} of the unpruned run on validation."
    test = pruned[(pruned["penalty"] == penalty) & (pruned["split"] == "test")].iloc[0]
    scored = f"BLEU {test['bleu']:.1f}" if translates else f"loss {test['loss_nats']:.2f}"
    return (
        f"Fewest heads within {within} of the run on validation: {test['heads_left']} "
        f"(penalty {penalty:g}); test {scored}."
    )


def _explanation(pruning: Pruning) -> str:
    title = f"Heads left against {'BLEU' if has_bleu(pruning.curve) else 'loss'}"
    drawn = f"![{title}]({PRUNING_FIGURE}.svg)"
    notes = (f"Note: {note}\n" for note in describe_notes(pruning.notes))
    tables = (table.explained() for table in TABLES)
    return "\n".join([f"# {title}", "", drawn, "", *notes, *tables])


def _older(folder: Path) -> Iterator[Path]:
    """The files of an older pruning and of its models; runs of other origin are left out."""
    yield from PRUNING.older(folder)
    for path in (path for run in pruned_runs(folder) for path in run_paths(run)):
        if path.is_dir() and not path.is_symlink():
            yield from (inner for inner in path.rglob("*") if not inner.is_dir())
        else:
            yield path


def _write_run(pruning: Pruning, penalty: float, folder: Path, command: str) -> None:
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
