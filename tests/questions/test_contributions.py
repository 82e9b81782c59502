"""Questions that read contributions of keys in place of their weights: all of them the same ones."""

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from reading.test_audio import noise, whisper
from results.test_showing import matrices_on
from zoo import random_models
from zoo.analyzed import ANALYZED
from zoo.random_models import PAIRS, SENTENCES, seeded, tokenizer

import attnlab
from attnlab.alignment import read_heads
from attnlab.core.errors import InputError
from attnlab.questions.align.question import AlignmentSettings
from attnlab.questions.analyze.analysis_notes import IdleSinks
from attnlab.questions.analyze.measuring import _idle_sinks
from attnlab.questions.analyze.view import contents
from attnlab.reading import ContributionsRead

pytestmark = pytest.mark.usefixtures("no_page")
GIVEN = {"weights": "contribution"}


@pytest.fixture(scope="module")
def bert() -> tuple[Any, Any]:
    return random_models.bert(), tokenizer()


def test_an_analysis_has_the_figures_and_matrices_of_a_capture(bert: tuple[Any, Any]) -> None:
    found = attnlab.analyze(
        bert, sentences=SENTENCES, fit_sentences=2, structure_sentences=2, show=["a cat runs"], **GIVEN
    )  # fmt: skip
    expected = attnlab.capture(bert, SENTENCES, distances=True, keep_matrices=3, **GIVEN)
    columns = [name for name in expected.table if name in found.heads]
    assert {"contribution", "weight_on_first", "mass_on_first"} <= {*columns}
    pd.testing.assert_frame_equal(found.heads[columns], expected.table[columns])
    kept = found.matrices.matrices
    for at, matrix in expected.kept.matrices.items():
        torch.testing.assert_close(kept[at], matrix)
    beside = attnlab.capture(bert, ["a cat runs"], keep_matrices=1, **GIVEN)["encoder.1"][0]
    torch.testing.assert_close(kept[len(SENTENCES), "encoder", 1], beside)
    assert ContributionsRead() in found.notes
    assert any(
        "heads have more than 0.3 of the contribution on" in str(note) for note in found.notes
    )
    assert contents(found).facts["Read"] == "contributions of keys, not attention weights"
    plain = attnlab.capture(bert, SENTENCES).table
    assert not (plain.mass_on_special - found.heads.mass_on_special).abs().lt(1e-3).any()
    torch.testing.assert_close(
        torch.tensor(found.heads.weight_on_special), torch.tensor(plain.mass_on_special)
    )
    assert "contribution" not in plain


def test_weights_of_the_first_token_leave_rows_out_that_see_no_other() -> None:
    model = seeded(random_models.gpt2), tokenizer()
    table = attnlab.capture(model, SENTENCES, keep_matrices=99, **GIVEN)
    kept = attnlab.capture(model, SENTENCES, keep_matrices=99)
    for name, found in (("weight_on_first", kept), ("mass_on_first", table)):
        rows = [matrix[2, 1:-1, 0] for matrix in found["decoder.1"]]
        assert table.table[name].iloc[5] == pytest.approx(float(torch.cat(rows).mean()))


def test_a_claim_is_about_the_largest_contributions(bert: tuple[Any, Any]) -> None:
    hits = []
    for matrix in attnlab.capture(bert, SENTENCES, keep_matrices=99, **GIVEN)["encoder.1"]:
        contributions = matrix[2].tolist()
        content = range(1, len(contributions) - 1)
        if len(content) > 1:
            hits += [
                max(content, key=lambda key: contributions[query][key]) == query - 1
                for query in content[1:]
            ]
    found, plain = (
        attnlab.claim(bert, ["1.2: offset -1"], sentences=SENTENCES, **given) for given in (GIVEN, {})
    )  # fmt: skip
    assert found.claims.hit.item() == pytest.approx(sum(hits) / len(hits))
    assert abs(found.claims.mass.item() - plain.claims.mass.item()) > 1e-3
    assert ContributionsRead() in found.notes


