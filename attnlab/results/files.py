"""The files of a result of a question; nothing heavy is imported."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.reporting.result_folder import ResultFiles, check_not_taken
from attnlab.results.question import Question

# What the columns of the tables mean.
EXPLANATION = "tables.md"
FIGURES = "figures"
# What a result has beside its tables, by its path in the folder: each writes itself to the path it is given.
Extra = Mapping[str, Callable[[Path], Any]]


@dataclass(frozen=True)
class QuestionFiles(ResultFiles):
    """The files of a result of a question.

    A question whose result has more than tables, such as models, has a class of its own, with `taken` and
    `older` for what lies beside these, and the three methods that do nothing here.

    Attributes:
        figures: names of its figures in `FIGURES`, as `Question.figures`; other pictures there are not its.
    """

    figures: tuple[str, ...] = ()

    def taken(self, folder: str | Path) -> list[str]:
        """The names in `folder` that this result would write, or may."""
        figures = (f"{FIGURES}/{path.name}" for path in self._drawn(folder))
        return [*super().taken(folder), *figures]

    def older(self, folder: str | Path) -> list[Path]:
        """The files in `folder` that have the names of this result, its figures among them."""
        return [*super().older(folder), *self._drawn(folder)]

    def named(self, settings: Any) -> Iterable[str]:
        """The paths of what a result with these settings has beside its tables."""
        del settings
        return ()

    def refuse(self, folder: str | Path, extra: Iterable[str]) -> None:
        """Raises where what an older result has beside its tables may not be replaced, overwrite or not.

        Args:
            folder: where the result is to be written.
            extra: paths in it of what the result has beside its tables.

        Raises:
            InputError: see above.
        """

    def load(self, folder: str | Path) -> Extra:
        """What the result in a folder has beside its tables."""
        del folder
        return {}

    def _drawn(self, folder: str | Path) -> list[Path]:
        drawn = Path(folder) / FIGURES
        return sorted(path for name in self.figures for path in drawn.glob(f"{name}.[sp][vn]g"))


def files_of(question: Question) -> QuestionFiles:
    """What a result of the question writes to its folder."""
    kind: type[QuestionFiles] = question.files_kind
    return kind(question.what, (*question.files, EXPLANATION), figures=question.figures)


def check_free(
    folder: str | Path, files: QuestionFiles, extra: Iterable[str], *, overwrite: bool
) -> None:
    """Raises where a result cannot be written to a folder, before it is computed or when it is saved.

    Args:
        folder: where the result is to be written.
        files: those of its question.
        extra: paths in the folder of what it has beside its tables.
        overwrite: whether an older result may be replaced.

    Raises:
        InputError: see `check_not_taken` and `QuestionFiles.refuse`.
    """
    check_not_taken(folder, files, overwrite=overwrite)
    files.refuse(folder, extra)
