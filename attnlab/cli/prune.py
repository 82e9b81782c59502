"""`attnlab prune`: which heads a run can do without, and at what price."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attnlab.cli.options import Device, Sites
from attnlab.cli.progress import progress_bars

if TYPE_CHECKING:
    from rich.table import Table

    from attnlab.studies.pruning.pruning import Pruning


def prune(
    run: Annotated[
        Path, typer.Argument(help="A run directory of attnlab train; it is not changed.")
    ],
    *,
    penalty: Annotated[
        list[float] | None,
        typer.Option(
            help="Price of an open head in nats a token; may be given again. "
            "Default: from nearly all heads left to nearly none."
        ),
    ] = None,
    sites: Sites = None,
    steps: Annotated[
        int | None, typer.Option(help="Batches of training at each penalty; default: 300.")
    ] = None,
    epochs: Annotated[
        float | None, typer.Option(help="Passes over the training pairs, instead of --steps.")
    ] = None,
    frozen: Annotated[
        bool, typer.Option("--frozen", help="Train the gates alone, not the model along with them.")
    ] = False,
    random: Annotated[
        bool,
        typer.Option(
            "--random/--no-random",
            help="Close as many random heads beside, for comparison; doubles the time.",
        ),
    ] = True,
    sentences: Annotated[
        int,
        typer.Option(
            "--sentences", "-n", help="Sentences to measure on, of validation and of test."
        ),
    ] = 1000,
    batch_tokens: Annotated[
        int | None, typer.Option(help="Tokens a batch and side; default: as the run was trained.")
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Seed of batches, gates, dropout, random heads and bootstrap.")
    ] = 0,
    device: Device = None,
    save: Annotated[
        bool,
        typer.Option("--save", help="Write every pruned model as a run, to OUT/models/penalty_X."),
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Where to write; default: RUN/pruning.")] = None,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite",
            help="Replace an earlier pruning and the models it saved, or files of its names.",
        ),
    ] = False,
) -> None:
    """Learn which heads a run can do without: heads left against BLEU, a model a penalty.

    Gates on the heads are trained along with the model; heads whose gate ends nearer to 0 than to 1
    are closed for good. Writes curve.csv, gates.csv, training.csv, the figure curve (svg, png) and
    pruning.md, which explains the columns.
    """
    from attnlab.reporting.result_folder import refuse_pruning
    from attnlab.studies.pruning.penalties import PENALTIES

    folder = out or run / "pruning"
    penalties = penalty or PENALTIES
    refuse_pruning(folder, overwrite=overwrite, saved=penalties if save else ())

    from rich.console import Console

    from attnlab.addresses import sites_named
    from attnlab.reporting.pruning_folder import write_pruning
    from attnlab.studies.pruning import pruning
    from attnlab.translation.quiet import quiet

    with quiet(), progress_bars() as tell:
        found = pruning.prune(
            run,
            penalties,
            sites=sites_named(sites),
            steps=steps,
            epochs=epochs,
            seed=seed,
            train_model=not frozen,
            random=random,
            sentences=sentences,
            batch_tokens=batch_tokens,
            device=device,
            keep_models=save,
            progress=tell,
        )
        runs = write_pruning(found, folder, command=" ".join(["attnlab", *sys.argv[1:]]))
    console = Console()
    console.print(_summary(found))
    console.print(_advice(found), soft_wrap=True)
    for warning in found.warnings:
        console.print(f"[yellow]Note:[/yellow] {warning}", soft_wrap=True)
    for path in runs.values():
        console.print(f"Pruned run: {path}", soft_wrap=True)
    console.print(f"Wrote {folder}", soft_wrap=True)


def _summary(found: "Pruning") -> "Table":
    """The test part of the curve in at most 80 columns."""
    from rich.table import Table

    test = found.curve[found.curve["split"] == "test"]
    sites = [name.removesuffix("_left") for name in map(str, test) if name.endswith("_left")]
    sites.remove("heads")
    table = Table(
        title=f"{found.curve['heads'].iloc[0]} heads, {test['sentences'].iloc[0]} test sentences",
        title_justify="left",
        # Nine columns fit 80 characters only without lines between them.
        box=None,
        padding=(0, 1),
        pad_edge=False,
        collapse_padding=True,
    )
    table.add_column("model", no_wrap=True)
    table.add_column("penalty", justify="right")
    for name in ("left", *sites, "loss", "BLEU"):
        table.add_column(name, justify="right")
    table.add_column("change of BLEU", justify="right", no_wrap=True)
    for row in test.to_dict("records"):
        change = ""
        if row["kind"] != "unpruned":
            low, high = row["bleu_change_low"], row["bleu_change_high"]
            change = f"{row['bleu_change']:+.1f} [{low:+.1f}, {high:+.1f}]".replace("[", r"\[")
        table.add_row(
            row["kind"],
            "" if row["penalty"] != row["penalty"] else f"{row['penalty']:g}",
            str(row["heads_left"]),
            *(str(row[f"{site}_left"]) for site in sites),
            f"{row['loss_nats']:.2f}",
            f"{row['bleu']:.1f}",
            change,
        )
    return table


def _advice(found: "Pruning") -> str:
    """The smallest model that costs little, chosen on validation."""
    from attnlab.studies.pruning.curve import TOLERANCE, fewest_heads

    pruned = found.curve[found.curve["kind"] == "pruned"]
    if (pruned["heads_left"] == pruned["heads"]).all():
        return "No penalty closed a head."
    penalty = fewest_heads(found.curve)
    if penalty is None:
        return f"No penalty that closed heads kept validation BLEU within {TOLERANCE} of the unpruned run."
    test = pruned[(pruned["penalty"] == penalty) & (pruned["split"] == "test")].iloc[0]
    return (
        f"Fewest heads within {TOLERANCE} BLEU of the run on validation: {test['heads_left']} "
        f"(penalty {penalty:g}); test BLEU {test['bleu']:.1f}."
    )
