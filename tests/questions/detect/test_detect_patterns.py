"""Every head scored against patterns: the figures of claims, in one table, with a map for each pattern."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from zoo import random_models
from zoo.random_models import PAIRS, SENTENCES, tokenizer

import attnlab
from attnlab.attention import use
from attnlab.core.errors import InputError
from attnlab.evaluation import LeftOut
from attnlab.questions.detect.question import DetectSettings
from attnlab.questions.detect.view import answers, draw_patterns, rows
from attnlab.results import Result

PATTERNS = ["offset -1", "first", "same token | rarest"]


@pytest.fixture(scope="module")
def bert() -> tuple[Any, Any]:
    return random_models.bert(), tokenizer()


@pytest.fixture(scope="module")
def found(bert: tuple[Any, Any]) -> Result:
    # Its untrained twin has that head too.
    with use(bert[0], {"encoder.0.1": "fixed(pattern='previous')"}):
        return attnlab.detect(bert, patterns=PATTERNS, sentences=SENTENCES * 5, controls=False)


def test_figures_are_those_of_as_many_claims(bert: tuple[Any, Any]) -> None:
    claims = [
        f"{layer}.{head}: {pattern}"
        for pattern in PATTERNS
        for layer in range(2)
        for head in range(3)
    ]
    table = attnlab.detect(bert, patterns=PATTERNS, sentences=SENTENCES).patterns
    claimed = attnlab.claim(bert, claims, sentences=SENTENCES).claims
    shared = [column for column in table if column in claimed]
    assert {"hit_low", "mass", "chance_hit", "offset_hit", "untrained_most", "bar"} <= set(shared)
    pd.testing.assert_frame_equal(table[shared], claimed[shared], check_dtype=False)


def test_a_head_above_controls_is_marked_and_said(found: Result) -> None:
    table = found.patterns
    marked = table[table["hit_above_bar"].fillna(value=False)]
    assert ("encoder", 0, 1, "offset -1") in set(
        marked[["site", "layer", "head", "pattern"]].itertuples(index=False, name=None)
    )
    assert (marked["hit_low"] > marked["bar"]).all()
    assert found.answers[0].startswith(
        "offset -1: 1 of 6 heads above controls, of these the highest"
    )
    assert "highest encoder.0.1 (hit 1.00 [" in found.answers[0]
    assert len(found.answers) == len(PATTERNS)
    with pytest.raises(AttributeError, match="its tables are: patterns"):
        _ = found.detectors


def test_without_an_interval_nothing_is_above_controls(bert: tuple[Any, Any]) -> None:
    one = attnlab.detect(bert, patterns="offset -1", sentences=SENTENCES[:1], controls=False)
    assert one.patterns["hit_above_bar"].isna().all()
    assert answers(one)[0].startswith(
        "offset -1: too few texts to tell heads from controls, highest "
    )


def test_a_map_for_each_pattern(found: Result, tmp_path: Any) -> None:
    assert set(found.figures) == {"patterns"}
    *panels, _ = found.plot("patterns").axes
    assert [axes.get_title(loc="left") for axes in panels] == PATTERNS
    first = found.patterns[found.patterns["pattern"] == PATTERNS[1]]
    drawn = panels[1].images[0].get_array().filled(np.nan)
    np.testing.assert_allclose(drawn, first["hit"].to_numpy().reshape(2, 3), rtol=1e-6)
    with pytest.raises(InputError, match="hit"):
        draw_patterns(found.patterns.drop(columns="hit"))


def test_of_many_heads_the_highest_of_each_pattern_come_first(found: Result) -> None:
    many = pd.concat([found.patterns.assign(layer=layer) for layer in range(10)])
    shown = rows(Result("detect", "", {"patterns": many}))
    best = many.groupby("pattern")["hit"].max()
    first = shown.head(3)
    assert (first["hit"] >= best.loc[first["pattern"]].to_numpy() - 1e-12).all()


def test_only_the_patterns_of_transformer_lens_have_its_figure(found: Result) -> None:
    own = found.patterns.groupby("pattern", sort=False)["transformer_lens"]
    assert own.count().to_dict() == {"offset -1": 6, "first": 0, "same token | rarest": 0}
    # All rows but that of the first token have a key before it, and this head looks there alone.
    lengths = [len(tokenizer()(text)["input_ids"]) for text in SENTENCES]
    of_planted = own.get_group("offset -1").iloc[1]
    assert of_planted == pytest.approx(np.mean([1 - 1 / length for length in lengths]))


def test_patterns_are_scored_where_they_can_be_met() -> None:
    model = (random_models.small_marian(), tokenizer())
    found = attnlab.detect(
        model, patterns=["same token", "offset 0", "other segment"], sentences=PAIRS, controls=False
    )
    sites = found.patterns.groupby("pattern", sort=False)["site"].unique().map(list).to_dict()
    assert sites == {
        "same token": ["encoder", "decoder"],
        "offset 0": ["encoder", "decoder", "cross"],
    }
    (left_out,) = (note for note in found.notes if isinstance(note, LeftOut))
    assert left_out.what == "'other segment'"


def test_a_function_alone_is_a_pattern(bert: tuple[Any, Any]) -> None:
    def itself(text: Any) -> np.ndarray:
        return np.eye(len(text.queries), dtype=bool)

    found = attnlab.detect(bert, patterns=itself, sentences=SENTENCES, controls=False)
    assert found.patterns["pattern"].tolist() == ["itself"] * 6


def test_bad_patterns_are_left_out_or_refused_together(bert: tuple[Any, Any]) -> None:
    found = attnlab.detect(
        bert, patterns=["frist", "aligned", "last"], sentences=SENTENCES, controls=False
    )
    assert set(found.patterns["pattern"]) == {"last"}
    assert [note.what for note in found.notes if isinstance(note, LeftOut)] == [
        "'frist'",
        "'aligned'",
    ]
    with pytest.raises(InputError, match=r"None of the 2 can be counted\. 'frist': .* 'aligned': "):
        attnlab.detect(bert, patterns=["frist", "aligned"], sentences=SENTENCES, controls=False)


def test_options_of_the_one_are_refused_with_the_other() -> None:
    with pytest.raises(InputError, match="'frist' stands at character 1"):
        DetectSettings(patterns=["frist"])
    with pytest.raises(InputError, match="treebank is for patterns of keys"):
        DetectSettings(treebank="trees.conllu")
    with pytest.raises(InputError, match="gate_steps is for detectors"):
        DetectSettings(patterns=["first"], gate_steps=3)
