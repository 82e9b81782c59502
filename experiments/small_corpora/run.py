"""What the defaults of `attnlab train` make of small corpora, beside a fixed batch size and warm-up.

    python experiments/small_corpora/run.py ../shared/data/tatoeba

writes results/small_corpora/. Models go to runs/small_corpora/; those that are there with the same
settings are scored, not trained again.
"""

import argparse
from pathlib import Path
from typing import Any

import pandas as pd

from attnlab.core import quiet, write_table
from attnlab.models import (
    READABLE_BLEU,
    RunSettings,
    choice,
    read_metrics,
    score_run,
    settings_from,
)
from experiments.shared.readme import (
    RESULTS,
    read_facts,
    read_table,
    render,
    write_facts,
    write_readme,
)
from experiments.shared.runs import trained_run

PAIRS = (1000, 3000, 10_000)
FIXED = {"batch_tokens": 4096, "warmup": 400}
COLUMNS = [
    "training_pairs", "batch_size_and_warmup", "batch_tokens", "warmup", "steps", "epochs",
    "kept_epoch", "validation_loss", "validation_bleu", "test_bleu", "test_chrf", "test_sentences",
    "training_seconds",
]  # fmt: skip


def main() -> None:
    """Trains each model that is not there yet, scores it, and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path, help="the folder of the corpus")
    parser.add_argument("--runs", type=Path, default=RESULTS.parent / "runs" / "small_corpora")
    chosen = parser.parse_args()
    out = RESULTS / "small_corpora"
    rows = []
    for pairs in PAIRS:
        for name, optimizer in (("defaults", {}), ("fixed", FIXED)):
            settings = settings_from(
                {"corpus": {"name": str(chosen.corpus), "limit": pairs}, "optimizer": optimizer}
            )
            rows.append(
                {"training_pairs": pairs, "batch_size_and_warmup": name}
                | trained(chosen.runs / f"{name}_{pairs}", settings)
            )
            print(rows[-1], flush=True)
    table = pd.DataFrame(rows)[COLUMNS]
    write_table(out / "table.csv", table)
    write_facts(out, __file__, "torch", "transformers", "sacrebleu")
    write_readme(out, readme(out))


def trained(folder: Path, settings: RunSettings) -> dict[str, Any]:
    """One row: how the run in `folder` was trained and how well it translates."""
    with quiet():
        run = trained_run(folder, settings)
        scores, _ = score_run(run, split="test", beams=1)
    optimizer, lines = run.settings.optimizer, read_metrics(folder)
    kept = max(lines, key=lambda line: choice(line["validation_bleu"], line["validation_loss"]))
    return {
        "batch_tokens": optimizer.batch_tokens,
        "warmup": optimizer.warmup,
        "steps": lines[-1]["step"],
        "epochs": lines[-1]["epoch"],
        "kept_epoch": kept["epoch"],
        "validation_loss": kept["validation_loss"],
        "validation_bleu": kept["validation_bleu"],
        "test_bleu": scores["bleu"],
        "test_chrf": scores["chrf"],
        "test_sentences": scores["sentences"],
        "training_seconds": lines[-1]["training_seconds"],
    }


def readme(folder: Path) -> str:
    """The README of the result, from its table and facts."""
    table = read_table(folder, "table")
    both = table.pivot_table(
        index="training_pairs",
        columns="batch_size_and_warmup",
        values=["test_bleu", "validation_loss"],
    )
    return render(
        __file__, read_facts(folder), table=table, both=both, fixed=FIXED, readable=READABLE_BLEU
    )


if __name__ == "__main__":
    main()
