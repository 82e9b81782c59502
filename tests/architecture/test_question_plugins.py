"""A question of another distribution has all that attnlab's own have, made of what it declares."""

import json
import subprocess
from pathlib import Path

import pandas as pd
import pytest
from distributions import Distribution
from forks import Forks
from zoo import random_models
from zoo.random_models import tokenizer

from attnlab.results.question import own_questions

QUESTION = '''"""How large the weights of a model are."""

from dataclasses import dataclass
from typing import Annotated

from attnlab.core.columns import Column, Table
from attnlab.core.errors import Note
from attnlab.core.options import Option, Settings, options_of
from attnlab.results.question import Question

NORMS = Table(
    "norms.csv",
    "weight matrix",
    (
        Column("weights", "weights", "Name of a weight matrix."),
        Column("norm", "norm_2", "Its Frobenius norm.", 2),
    ),
    keys=("weights",),
    heading="Every matrix",
)


@dataclass(frozen=True)
class Smaller(Note):
    """How many matrices were left out."""

    words = "{count} matrices have smaller norms."

    count: int


@dataclass(frozen=True, kw_only=True)
class NormSettings(Settings):
    """What `attnlab norms` can be told."""

    part: Annotated[str | None, Option("Part of the name of a matrix.", argument=True)] = None
    smallest: Annotated[float, Option("Smallest norm to list.", least=0)] = 0.0


@options_of(NormSettings)
def norms(source, settings):
    """The norm of every weight matrix.

    Args:
        source: a transformers folder.
        settings: as keyword arguments.
    """
    import pandas as pd
    from transformers import AutoModel

    from attnlab.results.result import Result

    model = AutoModel.from_pretrained(source)
    found = {
        name: float(weight.detach().norm())
        for name, weight in model.named_parameters()
        if weight.ndim == 2 and (settings.part or "") in name
    }
    large = {name: norm for name, norm in found.items() if norm >= settings.smallest}
    table = pd.DataFrame({"weights": list(large), "norm": list(large.values())})
    return Result(
        "norms",
        f"Norms of {source}",
        {"norms": table},
        {"Source": str(source)},
        (Smaller(len(found) - len(large)),),
        arrays={"gram": next(model.parameters()).detach()},
    )


def contents(result):
    from attnlab.figures.canvas import blank, panel, style
    from attnlab.results.page.result_page import Contents, DrawnFigure

    with style():
        figure = blank(3, 2)
        panel(figure, 0.5, 0.1, 2, 1.5).plot(result.norms["norm"])
    return Contents([DrawnFigure("norms", figure, "Norms in order.")])


def answers(result):
    return [f"The largest norm is {NORMS['norm'].shown(result.norms['norm'].max())}."]


QUESTION = Question(
    name="norms",
    what="norms of weights",
    panel="Weights",
    help="Measure the norm of every weight matrix. The Frobenius norm.",
    settings=NormSettings,
    tables=(NORMS,),
    arrays={"gram": "[row, column], the first weights."},
    run="toy_norms:norms",
    view="toy_norms",
    figures=("norms",),
)
'''
WRITTEN = {
    "norms.csv", "arrays.safetensors", "result.json", "tables.md", "report.html", "figures/norms.svg",
    "figures/norms.png",
}  # fmt: skip


@pytest.fixture(scope="module")
def distribution(tmp_path_factory: pytest.TempPathFactory, forks: Forks) -> Distribution:
    """A distribution with a question, beside a model."""
    made = Distribution(tmp_path_factory.mktemp("norms"), forks)
    made.register("attnlab.questions", "norms", QUESTION, "QUESTION")
    random_models.bert().save_pretrained(made.folder / "bert")
    tokenizer().save_pretrained(made.folder / "bert")
    return made


@pytest.fixture(scope="module")
def asked(distribution: Distribution) -> subprocess.CompletedProcess[str]:
    """The command with an argument, an option and a folder."""
    done = distribution.attnlab("norms", "bert", "query", "--smallest", "0.1", "--out", "out")
    assert done.returncode == 0, done.stderr
    return done


