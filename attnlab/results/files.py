"""The files of a result of a question; nothing heavy is imported."""

from dataclasses import dataclass
from pathlib import Path

from attnlab.reporting.result_folder import ResultFiles
from attnlab.results.question import Question

# What the columns of the tables mean.
EXPLANATION = "tables.md"
FIGURES = "figures"


@dataclass(frozen=True)
class QuestionFiles(ResultFiles):
    """The files of a result of a question.

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

    def _drawn(self, folder: str | Path) -> list[Path]:
        drawn = Path(folder) / FIGURES
        return sorted(path for name in self.figures for path in drawn.glob(f"{name}.[sp][vn]g"))


def files_of(question: Question) -> QuestionFiles:
    """What a result of the question writes to its folder."""
    return QuestionFiles(
        question.what, (*question.files, EXPLANATION), figures=question.figures
    )
