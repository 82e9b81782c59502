"""Every block of code in the guides runs: Python, commands, and the files that they name.

* `python` blocks of a page run one after another, as in one session;
* lines of `console` blocks that call attnlab run in the same folder, on less than is written (`LESS`);
* a `code-block` with a caption is a file of that name;
* `% parsed only` before a `console` block has its commands read, not run: they take long or need a cluster.
"""

import importlib
import re
import shlex
import shutil
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer.main
from small_run import write_pairs
from tokenizers import processors
from typer.testing import CliRunner
from zoo import random_models

import attnlab
from attnlab.attention import registry
from attnlab.cli.app import app
from attnlab.core import installed as plugins
from attnlab.core.errors import InputError
from attnlab.grammar.embedded import draw_pairs
from attnlab.labels import counting

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = [
    "start",
    "tutorial",
    *(f"guides/{path.stem}" for path in sorted((DOCS / "guides").glob("*.md"))),
]
PAGES += ["running_studies"]
# Pages whose commands take more than a few seconds even so.
LONG = {
    "start",
    "tutorial",
    *(
        f"guides/{name}"
        for name in (
            "alignment_heads",
            "command_line",
            "hub_model",
            "new_label",
            "own_corpus",
            "own_matrices",
            "questions",
            "words",
        )
    ),
}
BLOCK = re.compile(
    r"^(% parsed only\n)?```\{?([\w-]+)\}?[^\n]*\n(?::caption: (\S+)\n\n)?(.*?)^```$",
    flags=re.MULTILINE | re.DOTALL,
)
FEW = "--sentences 4"
LESS = {
    "train": "--dim 8 --heads 2 --feed-forward 8 --vocabulary 90 --epochs 1 --batch-tokens 400 "
    "--max-tokens 40 --validation-sentences 2",
    "embed": "--epochs 1",
    "analyze": f"{FEW} --fit-sentences 2 --structure-sentences 4 --keep-matrices 1 --quick",
    "align": "--quick",
    "detect": f"{FEW} --sequences 2 --context 40",
    "compare": f"{FEW} --calibration 8 --validation 4 --mechanisms band,top-k --quick",
    "plan": f"{FEW} --validation 4 --calibration 8 --families none,band --no-bleu",
    "importance": "--sentences 8 --calibration 8 --points 2",
    "prune": f"{FEW} --steps 2",
    "study run": "--structure diagonal --attempts 1 --tokens 8 --seeds 1",
}


@dataclass(frozen=True)
class Block:
    """A block of code: its language, its text, the file that it is, and whether it runs."""

    kind: str
    text: str
    file: str | None
    runs: bool


def blocks_of(page: str) -> list[Block]:
    found = BLOCK.findall((DOCS / f"{page}.md").read_text(encoding="utf-8"))
    return [Block(kind, text, file or None, not only) for only, kind, file, text in found]


def commands_in(block: Block) -> list[list[str]]:
    """The words of each line of a console block."""
    lines = [line[2:] for line in block.text.splitlines() if line.startswith("$ ")]
    assert lines, f"a console block without a command: {block.text}"
    return [shlex.split(line, comments=True) for line in lines]


def parse(words: list[str]) -> None:
    name, *rest = words
    command = typer.main.get_command(app).commands[name]
    command.make_context(name, rest)


def run(words: list[str]) -> None:
    name = " ".join(words[:2]) if words[0] == "study" else words[0]
    less = LESS.get(name, "") if "--resume" not in words else ""
    if "recurrent" in words:
        less = less.replace("--heads 2 --feed-forward 8 ", "")
    if "--pattern" in words:
        less = FEW
    if words[0] == "analyze" and words[1].endswith(".npy"):
        less = "--fit-sentences 2"
    if words[0] == "analyze" and words[1].startswith("sentence-transformers"):
        less = less.replace(FEW, "")
    done = CliRunner().invoke(
        app, [*without(words, less.split()), *less.split()], catch_exceptions=True
    )
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, (words, done.output)


def without(words: list[str], others: list[str]) -> list[str]:
    """The words but for the options, with their values, that stand among others too."""
    taken, kept = {word for word in others if word.startswith("--")}, []
    rest = iter(words)
    for word in rest:
        if word not in taken:
            kept.append(word)
        elif word not in {"--quick", "--no-bleu"}:
            next(rest)
    return kept


