"""Uses everything of `additions`, in a process that finds a package with all of them; prints what fails.

    python tests/use_additions.py FOLDER

The answer is a JSON object: for each addition the traceback, or nothing.
"""

import contextlib
import io
import json
import sys
import traceback
from functools import cache
from pathlib import Path
from typing import Any

import torch
from typer.testing import CliRunner
from zoo import random_models
from zoo.random_models import SENTENCES, tokenizer

import attnlab
from attnlab.cli.app import app

# The last word, so that pytest may import this too, which looks for examples in every file.
FOLDER = Path(sys.argv[-1])


def command(*words: object) -> str:
    done = CliRunner().invoke(app, [*map(str, words)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@cache
def model() -> tuple[Any, Any]:
    (FOLDER / "text").write_text("\n".join(3 * SENTENCES), encoding="utf-8")
    (FOLDER / "held_out").write_text("\n".join(SENTENCES[:3]), encoding="utf-8")
    (FOLDER / "training").write_text("\n".join(SENTENCES[3:]), encoding="utf-8")
    return random_models.bert(), tokenizer()


@cache
def analysis() -> Any:
    found = attnlab.analyze(model(), text=FOLDER / "text", structure_sentences=4, fit_sentences=4)
    found.save(FOLDER / "analysis")
    return found


@cache
def neighbours() -> Any:
    found = attnlab.neighbours(model(), ["cat"], count=4)
    found.save(FOLDER / "neighbours")
    return found


def page(name: str) -> str:
    return (FOLDER / name / "report.html").read_text("utf-8")


def mechanism() -> None:
    """It keeps its law, is listed, compared, planned and drawn; a plan may name it."""
    near = attnlab.attention.make("near(reach=2)")
    query, key, value = torch.randn(3, 1, 2, 6, 4, dtype=torch.float64)
    matrix = near.implied_matrix(query, key)
    torch.testing.assert_close(near(query, key, value), matrix @ value)
    assert (matrix > 0).sum(-1).flatten().tolist() == 2 * [3, 4, 5, 5, 4, 3]
    assert "near(reach=1)" in command("mechanisms")
    (FOLDER / "plan.json").write_text(
        json.dumps(
            {"format": "attnlab attention plan 2", "mechanisms": {"encoder": "near(reach=1)"}}
        )
    )
    found = attnlab.compare(
        model(), [5], mechanisms=["band", "near"], plans=[FOLDER / "plan.json"],
        text=FOLDER / "held_out", calibration_text=FOLDER / "training",
    )  # fmt: skip
    assert {"band", "near", "plan.json"} <= set(found.summary["mechanism"])
    assert "near(reach=2)" in found.mechanisms_by_head.to_csv()
    found.save(FOLDER / "comparison")
    assert "near" in (FOLDER / "comparison" / "figures" / "mechanisms_encoder.svg").read_text(
        "utf-8"
    )
    planned = attnlab.plan(
        model(), [5], families=["near"], criterion="l1", quick=True,
        text=FOLDER / "held_out", calibration_text=FOLDER / "training",
    )  # fmt: skip
    assert set(planned.mechanisms["mechanism_family"]) == {"near"}


def label() -> None:
    """It is in the tables, with controls, and on the map of the page."""
    mine = analysis().labels.query("label == 'first'")
    assert "confirmed" in set(mine["status"])
    assert {"first"} <= set(analysis().controls["label"])
    assert "first" in set(analysis().summary["role"])
    assert ">first<" in page("analysis")


def family() -> None:
    """`approximate` fits it, `analyze` at equal budget, and the page has its heading."""
    H = torch.rand(7, 7, dtype=torch.float64)
    found = attnlab.approximate(H).approximation.set_index("family")
    assert found.loc["last", "member"] == "column 6"
    assert 0 < found.loc["last", "relative"] < 1
    mine = analysis().fits.query("approximation == 'last'")
    assert len(mine) > 0
    assert mine["relative"].between(0, 2).all()
    assert "last key + E" in page("analysis")


def option() -> None:
    """The command has it, and the rows depend on it."""
    assert "--reach" in command("study", "run", "random_search", "--help")
    words = {"structures": ["band"], "attempts": [1], "tokens": 8, "seeds": 1}
    short, long = (
        attnlab.run_study(
            "random_search", folder=FOLDER / f"reach{reach}", options={**words, "reach": reach}
        ).table
        for reach in (1, 3)
    )
    assert short["search_l1"][0] != long["search_l1"][0]


def study() -> None:
    """The command runs it."""
    command("study", "run", "squares", "--count", 4, "--out", FOLDER / "squares")
    written = (FOLDER / "squares" / "table.csv").read_text()
    assert written.split() == ["number,square", "0,0", "1,1", "2,4", "3,9"]


def column() -> None:
    """It is in the table, on the page and in what explains the table."""
    assert (neighbours().table["length"] == neighbours().table["neighbour"].str.len()).all()
    assert ">letters<" in page("neighbours")
    assert "Number of letters of the neighbour." in (FOLDER / "neighbours/tables.md").read_text()


def figure() -> None:
    """It is a file of the result, and on the page."""
    assert "cosines" in neighbours().figures
    assert (FOLDER / "neighbours" / "figures" / "cosines.svg").is_file()
    assert "By rank." in page("neighbours")


def question() -> None:
    """It is a command, a function, and a page."""
    found = attnlab.norms(model(), smallest=0.5)
    assert (found.norms["norm"] >= 0.5).all()
    found.save(FOLDER / "norms")
    assert "Norms in order." in page("norms")
    assert "--smallest" in command("norms", "--help")


def language() -> None:
    """Pairs in it are drawn, and it is a corpus."""
    from attnlab.corpora import load_corpus
    from attnlab.grammar import draw_pairs

    for pair in draw_pairs(20, languages=("en", "xx")):
        assert pair.target == pair.source.upper()
    assert load_corpus("embedded", pair="xx-it", size=60).train[0]["source"].isupper()
    assert "it-xx" in command("corpora")


def corpus() -> None:
    """Files of the form are read and listed."""
    lines = [f"{text} {n}\n" for n in range(50) for text in ("a cat", "gatto")]
    (FOLDER / "pairs.turns").write_text("".join(lines))
    assert "PATH.turns" in command("corpora")
    assert "46" in command("corpora", FOLDER / "pairs.turns")


def links() -> None:
    """Files of the form are read."""
    from attnlab.alignment import read_links

    (FOLDER / "gold.tabbed").write_text("0/1\t1/0\n")
    (found,) = read_links(FOLDER / "gold.tabbed", [(("a", "b"), ("c", "d"))])
    assert found.links.sure == {(0, 1), (1, 0)}


def distance() -> None:
    """`approximate` measures it, and says on its page and beside its tables what it is."""
    H = torch.tensor([[0.75, 0.25], [0.5, 0.5]])
    answer = attnlab.approximate(H)
    answer.save(FOLDER / "approximation")
    assert "The largest |h - x|." in page("approximation")
    assert "`largest`: The largest" in (FOLDER / "approximation/tables.md").read_text()
    found = answer.approximation.set_index("family")
    assert found.loc["zero", "largest"] == 0.75
    assert found.loc["uniform", "largest"] == 0.25


def cli() -> None:
    """It runs, and the help lists it."""
    assert command("greet", "Maria") == "Hello, Maria.\n"
    assert "Greet somebody." in command("--help")


def tokenizers() -> None:
    """It can be chosen, and cuts text."""
    from attnlab.corpora import load_corpus
    from attnlab.models import TokenizerSettings
    from attnlab.models.tokenizer import train_tokenizers

    assert TokenizerSettings(kind="small-word").kind == "small-word"
    assert "small-word;" in " ".join(command("train", "--help").split())
    made = train_tokenizers(load_corpus("embedded", size=60), kind="small-word").source
    assert made.tokenize("THE The") == ["the", "the"]


USES = {
    "mechanism": mechanism,
    "label of heads": label,
    "family of matrices": family,
    "option of a study": option,
    "study of many cells": study,
    "column of a table": column,
    "figure": figure,
    "question to a model": question,
    "language of the grammar": language,
    "corpus format": corpus,
    "form of files of links": links,
    "distance": distance,
    "command": cli,
    "tokenizer": tokenizers,
}


def main() -> None:
    """Prints what became of each use."""
    assert Path(attnlab.__file__).is_relative_to(FOLDER), attnlab.__file__
    failures = {}
    for row, use in USES.items():
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            try:
                use()
                failures[row] = ""
            except (Exception, SystemExit):  # noqa: BLE001 - the others are tried too
                failures[row] = traceback.format_exc()
    print(json.dumps(failures))


if __name__ == "__main__":
    main()
