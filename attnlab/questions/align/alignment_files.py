"""`heads.json` and the links as files in the folder of a result; nothing heavy is imported."""

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from attnlab.core import write_text
from attnlab.results import Extra, QuestionFiles

HEADS_FILE, REVERSE_HEADS_FILE = "heads.json", "reverse_heads.json"
LINKS_FILE = "links.pharaoh"
EXTRA = (HEADS_FILE, REVERSE_HEADS_FILE, LINKS_FILE)


class AlignmentFiles(QuestionFiles):
    """The files of a result of `align`, its heads and links among them."""

    def taken(self, folder: str | Path) -> list[str]:
        """The names in `folder` that it would write."""
        return [*super().taken(folder), *(path.name for path in _extra(folder))]

    def older(self, folder: str | Path) -> list[Path]:
        """The files of an older result, its heads and links among them."""
        return [*super().older(folder), *_extra(folder)]

    def named(self, settings: Any) -> Iterable[str]:
        """What it may write beside its tables."""
        del settings
        return EXTRA

    def load(self, folder: str | Path) -> Extra:
        """The heads and links in a folder, as they are."""
        return {
            path.name: partial(write_text, text=path.read_text(encoding="utf-8"))
            for path in _extra(folder)
        }


def _extra(folder: str | Path) -> list[Path]:
    there = (Path(folder) / name for name in EXTRA)
    return [path for path in there if path.is_file()]
