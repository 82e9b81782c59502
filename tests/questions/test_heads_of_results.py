"""One head of a result, and what Python does with a run beside asking questions."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from inspect import unwrap
from pathlib import Path

import pytest
import torch
from answered import Answered

import attnlab
from attnlab.core.errors import InputError
from attnlab.core.options import option_fields
from attnlab.figures.canvas import svg
from attnlab.models.run import score_run, short_pairs
from attnlab.results import own_question


def test_a_head_of_a_result_has_its_rows_of_all_tables(
    answer: Callable[[str, str], Answered],
) -> None:
    result = answer("analyze", "run").result
    found = result["encoder.0.1"]
    assert found.table.equals(
        result.table[result.table["head"] == 1].head(1).reset_index(drop=True)
    )
    assert {"summary", "heads", "labels", "fits"} <= set(found.tables)
    for rows in found.tables.values():
        assert set(zip(rows["site"], rows["layer"], rows["head"], strict=True)) == {
            ("encoder", 0, 1)
        }
    assert "summary" in repr(found)
    assert "<table" in found._repr_html_()
    with pytest.raises(
        InputError,
        match="no head 'encoder.0.9'; its heads are encoder.0.0 to cross.0.1; its tables",
    ):
        result["encoder.0.9"]


def test_the_site_of_a_head_can_be_left_out_where_one_has_it(
    answer: Callable[[str, str], Answered], small_run: Path
) -> None:
    result = answer("analyze", "language").result
    for named in ("0.1", (0, 1), ("decoder", 0, 1)):
        assert result[named].head == "decoder.0.1"
    several = answer("analyze", "run").result
    found = attnlab.capture(small_run, ["the cat sees ."], sites="encoder", keep_matrices=1)
    assert torch.equal(found["0.1"][0], found["encoder.0.1"][0])
    assert torch.equal(found["0"][0], found["encoder", 0][0])
    for ask in (several.__getitem__, partial(attnlab.plot.head, several)):
        with pytest.raises(
            InputError, match=r"0.1 is at several sites; write one of: encoder.0.1, dec"
        ):
            ask("0.1")


def test_figures_are_drawn_from_a_result_as_from_its_table(
    answer: Callable[[str, str], Answered],
) -> None:
    for question, drawn, table in (
        ("analyze", "offsets", "heads"), ("analyze", "windows", "fits"), ("compare", "comparison", "summary"),
        ("prune", "pruning", "curve"),
    ):  # fmt: skip
        result = answer(question, "run").result
        draw = getattr(attnlab.plot, drawn)
        assert svg(draw(result), "one") == svg(draw(result.tables[table]), "one")
    importance = answer("importance", "run").result
    tables, unit = (importance.replaced, importance.cumulative), "nats per token"
    whole = attnlab.plot.importance(*tables, unit=unit)
    assert svg(attnlab.plot.importance(importance), "one") == svg(whole, "one")
    assert unit not in svg(attnlab.plot.importance(*tables), "one"), "a table does not say it"
    states = replace(importance, details={"loss": "cosine"})
    drawn = svg(attnlab.plot.importance(states), "one")
    assert drawn.count("(cosine distance") == len(set(importance.replaced["site"])) + 1
    assert unit not in drawn
    with pytest.raises(
        InputError, match="drawn from the table heads; this result of prune has: curve"
    ):
        attnlab.plot.offsets(answer("prune", "run").result)


def test_a_kept_matrix_of_a_head_is_drawn(answer: Callable[[str, str], Answered]) -> None:
    result = answer("analyze", "run").result
    figure = attnlab.plot.head(result, "encoder.0.1")
    matrix = result.matrices.matrices[result.matrices.sentences[0], "encoder", 0][1]
    drawn = torch.tensor(figure.axes[0].images[0].get_array().filled())
    torch.testing.assert_close(drawn.squeeze().float(), matrix.float())
    with pytest.raises(
        InputError, match="No matrices of 'encoder.0.9' were kept; there are encoder.0.0 to"
    ):
        attnlab.plot.head(result, "encoder.0.9")
    with pytest.raises(InputError, match="No matrix of sentence 99 is kept; give one of 0, 1"):
        attnlab.plot.head(result, "encoder.0.1", sentence=99)


def test_a_capture_shows_its_heads_and_gives_matrices_of_a_layer(small_run: Path) -> None:
    texts = ["the cat sees .", "a bird"]
    found = attnlab.capture(small_run, texts, keep_matrices=2)
    assert found.table.equals(found.statistics.heads())
    assert "<table" in found._repr_html_()
    first, second = found["encoder", 0]
    assert first.shape[0] == second.shape[0] == 2
    torch.testing.assert_close(first.sum(-1), torch.ones(first.shape[:2]))
    assert all(
        torch.equal(a, b) for a, b in zip(found["encoder.0"], found["encoder", 0], strict=True)
    )
    assert torch.equal(found["encoder.0.1"][0], first[1])
    with pytest.raises(
        InputError, match=r"No matrices of 'decoder\.7' were kept; there are encoder\.0\.0"
    ):
        found["decoder", 7]


def test_a_run_translates_and_scores(small_run: Path, as_users_call_it: None) -> None:
    run = attnlab.load(small_run)
    assert attnlab.translate(run, "the cat", beams=1) == run.translate(["the cat"], beams=1)
    scores = attnlab.score(small_run, split="validation", beams=1, device="cpu")
    assert scores == run.score(split="validation", beams=1)
    assert {"bleu", "chrf"} <= set(scores)
    _, texts = score_run(run, split="validation", beams=1)
    sources = short_pairs(run, run.corpus().validation)["source"][:]
    assert run.translate(sources, beams=1) == texts, "one limit of tokens"
    with pytest.raises(InputError, match="progress is a function .* not False; leave it out"):
        attnlab.score(run, progress=False)
    with pytest.raises(InputError, match="progress is a function .* not True; leave it out"):
        attnlab.importance(run, progress=True)
    for ask in (attnlab.translate, attnlab.score):
        texts = ("the cat",) if ask is attnlab.translate else ()
        with pytest.raises(InputError, match=r"must be a run of attnlab train .*, not 5"):
            unwrap(ask)(5, *texts)
        with pytest.raises(InputError, match="device must be a name of torch.*; write cuda:1"):
            ask(run, *texts, device="gpu:1")


def test_sentences_are_a_number_a_list_or_a_file(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("a dog\tun cane\n\na cat\tun gatto\n", encoding="utf-8")
    settings = own_question("analyze").settings
    (field,) = (one for one in option_fields(settings) if one.name == "sentences")
    pairs = [("a dog", "un cane"), ("a cat", "un gatto")]
    for given in (path, str(path), pairs):
        assert settings.value_of(field, given) == pairs
    assert settings.value_of(field, 7) == 7
    with pytest.raises(InputError, match=r"write sentences=\['a dog'\]"):
        settings.value_of(field, "a dog")
