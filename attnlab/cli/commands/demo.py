"""`attnlab demo`: the whole way on the embedded corpus, from text to report."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from attnlab.cli.command_options import chosen, with_options
from attnlab.cli.output import busy_clause, messages, output, results
from attnlab.cli.progress import progress_bars
from attnlab.core import INTERRUPTED, AttnlabError, InputError, reason
from attnlab.evaluation import DeviceSettings
from attnlab.models import SEED
from attnlab.questions.analyze.question import QUICK

if TYPE_CHECKING:
    from attnlab.models import Run, RunSettings

DEFAULT_FOLDER = Path("runs/demo")
DEMO_SETTINGS: dict[str, dict[str, Any]] = {
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
# Half of the test part: a pass over it for each head is a third of the demo's time.
ANALYZED_SENTENCES = 300
SENTENCE = "Maria gives the red book to her brother."


@dataclass(frozen=True, kw_only=True)
class DemoSettings(DeviceSettings):
    """Options of `attnlab demo`."""

    seed: Annotated[int, SEED] = 0
    quick: Annotated[bool, QUICK] = False


@with_options(DemoSettings)
def demo(
    folder: Annotated[
        Path, typer.Argument(help="Folder for the run and its report.")
    ] = DEFAULT_FOLDER,
    *,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite", help="Replace a demo in the folder that was trained to its end."
        ),
    ] = False,
    **options: Any,
) -> None:
    """Trains, scores and analyzes a small model, and prints what came out."""
    from attnlab.core import check_no_links, locked
    from attnlab.models import ANALYSIS, prepare_folder

    settings = chosen(DemoSettings, options)
    check_no_links(folder, [f"{ANALYSIS}/*"])
    begun = _is_begun(folder, settings)
    if not begun:
        with locked(folder):
            prepare_folder(folder, overwrite=overwrite)

    from attnlab.cli.commands.questions import print_result
    from attnlab.core import quiet
    from attnlab.models import load
    from attnlab.questions.analyze.analysis import analyze
    from attnlab.results import PAGE

    console, started = messages(), time.perf_counter()

    def say(text: str) -> None:
        passed = Text(f"{time.perf_counter() - started:5.0f} s  ", style="dim")
        console.print(passed, text, sep="", soft_wrap=True)

    if not begun:
        say(f"This takes one to two minutes on two processor cores{busy_clause()}")
    with quiet():
        _train(folder, settings, say, begun=begun, overwrite=overwrite)
        run = load(folder)
        scores = _translate(run, settings, say)
        say("Looking at every attention head on held-out sentences")
        with progress_bars() as tell:
            analysis = analyze(
                run,
                sentences=ANALYZED_SENTENCES,
                quick=settings.quick,
                device=settings.device,
                progress=tell,
            )
            analysis.save(folder / ANALYSIS, overwrite=begun or overwrite)
    page = folder / ANALYSIS / PAGE
    print_result(analysis, folder / ANALYSIS, run=folder, scores=scores, report=page)
    if not output().as_json:
        results().print(f"Report: {page}", soft_wrap=True)


def _settings_of(settings: DemoSettings) -> "RunSettings":
    from attnlab.models import settings_from

    optimizer = DEMO_SETTINGS["optimizer"] | {"seed": settings.seed}
    return settings_from({**DEMO_SETTINGS, "optimizer": optimizer})


def _is_begun(folder: Path, settings: DemoSettings) -> bool:
    """Whether a demo of these settings was interrupted in the folder, so that it can be taken up."""
    from attnlab.models import is_run, is_trained, read_record

    expected = _settings_of(settings)
    try:
        return (
            is_run(folder)
            and read_record(folder)["settings"] == expected.as_dict()
            and not is_trained(folder, expected.optimizer.epochs)
        )
    except InputError:  # a damaged one is replaced where that is asked for
        return False


def _train(
    folder: Path,
    settings: DemoSettings,
    say: Callable[[str], None],
    *,
    begun: bool,
    overwrite: bool,
) -> None:
    from attnlab.models import report_replaced, resume, train

    trained = None
    if begun:
        say(f"Going on with the training that was interrupted in {folder}")
        try:
            trained = resume(folder, device=settings.device, console=messages())
        except AttnlabError as error:
            if not overwrite:
                raise
            say(f"That cannot be ({reason(error)}); training anew")
    if trained is None:
        say("Training a translation model with 8 heads on English and Italian sentences")
        trained = train(
            folder,
            _settings_of(settings),
            overwrite=overwrite,
            command="attnlab demo",
            device=settings.device,
            console=messages(),
        )
    if trained.replaced is not None:
        say(report_replaced(folder, trained.replaced, interrupted=trained.interrupted))
    if trained.interrupted:
        say(
            f"Interrupted; train to the end with: attnlab train {folder} --resume, then look at its "
            f"heads with: attnlab analyze {folder}"
        )
        raise typer.Exit(INTERRUPTED)


def _translate(run: "Run", settings: DemoSettings, say: Callable[[str], None]) -> dict[str, Any]:
    """Scores of the test sentences, told with the translation of another one."""
    from attnlab.core import usable_device
    from attnlab.models import score_run, translate

    say("Translating the held-out test sentences")
    run.model.to(usable_device(settings.device))
    with progress_bars() as tell:
        scores, _ = score_run(run, beams=1, progress=tell)
    say(f"Test BLEU {scores['bleu']:.1f}, chrF {scores['chrf']:.1f} ({scores['sentences']} pairs)")
    translation = translate(run.model, run.tokenizers, [SENTENCE], beams=5)[0]
    say(f"{SENTENCE}  ->  {translation}")
    return scores
