"""What each result writes, and whether a folder may be written to; nothing heavy is imported.

What a user already has is not replaced unasked, and that is said before anything is loaded.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from attnlab.addresses import SITES
from attnlab.errors import InputError
from attnlab.studies.analysis import columns as analysis
from attnlab.studies.approximation import columns as approximation
from attnlab.studies.comparison import columns as comparison
from attnlab.studies.importance import columns as importance
from attnlab.studies.planning import columns as planning
from attnlab.studies.pruning import columns as pruning
from attnlab.studies.substitution import columns as substitution
from attnlab.translation.runs.folder import STUDIES, is_run, read_record, refuse_results

IMPORTANCE_FIGURE = "importance"
PRUNING_FIGURE = "curve"
SUBSTITUTION_FIGURE = "substitution"
PRUNING_EXPLANATION = "pruning.md"
MODELS = "models"
PLAN_FIGURE = "plan"
PLAN_EXPLANATION = "plan.md"


@dataclass(frozen=True)
class ResultFiles:
    """The files of a result.

    Attributes:
        what: the result in a word or two, such as `analysis`.
        last: the file that is written last.
        others: every other file and folder that the result writes.
        whole: whether a folder with the last file always holds the whole result.
    """

    what: str
    last: str
    others: tuple[str, ...] = ()
    whole: bool = True


def comparison_figure(site: str) -> str:
    """The figure of a site in a comparison, without the suffix."""
    return f"figure_{site}"


ANALYSIS = ResultFiles(
    "analysis",
    "report.html",
    (
        *(table.file for table in analysis.TABLES),
        "matrices.safetensors",
        "figures",
    ),
)
APPROXIMATION = ResultFiles("approximation", approximation.APPROXIMATIONS.file, whole=False)
COMPARISON = ResultFiles(
    "comparison",
    "comparison.md",
    (
        *(table.file for table in comparison.TABLES),
        *(f"{comparison_figure(site)}.{kind}" for site in SITES for kind in ("svg", "png")),
    ),
    whole=False,
)
IMPORTANCE = ResultFiles(
    "importance study",
    "importance.md",
    (
        *(table.file for table in importance.TABLES),
        f"{IMPORTANCE_FIGURE}.svg",
        f"{IMPORTANCE_FIGURE}.png",
    ),
)
SUBSTITUTION = ResultFiles(
    "substitution study",
    "substitution.md",
    (
        *(table.file for table in substitution.TABLES),
        f"{SUBSTITUTION_FIGURE}.svg",
        f"{SUBSTITUTION_FIGURE}.png",
    ),
)
PRUNING = ResultFiles(
    "pruning",
    pruning.CURVE.file,
    (
        pruning.GATES.file,
        pruning.TRAINING.file,
        f"{PRUNING_FIGURE}.svg",
        f"{PRUNING_FIGURE}.png",
        PRUNING_EXPLANATION,
        MODELS,
    ),
)

PLANNING = ResultFiles(
    "plan search",
    planning.SCORES.file,
    (
        planning.HEADS.file,
        f"{PLAN_FIGURE}.svg",
        f"{PLAN_FIGURE}.png",
        PLAN_EXPLANATION,
    ),
    whole=False,
)


def refuse_taken(folder: str | Path, result: ResultFiles, *, overwrite: bool) -> None:
    """Raises when `folder` holds a finished result, or files of its names, that may not be replaced.

    Args:
        folder: where the result is to be written.
        result: what is to be written.
        overwrite: whether it may replace what is there.

    Raises:
        InputError: see above, or `folder` or one that it is to be in is a file.
    """
    folder = Path(folder)
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    if not nearest.is_dir():
        msg = f"{nearest} is a file; name a folder to write the {result.what} to."
        raise InputError(msg)
    if overwrite:
        return
    if result.whole and (folder / result.last).exists():
        msg = (
            f"{folder} holds a finished {result.what}; add --overwrite to replace it, "
            "or name another folder with --out."
        )
        raise InputError(msg)
    taken = [name for name in (result.last, *result.others) if (folder / name).exists()]
    if taken:
        msg = (
            f"{folder} already holds {', '.join(taken)}, which the {result.what} would write; name "
            "another folder with --out, or add --overwrite to replace them."
        )
        raise InputError(msg)


def refuse_taken_file(path: str | Path, *, overwrite: bool) -> None:
    """Raises when a file to be written exists and may not be replaced, or is a folder.

    Raises:
        InputError: see above.
    """
    path = Path(path)
    if path.is_dir():
        msg = f"{path} is a folder; name a file to write to."
        raise InputError(msg)
    if path.exists() and not overwrite:
        msg = f"{path} exists; add --overwrite to replace it, or name another file with --out."
        raise InputError(msg)


def refuse_pruning(folder: str | Path, *, overwrite: bool, saved: Iterable[float] = ()) -> None:
    """Raises when `folder` holds a pruning, or files of the same names, that may not be replaced.

    Args:
        folder: where the pruning is to be written.
        overwrite: whether an older pruning may be replaced, its models along with it.
        saved: penalties whose models are to be saved.

    Raises:
        InputError: see above, or `folder` is a file or a run, or a pruned run in it holds results,
            or where a model is to be saved something else stands; all is left as it is.
    """
    folder = Path(folder)
    if is_run(folder):
        msg = f"{folder} is a run, which pruning leaves as it is; name another folder with --out."
        raise InputError(msg)
    refuse_taken(folder, PRUNING, overwrite=overwrite)
    older = pruned_runs(folder)
    for path in older:
        refuse_results(path, ("analysis", *STUDIES))
    for path in (pruned_run_folder(folder, penalty) for penalty in saved):
        if path.exists() and path not in older:
            msg = f"{path} is no pruned run of an older pruning; move it, or name another folder with --out."
            raise InputError(msg)


def pruned_runs(folder: str | Path) -> list[Path]:
    """The models that an older pruning saved in `folder`."""
    paths = sorted((Path(folder) / MODELS).glob("penalty_*"))
    return [path for path in paths if is_run(path) and "pruned" in read_record(path)]


def pruned_run_folder(folder: str | Path, penalty: float) -> Path:
    """Where the model of a penalty is saved in the folder of a pruning."""
    return Path(folder) / MODELS / f"penalty_{penalty:g}"


def plan_path(path: str | Path, budget: int, budgets: Sequence[int]) -> Path:
    """Where the plan of a budget is written: the path itself, or with the budget in its name.

    >>> plan_path("plan.json", 9, [9]).name, plan_path("plan.json", 9, [5, 9]).name
    ('plan.json', 'plan_9.json')
    """
    path = Path(path)
    several = len(set(budgets)) > 1
    return path.with_name(f"{path.stem}_{budget}{path.suffix}") if several else path
