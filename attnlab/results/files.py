"""The files of a result of a question; nothing heavy is imported."""

from pathlib import Path

from attnlab.reporting.result_folder import ResultFiles
from attnlab.results.question import Question

# What the columns of the tables mean.
EXPLANATION = "tables.md"
FIGURES = "figures"


class QuestionFiles(ResultFiles):
    """The files of a result of a question: its figures have a folder of their own."""

    def older(self, folder: str | Path) -> list[Path]:
        """The files in `folder` that have the names of this result, its figures among them."""
        figures = (Path(folder) / FIGURES).glob("*.[sp][vn]g")
        return [*super().older(folder), *sorted(figures)]


def files_of(question: Question) -> QuestionFiles:
    """What a result of the question writes to its folder."""
    tables = (table.file for table in question.tables)
    return QuestionFiles(question.what, (*tables, EXPLANATION, FIGURES))