def expected(part: str = "") -> dict[str, float]:
    """The norms of the weights of the model."""
    weights = dict(random_models.bert().named_parameters())
    return {
        name.removeprefix("bert."): float((weight.detach() ** 2).sum() ** 0.5)
        for name, weight in weights.items()
        if weight.ndim == 2 and part in name
    }


def test_the_command_is_listed_with_its_options(distribution: Distribution) -> None:
    listed = distribution.attnlab("--help")
    assert listed.returncode == 0, listed.stderr
    (row,) = [line for line in listed.stdout.splitlines() if line.startswith("│ norms ")]
    assert "Measure the norm of every weight matrix." in row
    assert "─ Weights ─" in listed.stdout
    told = distribution.attnlab("norms", "--help").stdout
    for text in ("Part of the name of a matrix.", "Smallest norm to list (default: 0.0).", "--out",
                 "norms.csv, arrays.safetensors", "--overwrite", "--json", "--quiet"):  # fmt: skip
        assert text in told


def test_the_command_prints_and_writes(
    distribution: Distribution, asked: subprocess.CompletedProcess[str]
) -> None:
    out = distribution.folder / "out"
    written = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    assert written == WRITTEN
    assert "Note: 0 matrices have smaller norms." in asked.stderr
    table = pd.read_csv(out / "norms.csv")
    assert dict(zip(table["weights"], table["norm"], strict=True)) == pytest.approx(
        expected("query")
    )
    for row in table.itertuples():
        assert f"{row.weights} {row.norm:.2f}" in " ".join(asked.stdout.split())
    page = (out / "report.html").read_text("utf-8")
    assert "Norms of bert" in page
    assert f"The largest norm is {table['norm'].max():.2f}." in page
    explained = (out / "tables.md").read_text("utf-8")
    assert "- `norm`: Its Frobenius norm." in explained
    assert "- `gram`: [row, column], the first weights." in explained


@pytest.mark.usefixtures("asked")
def test_its_folder_is_not_replaced_unasked(distribution: Distribution) -> None:
    refused = distribution.attnlab("norms", "bert", "--out", "out")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "out holds a finished norms of weights; add --overwrite" in refused.stderr


def test_what_cannot_be_used_is_refused(distribution: Distribution) -> None:
    for words, message in (
        (("nothere",), "nothere"),
        (("bert", "--smallest", "-1"), "--smallest must be at least 0, not -1.0"),
        (("bert", "--overwrite"), "--overwrite replaces what --out names"),
    ):
        refused = distribution.attnlab("norms", *words)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1), refused.stderr
        assert message in refused.stderr


def test_json(distribution: Distribution) -> None:
    done = distribution.attnlab("norms", "bert", "--json", "--quiet")
    found = json.loads(done.stdout)
    assert set(found) == {"norms", "notes"}
    norms = {row["weights"]: row["norm"] for row in found["norms"]}
    assert norms == pytest.approx(expected())


@pytest.mark.usefixtures("asked")
def test_its_page_and_its_table_are_made_from_the_folder(distribution: Distribution) -> None:
    page = distribution.folder / "out" / "report.html"
    before = page.read_bytes()
    page.write_text("gone", "utf-8")
    reported = distribution.attnlab("report", "out")
    assert reported.returncode == 0, reported.stderr
    assert page.read_bytes() == before
    table = distribution.attnlab("table", "out/norms.csv", "--format", "latex")
    assert table.returncode == 0, table.stderr
    assert r"weights & norm\_2 \\" in table.stdout, "with the heading that is declared"
    name, norm = next(iter(expected("query").items()))
    assert name.replace("_", r"\_") + rf" & {norm:.2f} \\" in table.stdout


