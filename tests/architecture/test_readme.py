"""The README and the guides say what is there: tree, functions, links, commands, examples."""

import pkgutil
import re
import shlex
from pathlib import Path

import pandas as pd
import pytest
import typer.main

from attnlab.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`(attnlab(?:\.\w+){2,})`")
PAGES = [README, *(path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md"))]
COMMANDS = re.findall(r"^ {4}attnlab (.+?)(?:\s+#.*)?$", README, flags=re.MULTILINE)


def test_the_tree_equals_the_disk() -> None:
    packages = {path.parent.name for path in (ROOT / "attnlab").glob("*/__init__.py")}
    tree = README.split("```\nattnlab/\n")[1].split("```")[0]
    assert set(re.findall(r"^  (\w+)/ ", tree, flags=re.MULTILINE)) == packages
    for folder in re.findall(r"^(\w+)/ ", tree, flags=re.MULTILINE):
        assert (ROOT / folder).is_dir()


def test_every_link_leads_somewhere() -> None:
    for link in re.findall(r"\]\(([^)h][^)]*)\)", README):
        assert (ROOT / link).exists(), link


def test_every_result_is_listed() -> None:
    folders = {path.parent.name for path in (ROOT / "results").glob("*/README.md")}
    assert folders == set(re.findall(r"\]\(results/([\w-]+)/README\.md\) \|", README))
    folder = ROOT / "benchmarks"
    table = (folder / "README.md").read_text(encoding="utf-8")
    folders = {path.parent.name for path in folder.glob("*/README.md")}
    assert folders == set(re.findall(r"\]\(([\w-]+)/README\.md\) \|", table))


@pytest.mark.parametrize(
    "name",
    sorted({name for page in PAGES for name in re.findall(r"`(attnlab(?:\.\w+){2,})`", page)}),
)
def test_named_functions_exist(name: str) -> None:
    assert pkgutil.resolve_name(name) is not None


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_can_be_read(line: str) -> None:
    name, *words = shlex.split(line)
    command = typer.main.get_command(app).commands[name]
    command.make_context(name, words)


def test_every_command_is_shown() -> None:
    assert {line.split()[0] for line in COMMANDS} == set(typer.main.get_command(app).commands)


def test_python_examples_run(
    small_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    examples = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len(examples) == 3
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "runs" / "demo" / "analysis"
    folder.mkdir(parents=True)
    head = {"site": ["encoder"], "layer": [0], "head": [0], "role": ["sink"], "strength": [1.0]}
    pd.DataFrame(head).to_csv(folder / "summary.csv")
    names: dict[str, object] = {}
    for example in examples:
        code = example.replace('"runs/demo"', repr(str(small_run)))
        exec(compile(code.replace("sentences=100", "sentences=3"), "README.md", "exec"), names)
    assert (tmp_path / "heads.pdf").is_file()
