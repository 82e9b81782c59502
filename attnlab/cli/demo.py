"""`attnlab demo`: the whole way on the embedded corpus, from text to report."""

import json
import time
from pathlib import Path
from typing import Annotated

import typer

from attnlab.errors import INTERRUPTED

DEFAULT_FOLDER = Path("runs/demo")
DEMO_SETTINGS = {
    "corpus": {"size": 12_000, "max_tokens": 64},
    "tokenizer": {"vocabulary": 3000},
    "optimizer": {
        "epochs": 8,
        "batch_tokens": 2048,
        "learning_rate": 3e-3,
        "warmup": 150,
        "schedule": "cosine",
        "validation_sentences": 200,
    },
}
SENTENCE = "Maria gives the red book to her brother."


def demo(
    folder: Annotated[
        Path, typer.Argument(help="Folder for the run and its report.")
    ] = DEFAULT_FOLDER,
    *,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an earlier demo in the folder.")
    ] = False,
) -> None:
    """Train a small model on the embedded corpus, score it, look at its heads, write the report."""
    from attnlab.translation.runs.lock import locked
    from attnlab.translation.runs.replacement import make_way, told_replaced

    with locked(folder):
        make_way(folder, overwrite=overwrite)

    from rich.console import Console

    from attnlab.reporting.analysis_folder import write_analysis
    from attnlab.studies.analysis.analysis import analyze
    from attnlab.translation.quiet import quiet
    from attnlab.translation.runs.run import load
    from attnlab.translation.settings import settings_from
    from attnlab.translation.training import train
    from attnlab.translation.translating import score_run, translate

    console = Console()
    started = time.perf_counter()

    def say(text: str) -> None:
        console.print(f"[dim]{time.perf_counter() - started:5.0f} s[/dim]  {text}", soft_wrap=True)

    say("Training a translation model with 8 heads on English and Italian sentences")
    with quiet():
        trained = train(
            folder,
            settings_from(DEMO_SETTINGS),
            overwrite=overwrite,
            command="attnlab demo",
            console=Console(stderr=True),
        )
        if trained.replaced is not None:
            say(told_replaced(folder, trained.replaced, interrupted=trained.interrupted))
        if trained.interrupted:
            say(
                f"Interrupted; train to the end with: attnlab train {folder} --resume, then look at its "
                f"heads with: attnlab analyze {folder}"
            )
            raise typer.Exit(INTERRUPTED)
        run = load(folder)
        say("Translating the held-out test sentences")
        scores, _ = score_run(run, beams=1)
        say(
            f"Test BLEU {scores['bleu']:.1f}, chrF {scores['chrf']:.1f} ({scores['sentences']} pairs)"
        )
        translation = translate(run.model, run.tokenizers, [SENTENCE], beams=5)[0]
        say(f"{SENTENCE}  ->  {translation}")
        say("Looking at every attention head on held-out sentences")
        analysis = analyze(folder)
        page = write_analysis(analysis, folder / "analysis", title=f"Attention heads of {folder}")
    say(f"Report: {page}")
    typer.echo(json.dumps({"run": str(folder), "report": str(page), **scores}))
