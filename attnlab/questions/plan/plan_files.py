"""The plans of a plan search as files in the folder of its result; nothing heavy is imported."""

import re
from functools import partial
from pathlib import Path

from attnlab.results import Extra, QuestionFiles

_NAME = re.compile(r"plan_[0-9]+\.json")


class PlanFiles(QuestionFiles):
    """The files of a plan search, its plans among them."""

    def taken(self, folder: str | Path) -> list[str]:
        """The names in `folder` that a plan search would write, or may."""
        return [*super().taken(folder), *(path.name for path in _plans(folder))]

    def older(self, folder: str | Path) -> list[Path]:
        """The files of an older plan search, its plans among them."""
        return [*super().older(folder), *_plans(folder)]

    def load(self, folder: str | Path) -> Extra:
        """The plans in a folder.

        Raises:
            InputError: one of them is no plan.
        """
        from attnlab.attention import load_plan, write_plan

        return {path.name: partial(write_plan, plan=load_plan(path)) for path in _plans(folder)}


def _plans(folder: str | Path) -> list[Path]:
    return sorted(path for path in Path(folder).glob("*.json") if _NAME.fullmatch(path.name))
