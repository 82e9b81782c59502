"""Every function of attnlab.plot refuses what it cannot draw, before it draws, and says what it wants."""

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from zoo import random_models

import attnlab
from attnlab import plot
from attnlab.core.errors import InputError

pytestmark = pytest.mark.usefixtures("as_users_call_it")

# Each function with what is asked of it first, and a place that the error names.
TABLES: dict[str, tuple[Callable[[Any], object], str]] = {
    "comparison": (lambda table: plot.comparison(table, "encoder"), "compare(...).summary"),
    "distribution": (plot.distribution, "analyze(...).summary"),
    "embedding_map": (plot.embedding_map, "attnlab.neighbours"),
    "heads": (plot.heads, "analyze(...).summary"),
    "importance": (lambda table: plot.importance(table, CUMULATIVE), "importance(...).replaced"),
    "importance, removed": (
        lambda table: plot.importance(HEADS, table),
        "importance(...).cumulative",
    ),
    "offsets": (plot.offsets, "analyze(...).heads"),
    "offsets of content": (lambda table: plot.offsets(table, "content"), "analyze(...).heads"),
    "pareto": (plot.pareto, "compare(...).summary"),
    "pruning": (plot.pruning, "prune(...).curve"),
    "scaling": (plot.scaling, "table.csv"),
    "training": (plot.training, "the evaluations of a run"),
    "windows": (plot.windows, "analyze(...).fits"),
}
OTHERS: dict[str, Callable[[Any], object]] = {
    "head": lambda given: plot.head(given, "encoder.0.0"),
    "matrices": lambda given: plot.matrices(given, ["a"], ["a"], title="t", names=["0.0"]),
    "save": lambda given: plot.save(given, "x.png"),
    "spectrum": plot.spectrum,
}
CONSTANTS = {"COLUMN", "PAGE"}
HEADS = pd.DataFrame(
    {"site": ["encoder"], "layer": [0], "head": [0], "way": ["zero"], "loss_change": [0.1],
     "loss_change_low": [0.0], "loss_change_high": [0.2]}
)  # fmt: skip
CUMULATIVE = pd.DataFrame(
    {"order": ["random"], "heads_removed": [1], "replacement": ["zero"], "loss": [2.0],
     "bleu": [None]}
)  # fmt: skip
# A table of heads without what any figure shows of them.
BARE = pd.DataFrame({"site": ["encoder"], "layer": [0], "head": [0], "nearest": ["band"]})


def test_every_function_is_here() -> None:
    drawn = {name.split(",")[0].split(" ")[0] for name in TABLES} | set(OTHERS)
    elsewhere = {"mechanism", "model", "receptive_field"}
    assert drawn | CONSTANTS | elsewhere == set(plot.__all__)
    plot.importance(HEADS, CUMULATIVE)


@pytest.mark.parametrize("name", TABLES)
def test_another_table_is_refused_with_what_it_lacks_and_what_is_wanted(name: str) -> None:
    draw, wanted = TABLES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        message = r"(lacks .*; it has: site, |no column 'role'; choose from: site, )layer, head"
        with pytest.raises(InputError, match=message) as refused:
            draw(BARE)
        assert wanted in str(refused.value) or name == "heads"
        with pytest.raises(InputError, match="lacks .*it has: no columns") as refused:
            draw(pd.DataFrame())
        assert wanted in str(refused.value)


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("path", ["summary.csv", Path("runs/demo/summary.csv")])
def test_a_path_is_no_table(name: str, path: str | Path) -> None:
    draw, wanted = TABLES[name]
    with pytest.raises(InputError, match=r"from a table and not from a path.*read_csv") as refused:
        draw(path)
    assert wanted in str(refused.value)


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("given", [None, [{"epoch": 1}], {"site": [1]}, 5])
def test_what_is_no_table_at_all_is_named_by_its_class(name: str, given: object) -> None:
    draw, wanted = TABLES[name]
    if (name, given) == ("importance, removed", None):
        pytest.skip("it may be left out")
    with pytest.raises(InputError, match=f"of the class {type(given).__name__}; give") as refused:
        draw(given)
    assert wanted in str(refused.value)


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("given", ["x.csv", Path("x.csv"), BARE, None, 5])
def test_what_is_drawn_from_no_table_says_what_it_wants(
    name: str, given: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="; give "):
        OTHERS[name](given)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", sorted({*plot.__all__} - CONSTANTS))
def test_errors_of_calls_name_the_function_of_plot_and_its_arguments(name: str) -> None:
    with pytest.raises(TypeError, match=rf"^plot\.{name}\(\): .*; its arguments are: \w+"):
        getattr(plot, name)(None, nodes=1)


def test_kept_matrices_are_drawn_a_layer_at_a_time() -> None:
    model = (random_models.bert(), random_models.tokenizer())
    kept = attnlab.capture(model, "a dog runs .", keep_matrices=1).kept
    with pytest.raises(InputError, match="the class KeptMatrices; give a tensor") as refused:
        plot.matrices(kept)
    typed = re.search(
        r"(kept\.matrices\[.*?\]), with their tokens, \*(kept\.tokens\[.*?\])", str(refused.value)
    )
    assert typed is not None
    weights, tokens = (eval(one, {"kept": kept}) for one in typed.groups())
    named = plot.matrices(weights, *tokens, title="t", names=list("abc"))
    labels = [[text.get_text() for text in one.axes[0].get_xticklabels()]
              for one in (named, plot.matrices(weights))]  # fmt: skip
    assert labels == [list(tokens[1]), [str(number) for number in range(6)]]


def test_importance_of_heads_alone_is_drawn_without_what_is_left_below() -> None:
    alone, both = plot.importance(HEADS), plot.importance(HEADS, CUMULATIVE)
    assert len(alone.axes) == 1 < len(both.axes)
    assert alone.get_figheight() < both.get_figheight()


def test_a_table_without_rows_is_refused() -> None:
    for draw in (lambda: plot.importance(HEADS[:0], CUMULATIVE), lambda: plot.pareto(PRICED[:0])):
        with pytest.raises(InputError, match="has no rows to draw; give"):
            draw()


PRICED = pd.DataFrame({"mechanism": ["a"], "budget": [5], "output_error": [0.5]})