def test_heads_that_align_by_contributions_go_on_doing_so(tmp_path: Path) -> None:
    model = random_models.small_marian(), tokenizer()
    for layer in model[0].model.decoder.layers:
        attention = layer.encoder_attn
        attention.norm = torch.nn.LayerNorm(model[0].config.d_model)
        attention.register_forward_hook(lambda part, _, out: (part.norm(out[0]), *out[1:]))
    gold = tmp_path / "gold.tsv"
    gold.write_text("".join(f"{one}\t{other}\t0-0 1-1\n" for one, other in PAIRS), encoding="utf-8")
    found = attnlab.align(model, gold=gold, quick=True, **GIVEN)
    plain = attnlab.align(model, gold=gold, quick=True)
    assert not found.tables["heads"]["concentration"].equals(plain.tables["heads"]["concentration"])
    assert ContributionsRead(normed=True) in found.notes
    assert set(found.details["configuration"].values()) == {None}
    found.save(tmp_path / "found")
    heads = tmp_path / "found" / "heads.json"
    assert read_heads(heads).weights == "contribution"
    again = attnlab.align(model, gold=gold, heads=heads, links=tmp_path / "links")
    assert again.notes.count(ContributionsRead(normed=True)) == 1
    assert (tmp_path / "links").read_text() == (tmp_path / "found" / "links.pharaoh").read_text()
    with pytest.raises(InputError, match="their file says which weights .*; leave weights out"):
        AlignmentSettings(pairs=PAIRS, heads=heads, links="links", **GIVEN)


@pytest.mark.parametrize("name", ["bert", "marian"])
def test_a_page_shows_contributions_and_says_so(name: str, tmp_path: Path) -> None:
    model = random_models.ALL[name](), tokenizer()
    text = PAIRS[0] if name == "marian" else SENTENCES[0]
    viewer = attnlab.show(model, text, **GIVEN)
    captured = attnlab.capture(model, [text], keep_matrices=1, **GIVEN)
    shown = matrices_on(viewer.page)
    for (_, site, layer), matrix in captured.kept.matrices.items():
        found = shown[f"{site}.{layer}"].sqrt()
        torch.testing.assert_close(found, matrix.double().sqrt(), atol=1 / 500, rtol=0)
    assert f"<h1>Contributions of keys in {type(model[0]).__name__}" in viewer.page
    assert "weights=&#39;contribution&#39;)" in viewer.page
    for page in (viewer.page, attnlab.show(captured).page):
        assert "the length of each weighted value behind the output projection" in page


def test_a_page_says_that_norms_are_left_out() -> None:
    viewer = attnlab.show((seeded(ANALYZED["olmo2"]), tokenizer()), SENTENCES[0], **GIVEN)
    assert "where the norms of this model that follow are left out" in viewer.page


def test_contributions_of_whisper_are_those_of_its_frames() -> None:
    read = attnlab.capture(
        whisper(), [(noise(61), "a dog")], sites=["cross"], keep_matrices=1, **GIVEN
    )
    plain = attnlab.capture(whisper(), [(noise(61), "a dog")], sites=["cross"], keep_matrices=1)
    for at, matrix in read.kept.matrices.items():
        torch.testing.assert_close(matrix.sum(-1), torch.ones(matrix.shape[:2]))
        assert not torch.allclose(matrix, plain.kept.matrices[at])


@pytest.mark.parametrize("ask", [attnlab.analyze, attnlab.capture])
def test_a_model_that_hands_on_no_values_is_refused(ask: Any, as_users_call_it: None) -> None:
    falcon = seeded(ANALYZED["falcon"]), tokenizer()
    with pytest.raises(InputError, match="cannot be read of FalconForCausalLM: its layers do not"):
        ask(falcon, sentences=SENTENCES, **GIVEN)
    with pytest.raises(
        InputError, match="weights must be one of attention, contribution, not 'all'"
    ):
        ask(falcon, sentences=SENTENCES, weights="all")


def test_heads_that_get_nothing_from_a_sink_are_counted() -> None:
    heads = pd.DataFrame(
        [
            # First token, special tokens, punctuation: weights, then shares.
            ("encoder", 0, 0, 0.54, 0.1, 0.0, 0.02, 0.1, 0.0),
            ("encoder", 0, 1, 0.4, 0.5, 0.0, 0.01, 0.13, 0.0),
            ("encoder", 1, 0, 0.0, 0.2, 0.35, 0.0, 0.0, 0.034),
            ("encoder", 1, 1, 0.29, 0.2, 0.1, 0.0, 0.0, 0.0),
        ],
        columns=[
            "site", "layer", "head",
            *(f"{of}_on_{key}" for of in ("weight", "mass") for key in ("first", "special", "punctuation")),
        ],
    )  # fmt: skip
    assert _idle_sinks(heads) == []
    (note,) = _idle_sinks(heads.assign(contribution=1.0))
    assert note == IdleSinks(2, 3, "encoder.0.0", "the first token", 0.54, 0.02)
    assert re.search(
        "2 of 3 heads .*: encoder.0.0 has 0.54 of its weight on the first token, and 0.02 of",
        str(note),
    )