@pytest.mark.slow
@pytest.mark.usefixtures("asked")
def test_in_python(distribution: Distribution) -> None:
    code = """
import attnlab, torch
from attnlab.results.result import Result
found = attnlab.norms("bert", part="query", smallest=0.1)
again = Result.load("out")
assert found.norms.to_dict() == again.norms.to_dict() and found.notes == again.notes
assert torch.equal(found.gram, again.gram)
html = again._repr_html_()
assert "norm_2" in html and "Note: 0 matrices have smaller norms." in html and "<table" in html
assert repr(again) == f"Result(norms: norms[{len(again.norms)}]; 1 notes)"
assert list(again.figures) == ["norms"] and again.plot() is not None
assert again.to_latex() == attnlab.norms("bert", part="query").to_latex()
assert "Smallest norm to list." in attnlab.norms.__doc__
again.show()
again.save("copy")
try:
    attnlab.norms("bert", smallest=-1)
except attnlab.core.errors.InputError as error:
    print(error)
"""
    done = distribution.python("-c", code)
    assert done.returncode == 0, done.stderr
    answer, _, table = done.stdout.partition("\n\n")
    assert answer.startswith("The largest norm is ")
    assert "weights " in table.splitlines()[0]
    assert table.splitlines()[0].endswith("norm_2")
    assert "smallest must be at least 0, not -1." in done.stdout
    first, second = ((distribution.folder / name) for name in ("out", "copy"))
    for name in WRITTEN:
        assert (second / name).read_bytes() == (first / name).read_bytes(), name


BROKEN = {
    "no question": (
        "QUESTION = 1\n",
        "--help",
        "must be an attnlab.results.question.Question, not 1",
    ),
    "not imported": ("import not_there\n", "--help", "cannot be imported from toy_norms:QUESTION"),
    "name of a question": (
        QUESTION.replace('name="norms"', 'name="compare"'),
        "--help",
        "is called 'compare', which exists already",
    ),
    "name of a command": (
        QUESTION.replace('name="norms"', 'name="train"'),
        "--help",
        "The question 'train' has the name of a command",
    ),
    "no name": (
        QUESTION.replace('name="norms"', 'name="my norms"'),
        "--help",
        "'my norms' cannot be the name of a question",
    ),
    "result of another": (
        QUESTION.replace('"norms of weights"', '"comparison"'),
        "--help",
        "The results of the questions 'compare' and 'norms' are both called 'comparison'",
    ),
    "no table": (QUESTION.replace("tables=(NORMS,)", "tables=()"), "--help", "declares no table"),
    "option of every question": (
        QUESTION.replace("    smallest:", "    out:"),
        "--help",
        "The question 'norms' cannot be a command",
    ),
    "nothing answers": (
        QUESTION.replace("toy_norms:norms", "toy_norms:absent"),
        "norms bert",
        "The question 'norms' needs toy_norms:absent, which cannot be imported",
    ),
    "nothing draws": (
        QUESTION.replace('view="toy_norms"', 'view="toy_view"'),
        "norms bert",
        "The question 'norms' needs toy_view:contents, which cannot be imported",
    ),
    "undeclared table": (
        QUESTION.replace('{"norms": table}', '{"norms": table, "others": table}'),
        "norms bert",
        "The question 'norms' declares no 'others' of its result",
    ),
    "first table missing": (
        QUESTION.replace('{"norms": table}', "{}"),
        "norms bert",
        "A result of the question 'norms' needs the table 'norms'",
    ),
    "no result": (
        QUESTION.replace("    return Result(", "    return dict(norms=1) or Result("),
        "norms bert",
        "The question 'norms' gave an object of the class dict",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_question_is_one_sentence(
    fault: str, distribution: Distribution, tmp_path: Path, forks: Forks
) -> None:
    code, words, message = BROKEN[fault]
    assert code != QUESTION
    broken = Distribution(tmp_path, forks)
    broken.register("attnlab.questions", "norms", code, "QUESTION")
    (tmp_path / "bert").symlink_to(distribution.folder / "bert")
    refused = broken.attnlab(*words.split())
    assert refused.returncode == 2, refused.stderr
    errors = [line for line in refused.stderr.splitlines() if line.startswith("Error: ")]
    assert len(errors) == 1
    assert message in errors[0]
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize("name", own_questions())
def test_what_attnlab_declares_can_be_imported(name: str) -> None:
    own_questions()[name].check()


def test_every_question_of_attnlab_is_a_command() -> None:
    """Also one whose heading in the help no other command has."""
    import typer.main

    from attnlab.cli.app import app

    assert set(own_questions()) <= set(typer.main.get_command(app).commands)
