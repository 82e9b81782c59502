"""README, CONTRIBUTING and guides say what is there: tree, functions, links, commands, examples."""

import pkgutil
import re
import shlex
from pathlib import Path

import pytest
import typer.main
from zoo import random_models

from attnlab.cli.app import app

ROOT = Path(__file__).resolve().parents[2]


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


README = page("README.md")
PAGES = [README, *(page(str(path.relative_to(ROOT))) for path in (ROOT / "docs").rglob("*.md"))]
COMMAND = re.compile(r"^(?: {4}|\$ .*?)attnlab (.+?)(?:\s+#.*)?$", flags=re.MULTILINE)
COMMANDS = COMMAND.findall(README)
ALL_COMMANDS = COMMAND.findall(page("docs/guides/command_line.md"))


def test_the_readme_is_short() -> None:
    assert len(README.split()) <= 800
    assert len(COMMANDS) == 5


def test_the_tree_equals_the_disk() -> None:
    packages = {path.parent.name for path in (ROOT / "attnlab").glob("*/__init__.py")}
    tree = page("CONTRIBUTING.md").split("```\nattnlab/\n")[1].split("```")[0]
    assert set(re.findall(r"^  (\w+)/ ", tree, flags=re.MULTILINE)) == packages
    for folder in re.findall(r"^(\w+)/ ", tree, flags=re.MULTILINE):
        assert (ROOT / folder).is_dir()


LINKED = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("*.md", "docs/**/*.md", "results/**/*.md", "benchmarks/**/*.md")
    for path in ROOT.glob(pattern)
    # Sphinx writes pages to docs/results/.
    if path.parent != ROOT / "docs" / "results"
)


@pytest.mark.parametrize("name", LINKED)
def test_every_link_leads_to_a_file_and_a_heading(name: str) -> None:
    without_code = re.sub(r"```.*?```", "", page(name), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code):
        path, _, heading = link.partition("#")
        if "://" in path or path.startswith("mailto:"):
            continue
        found = (ROOT / name).parent / path if path else ROOT / name
        assert found.exists(), f"{name}: {link}"
        headings = re.findall(r"^#+ (.+)$", page(str(found)), re.MULTILINE) if heading else []
        slugs = [re.sub(r"[^\w\- ]", "", one.lower()).strip().replace(" ", "-") for one in headings]
        assert not heading or heading in slugs, f"{name}: {link}"


@pytest.mark.parametrize("kind", ["results", "benchmarks"])
def test_every_result_is_listed(kind: str) -> None:
    folders = {path.parent.name for path in (ROOT / kind).glob("*/README.md")}
    table = page(f"{kind}/README.md")
    assert folders == set(re.findall(r"\]\(([\w-]+)/README\.md\) \|", table))


@pytest.mark.parametrize(
    "name",
    sorted({name for page in PAGES for name in re.findall(r"`(attnlab(?:\.\w+){2,})`", page)}),
)
def test_named_functions_exist(name: str) -> None:
    assert pkgutil.resolve_name(name) is not None


@pytest.mark.parametrize("line", sorted({*COMMANDS, *ALL_COMMANDS}))
def test_commands_can_be_read(line: str) -> None:
    name, *words = shlex.split(line)
    command = typer.main.get_command(app).commands[name]
    command.make_context(name, words)


def test_every_command_is_shown() -> None:
    assert {line.split()[0] for line in ALL_COMMANDS} == set(typer.main.get_command(app).commands)


@pytest.mark.slow
def test_the_python_example_runs(
    small_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    examples = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len(examples) == 2
    monkeypatch.chdir(tmp_path)
    random_models.bert().save_pretrained("bert-base-uncased")
    random_models.tokenizer().save_pretrained("bert-base-uncased")
    Path("sentences.txt").write_text("the old cat sees a red bird .\na dog runs .\n")
    code = "".join(examples).replace('"runs/demo"', repr(str(small_run))).replace('"2.4:', '"1.2:')
    exec(compile(code.replace("sentences=100", "sentences=3"), "README.md", "exec"), {})
    assert (tmp_path / "runs" / "heads.pdf").is_file()
