"""Why scores are divided by the root of the size of a head: drawn queries and keys, and trained models.

    python experiments/scale_of_scores/run.py

writes results/scale_of_scores/: table.csv (a row a size and scale, of drawn vectors), models.csv (a row a
trained model), a figure, README.md. The models, of the embedded corpus, take a minute of a core each.
"""

import tempfile
from pathlib import Path

import pandas as pd
import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

import attnlab
from attnlab.core import SITES, write_table
from attnlab.figures import PAGE, blank, colour, panel, save_figure, style
from attnlab.models import RunSettings, settings_from
from experiments.shared.readme import (
    RESULTS,
    markdown,
    read_facts,
    read_table,
    render,
    write_facts,
    write_readme,
)
from experiments.shared.runs import trained_run

OUT = RESULTS / "scale_of_scores"
DIMS, KEYS, ROWS, SEED = (1, 4, 16, 64, 256, 1024), 64, 2000, 0
SATURATED = 0.99
MODEL_SEEDS, TEXTS = (0, 1), 100
WITH, WITHOUT = "with the root", "without"


def main() -> None:
    """Draws, trains, and writes tables, figure and README."""
    table = pd.DataFrame([drawn(dim, scaled=scaled) for dim in DIMS for scaled in (True, False)])
    write_table(OUT / "table.csv", table)
    models = [trained(seed, scaled=scaled) for scaled in (True, False) for seed in MODEL_SEEDS]
    write_table(OUT / "models.csv", pd.DataFrame(models))
    save_figure(figure_of(table), OUT / "scale.svg")
    write_facts(OUT, __file__, "torch", "transformers", seed=SEED)
    write_readme(OUT, readme(OUT))


def drawn(dim: int, *, scaled: bool) -> dict[str, object]:
    """Rows of the softmax over products of standard normal vectors, and the norm of their Jacobian."""
    generator = torch.Generator().manual_seed(SEED)
    query = torch.randn(ROWS, 1, dim, generator=generator, dtype=torch.float64)
    key = torch.randn(ROWS, KEYS, dim, generator=generator, dtype=torch.float64)
    scores = (query @ key.mT)[:, 0] / (dim**0.5 if scaled else 1)
    s = scores.softmax(-1)
    jacobian, largest = jacobian_norm(s), s.amax(-1)
    return {
        "dim": dim, "scores": WITH if scaled else WITHOUT, "score_variance": scores.var().item(),
        "largest_weight": largest.mean().item(),
        "saturated_share": (largest > SATURATED).double().mean().item(),
        "jacobian_norm": jacobian.mean().item(), "median_jacobian_norm": jacobian.median().item(),
    }  # fmt: skip


def jacobian_norm(s: Float[Tensor, "*row key"]) -> Float[Tensor, "*row"]:
    """The Frobenius norm of the Jacobian of the softmax at rows that it gave.

    ::

        J = diag(s) - s s^T,   |J|^2 = sum s_i^2 - 2 sum s_i^3 + (sum s_i^2)^2
    """
    squares = s.square().sum(-1)
    return (squares - 2 * s.pow(3).sum(-1) + squares.square()).clamp_min(0).sqrt()


def settings(seed: int, *, scaled: bool) -> RunSettings:
    """A small model with one head of 128 dimensions a layer."""
    return settings_from(
        {
            "corpus": {"size": 1500},
            "tokenizer": {"vocabulary": 300},
            "model": {"dim": 128, "heads": 1, "feed_forward": 128, "scaled": scaled},
            "optimizer": {
                "epochs": 6, "batch_tokens": 1024, "warmup": 40, "seed": seed,
                "validation_sentences": 40, "precision": "fp32",
            },
        }
    )  # fmt: skip


def trained(seed: int, *, scaled: bool) -> dict[str, object]:
    """A model with or without the root: its losses, and the mean largest weight of rows of its heads."""
    with tempfile.TemporaryDirectory() as folder:
        run = trained_run(Path(folder) / "run", settings(seed, scaled=scaled))
        metrics = pd.DataFrame(run.metrics())
        pairs = run.corpus().validation
        texts = list(zip(pairs["source"][:TEXTS], pairs["target"][:TEXTS], strict=True))
        matrices = attnlab.capture(run, texts, keep_matrices=TEXTS).kept.matrices
    largest = {
        site: torch.cat(
            [kept.amax(-1).flatten() for (_, own, _), kept in matrices.items() if own == site]
        )
        for site in SITES
    }
    return {
        "scores": WITH if scaled else WITHOUT, "seed": seed,
        "first_loss": float(metrics["validation_loss"].iloc[0]),
        "validation_loss": float(metrics["validation_loss"].min()),
        **{f"largest_weight_{site}": weights.double().mean().item() for site, weights in largest.items()},
    }  # fmt: skip


def figure_of(table: pd.DataFrame) -> Figure:
    """Variance of the scores, largest weight and norm of the Jacobian against the size of a head."""
    panels = {
        "score_variance": "variance of a score", "largest_weight": "largest weight of a row",
        "jacobian_norm": "norm of the Jacobian",
    }  # fmt: skip
    with style():
        figure = blank(PAGE, 2.3)
        for number, (column, label) in enumerate(panels.items()):
            axes = panel(figure, 0.5 + number * PAGE / 3, 0.15, PAGE / 3 - 0.7, 1.6)
            for index, (name, rows) in enumerate(table.groupby("scores", sort=False)):
                axes.plot(
                    rows["dim"], rows[column], "o-", markersize=3, color=colour(index),
                    label=str(name),
                )  # fmt: skip
            axes.set(xscale="log", xlabel="size of a head", ylabel=label)
            if column == "score_variance":
                axes.set_yscale("log")
                axes.yaxis.set_major_formatter("{x:g}")
                axes.legend(frameon=False)
            axes.set_xticks(DIMS, [str(dim) for dim in DIMS])
            axes.minorticks_off()
            axes.spines[["top", "right"]].set_visible(False)
    return figure


def readme(folder: Path) -> str:
    """The README of the result, from its tables."""
    table, models = read_table(folder, "table"), read_table(folder, "models")
    rows = table.set_index(["scores", "dim"])
    return render(
        __file__, read_facts(folder), keys=KEYS, rows=ROWS, saturated=SATURATED, texts=TEXTS,
        table=markdown(table), models=markdown(models), dims=DIMS,
        small=rows.loc[WITHOUT, 64], middle=rows.loc[WITHOUT, 256],
        large=rows.loc[WITHOUT, 1024], root=rows.loc[WITH],
        means=models.groupby("scores").mean(numeric_only=True), names=(WITH, WITHOUT),
    )  # fmt: skip


if __name__ == "__main__":
    main()
