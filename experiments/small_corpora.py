"""What the defaults of `attnlab train` make of small corpora, beside a fixed batch size and warm-up.

    python experiments/small_corpora.py ../shared/data/tatoeba

writes results/small_corpora/. Models go to runs/small_corpora/; those that are there with the same
settings are scored, not trained again.
"""

import argparse
from pathlib import Path
from typing import Any

import pandas as pd
from readme_parts import markdown, provenance
from rich.console import Console

from attnlab.files import write_table, write_text
from attnlab.translation.callbacks import read_metrics
from attnlab.translation.quiet import quiet
from attnlab.translation.runs.folder import is_run
from attnlab.translation.runs.run import load
from attnlab.translation.settings import RunSettings, settings_from
from attnlab.translation.trainer import READABLE_BLEU, choice
from attnlab.translation.training import train
from attnlab.translation.translating import score_run

ROOT = Path(__file__).resolve().parents[1]
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
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "small_corpora")
    chosen = parser.parse_args()
    out = ROOT / "results" / "small_corpora"
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
    write_text(out / "README.md", report(table))


def trained(folder: Path, settings: RunSettings) -> dict[str, Any]:
    """One row: how the run in `folder` was trained and how well it translates."""
    with quiet():
        if not (is_run(folder) and (folder / "model.safetensors").exists()):
            train(folder, settings, console=Console(stderr=True))
        run = load(folder)
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


def report(table: pd.DataFrame) -> str:
    """The README of the result."""
    both = table.pivot_table(
        index="training_pairs", columns="batch_size_and_warmup",
        values=["test_bleu", "validation_loss"],
    )  # fmt: skip
    lines = [
        f"* {pairs:,} pairs: validation loss {row['validation_loss', 'defaults']:.2f} (fixed: "
        f"{row['validation_loss', 'fixed']:.2f}), test BLEU {row['test_bleu', 'defaults']:.1f} (fixed: "
        f"{row['test_bleu', 'fixed']:.1f})."
        for pairs, row in both.iterrows()
    ]
    return f"""# Training on small corpora with the defaults

Batch size and warm-up follow the number of training steps there will be: the largest batch from
{FIXED["batch_tokens"]} down to 256 tokens that gives 1,500 steps, and a tenth of the steps for warm-up, at
most 400. "fixed" is {FIXED["batch_tokens"]} tokens and {FIXED["warmup"]} steps whatever the corpus, the
defaults before; all else is equal (20 epochs, one layer, 8 heads, size 128), the rule by which the kept
checkpoint is chosen too: by loss while BLEU is below {READABLE_BLEU:g}, by BLEU from there on.

{chr(10).join(lines)}

{markdown(table)}

Tatoeba, English to Italian; the first rows of the training part, which is in random order. BLEU and
chrF are greedy, on the whole test part; losses in nats per target token on 1,000 validation pairs. One
training each, seed 0: differences of a point say nothing. A BLEU below {READABLE_BLEU:g} means that no
sentence can be read; `attnlab train` says so.

Command: `python experiments/small_corpora.py ../shared/data/tatoeba`.
{provenance("torch", "transformers", "sacrebleu")}
"""


if __name__ == "__main__":
    main()