def install(folder: Path) -> None:
    """What `pip install --editable .` does with the entry points of `pyproject.toml` in `folder`."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    about = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    groups = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
        for group, entries in project["entry-points"].items()
    ]
    (about / "entry_points.txt").write_text("\n".join(groups))
    forget_plugins()


def forget_plugins() -> None:
    importlib.invalidate_caches()
    plugins.plugins.cache_clear()
    registry.mechanisms.cache_clear()
    counting.known_labels.cache_clear()


@pytest.fixture
def desk(tmp_path: Path, small_run: Path, monkeypatch: pytest.MonkeyPatch):
    """A folder with what the guides take for granted: runs, pairs of sentences, models of the hub."""
    for name in ("first", "demo"):
        shutil.copytree(small_run, tmp_path / "runs" / name)
    pairs = [(pair.source, pair.target) for pair in draw_pairs(70, seed=3)]
    write_pairs(tmp_path / "pairs.tsv", pairs)
    turns = "".join(f"{source}\n{target}\n" for source, target in pairs)
    (tmp_path / "pairs.turns").write_text(turns, encoding="utf-8")
    tokenizer = random_models.tokenizer()
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> $B:1 </s>:1",
        special_tokens=[(mark, tokenizer.convert_tokens_to_ids(mark)) for mark in ("<s>", "</s>")],
    )
    for name, model in (
        ("sentence-transformers/all-MiniLM-L6-v2", random_models.bert()),
        ("gpt2", random_models.gpt2()),
    ):
        model.save_pretrained(tmp_path / name)
        tokenizer.save_pretrained(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(tmp_path):
            del sys.modules[name]
    forget_plugins()


def of_the_right_length(page: str) -> object:
    return pytest.param(page, marks=[pytest.mark.slow] if page in LONG else [])


@pytest.mark.slow
@pytest.mark.parametrize("page", [of_the_right_length(page) for page in PAGES])
def test_every_block_runs(page: str, desk: Path) -> None:
    if page == "guides/words":
        pytest.importorskip("gensim")
    session: dict[str, object] = {}
    for block in blocks_of(page):
        if block.file is not None:
            (desk / block.file).write_text(block.text, encoding="utf-8")
        elif block.kind == "python" and block.runs:
            code = block.text.replace("sentences=100", "sentences=4")
            exec(compile(code, f"docs/{page}.md", "exec"), session)
        elif block.kind == "console":
            for program, *words in commands_in(block):
                if program == "attnlab":
                    parse(words)
                    if block.runs:
                        make_room(desk, words)
                        run(words)
                elif [program, *words] == ["pip", "install", "--editable", "."]:
                    install(desk)


def make_room(desk: Path, words: list[str]) -> None:
    """Takes the run away that a page trains itself."""
    if words[0] == "train" and "--resume" not in words:
        shutil.rmtree(desk / words[1], ignore_errors=True)


@pytest.mark.parametrize("page", ["start", "tutorial"])
def test_what_is_typed_in_a_clone_writes_where_git_ignores_it(page: str) -> None:
    assert "/runs/" in (DOCS.parent / ".gitignore").read_text().splitlines()
    blocks = blocks_of(page)
    words = [one for block in blocks if block.kind == "console" for one in commands_in(block)]
    named = [own[own.index("--out") + 1] for own in words if "--out" in own]
    code = "\n".join(block.text for block in blocks if block.kind == "python")
    named += re.findall(r'save\(.*"(.*?)"\)', code)
    assert named
    assert all(path.startswith("runs/") for path in named), named


@pytest.mark.slow
def test_what_users_of_other_tools_type_instead_runs(desk: Path) -> None:
    (desk / "sentences.txt").write_text("Maria sleeps.\nA dog runs.\n" * 10)
    part = (DOCS / "other_tools.md").read_text(encoding="utf-8").split("## attnlab for users")[1]
    rows = [line.split(" | ") for line in part.split("\n## ")[0].splitlines() if line[:1] == "|"]
    calls = [call for row in rows for call in re.findall(r"`(attnlab.+?)`", row[-1])]
    assert len(calls) == 20
    for call in calls:
        if call.startswith("attnlab."):
            eval(call, {"attnlab": attnlab})
        elif "whisper" in call:
            parse(shlex.split(call)[1:])
        else:
            run(shlex.split(call)[1:])


def test_a_broken_block_fails(desk: Path) -> None:
    with pytest.raises(InputError, match="absent"):
        run(["corpora", "absent.tsv"])
    with pytest.raises(KeyError):
        parse(["analyse", "runs/first"])
    assert [block.kind for block in blocks_of("start")].count("python") == 2
