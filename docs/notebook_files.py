"""Notebooks as files of Jupyter, made from the pages in docs/notebooks and docs/course.

    python docs/notebook_files.py

writes NAME.ipynb beside each page NAME.md that is a notebook, without output.
"""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
HEAD = re.compile(r"---\nfile_format: mystnb\n.*?\n---\n", re.DOTALL)
CELL = re.compile(
    r"^```\{code-cell\} ipython3\n(?::tags: \[(.*?)\]\n\n)?(.*?)^```$", re.DOTALL | re.MULTILINE
)
KERNEL = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def pages() -> list[Path]:
    """Pages that are notebooks and can run without the repository."""
    found = sorted(path for name in ("notebooks", "course") for path in (DOCS / name).glob("*.md"))
    return [path for path in found if HEAD.match(path.read_text(encoding="utf-8"))]


def cells(page: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Kind, text and tags of each cell of a page."""
    text = HEAD.sub("", page.read_text(encoding="utf-8"), count=1)
    end = 0
    for found in CELL.finditer(text):
        yield "markdown", text[end : found.start()].strip(), []
        tags, code = found.groups()
        yield "code", code.strip(), tags.split(", ") if tags else []
        end = found.end()
    yield "markdown", text[end:].strip(), []


def notebook(page: Path) -> str:
    """The file of a page, in nbformat 4.5."""
    parts = [(kind, _linked(text, page), tags) for kind, text, tags in cells(page) if text]
    found = [_cell(number, *part) for number, part in enumerate(parts)]
    document = {"cells": found, "metadata": KERNEL, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _linked(text: str, page: Path) -> str:
    """The text with links to the files of other notebooks, which Jupyter opens, in place of their pages."""
    for other in pages():
        link = os.path.relpath(other, page.parent)
        text = text.replace(f"]({link})", f"]({link.removesuffix('.md')}.ipynb)")
    return text


def _cell(number: int, kind: str, text: str, tags: list[str]) -> dict[str, Any]:
    cell = {
        "cell_type": kind,
        "id": f"cell-{number}",
        "metadata": {"tags": tags} if tags else {},
        "source": text.splitlines(keepends=True),
    }
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})


if __name__ == "__main__":
    for page in pages():
        page.with_suffix(".ipynb").write_text(notebook(page), encoding="utf-8")
