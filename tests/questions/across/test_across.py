"""Heads of models that are made of each other: permuted, planted, of other tokens and shapes."""

import copy
import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from jaxtyping import TypeCheckError
from scipy.spatial.distance import jensenshannon
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from transformers import PreTrainedTokenizerFast
from zoo import random_models
from zoo.random_models import PAIRS, SENTENCES, tokenizer

import attnlab
from attnlab.attention import use
from attnlab.core import HEAD_COLUMNS
from attnlab.core.errors import InputError
from attnlab.labels import NAMED_FROM, ROLE_LEGEND
from attnlab.questions.across import matching
from attnlab.questions.across.comparing import CONTROL_SEED
from attnlab.questions.across.degree_tables import differences, formation
from attnlab.questions.across.question import (
    AcrossSettings,
    ComparedByWords,
    NoSeeds,
    OtherShape,
)
from attnlab.questions.across.view import answers, contents, rows, terminal
from attnlab.results import Result, head_names

Pair = tuple[Any, Any]
ORDER = [[2, 0, 1], [1, 2, 0]]


@pytest.fixture(scope="module")
def bert() -> Pair:
    return random_models.bert(), tokenizer()


def permuted(model: Any, order: list[list[int]]) -> Any:
    """The same function of its inputs, with the heads of each layer in another order."""
    made = copy.deepcopy(model)
    for layer, heads in zip(made.encoder.layer, order, strict=True):
        own, out = layer.attention.self, layer.attention.output.dense
        rows = torch.arange(len(out.weight)).view(len(heads), -1)[heads].flatten()
        with torch.no_grad():
            for part in (own.query, own.key, own.value):
                part.weight.copy_(part.weight[rows])
                part.bias.copy_(part.bias[rows])
            out.weight.copy_(out.weight[:, rows])
    return made


@pytest.fixture(scope="module")
def found(bert: Pair) -> Result:
    """A model beside itself and beside one whose heads are permuted."""
    other = permuted(bert[0], ORDER), bert[1]
    return attnlab.across(
        bert, bert, other, sentences=SENTENCES * 4, patterns=["offset -1"], ablation=True
    )


def of_model(table: pd.DataFrame, number: int) -> pd.DataFrame:
    return table[table["model"] == f"BertModel ({number})"]


def test_a_model_is_matched_with_itself(found: Result) -> None:
    same = of_model(found.matching, 2)
    assert (same["matched_distance"] == 0).all()
    assert not same["moved"].any()
    assert (of_model(found.differences, 2)["degree_change"].dropna() == 0).all()
    assert len(found.across) == 18
    assert {"role", "strength", "loss_change"} <= set(found.across)


def test_strengths_are_those_of_an_analysis(bert: Pair, found: Result) -> None:
    options: dict[str, Any] = {"structure_sentences": 0, "fit_sentences": 0, "keep_matrices": 0}
    analysis = attnlab.analyze(
        bert,
        sentences=SENTENCES * 4,
        labels=True,
        ablation=False,
        seed=CONTROL_SEED,
        ignore_special=False,
        **options,
    )
    controls = analysis.controls[analysis.controls["keys"] == "all"]
    own = found.degrees[found.degrees["model"] == "BertModel"].dropna(subset="value")
    keys = [*HEAD_COLUMNS, "what"]
    pd.testing.assert_series_equal(
        own.set_index(keys)["degree"].sort_index(),
        controls.rename(columns={"label": "what"}).set_index(keys)["strength"].sort_index(),
        check_names=False,
    )
    first = found.across[found.across["model"] == "BertModel"].set_index(HEAD_COLUMNS)
    summary = analysis.summary.set_index(HEAD_COLUMNS)
    for name in ("role", "detail", "significant"):
        assert first[name].tolist() == summary[name].tolist(), name


def test_a_permutation_of_heads_is_found(found: Result) -> None:
    moved = of_model(found.matching, 3)
    expected = [f"encoder.{layer}.{head}" for layer, heads in enumerate(ORDER) for head in heads]
    assert moved["matched"].tolist() == expected
    assert moved["matched_distance"].max() < 1e-3 < moved["number_distance"].min()
    changes = of_model(found.differences, 3).query("what == 'offset -1'")
    assert len(changes) == 6
    assert changes["degree_change"].abs().max() < 1e-3
    pairs = zip(moved["matched"], head_names(moved), strict=True)
    assert {*zip(head_names(changes), changes["counterpart"], strict=True)} == {*pairs}
    # Strengths are also held against the untrained head of the same number; figures are not.
    figures = found.degrees.dropna(subset="value").assign(name=head_names)
    own, other = (
        figures[figures["model"] == name].set_index(["what", "name"])["value"]
        for name in ("BertModel", "BertModel (3)")
    )
    names = dict(zip(head_names(moved), moved["matched"], strict=True))
    pd.testing.assert_series_equal(other.rename(names).sort_index(), own.sort_index(), rtol=1e-3)
    told = answers(found)
    assert told[0].endswith("are those of BertModel, each at its number.")
    assert told[1].endswith("are those of BertModel, 6 of 6 at another number.")
    assert NoSeeds() in found.notes


def test_heads_of_other_weights_are_counted_where_they_are_at_another_number(bert: Pair) -> None:
    other = random_models.seeded(lambda: type(bert[0])(bert[0].config), 8), bert[1]
    for match in ("number", "attention"):
        found = attnlab.across(bert, [other], sentences=SENTENCES, match=match)
        moved = int(found.matching["moved"].sum())
        (told,) = (one for one in answers(found) if "apart on average" in one)
        assert (f"{moved} of 6 are at another number" in told) == (match == "attention")
        assert ("at another number" in told) == (moved > 0)


def test_by_number_heads_stay_where_they_are(bert: Pair) -> None:
    other = permuted(bert[0], ORDER), bert[1]
    result = attnlab.across(bert, [other], sentences=SENTENCES, match="number")
    names = [f"encoder.{layer}.{head}" for layer in range(2) for head in range(3)]
    assert result.matching["matched"].tolist() == names
    assert (result.matching["matched_distance"] == result.matching["number_distance"]).all()


def test_distances_are_means_over_texts_of_rows_with_a_choice(bert: Pair) -> None:
    texts = SENTENCES[:3]
    other = copy.deepcopy(bert[0])
    with torch.no_grad():
        for part in other.parameters():
            part.add_(0.02)
    result = attnlab.across(bert, [(other, bert[1])], sentences=texts, match="number")
    kept = [
        attnlab.capture((model, bert[1]), texts, keep_matrices=3).kept.matrices
        for model in (bert[0], other)
    ]
    expected = []
    for number in range(len(texts)):
        rows = [one[number, "encoder", 1][2][1:-1] for one in kept]
        squares = [jensenshannon(p, q, base=2) ** 2 for p, q in zip(*rows, strict=True)]
        expected.append(np.sqrt(np.mean(squares)))
    own = result.matching.set_index(["layer", "head"]).loc[(1, 2), "matched_distance"]
    assert own == pytest.approx(np.mean(expected), abs=1e-6)


def test_matrices_are_kept_of_the_first_texts_that_fit(
    bert: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = attnlab.across(bert, [bert], sentences=SENTENCES[:2])
    matrices = attnlab.capture(bert, SENTENCES[:2], keep_matrices=2).kept.matrices
    own_bytes = 4 * 3 * sum(len(rows) ** 2 for rows in (one[0] for one in matrices.values()))
    monkeypatch.setattr(matching, "MOST_BYTES", own_bytes)
    less = attnlab.across(bert, [bert], sentences=SENTENCES)
    assert few.about["Matched"] == less.about["Matched"] == "by attention, distances on 2 texts"
    pd.testing.assert_frame_equal(less.matching, few.matching)
    monkeypatch.setattr(matching, "MOST_BYTES", 1)
    one = attnlab.across(bert, [bert], sentences=SENTENCES)
    assert one.about["Matched"].endswith("on 1 texts")


def test_decoders_that_read_other_texts_are_not_matched() -> None:
    pair = random_models.marian(), tokenizer()
    result = attnlab.across(pair, [(random_models.gpt2(), tokenizer())], sentences=PAIRS)
    assert result.matching.empty


def test_models_of_other_tokens_are_compared_by_words(bert: Pair) -> None:
    written = bert[1].backend_tokenizer.to_str().replace('"<s>"', '"<begin>"')
    special = {
        "bos_token": "<begin>",
        "eos_token": "</s>",
        "pad_token": "<pad>",
        "unk_token": "<unk>",
    }
    other = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(written), **special)
    with use(bert[0], {"encoder.0.1": "fixed(pattern='previous')"}):
        result = attnlab.across(bert, [(bert[0], other)], sentences=SENTENCES)
    assert ComparedByWords("BertModel (2)") in result.notes
    own = result.matching.set_index(["layer", "head"])
    # Ids and weights are the same.
    assert own["matched_distance"].max() < 1e-6
    assert own.loc[(0, 1), "matched"] == "encoder.0.1"


def test_texts_between_whose_words_heads_are_compared_do_not_depend_on_batches(bert: Pair) -> None:
    # Words of two tokens change which texts are read together.
    ids = {word: number for number, word in enumerate(random_models.SPECIALS + random_models.WORDS)}
    ids |= {"c": ids.pop("cat"), "##at": ids.pop("gatto")}
    ids |= {"r": ids.pop("red"), "##ed": ids.pop("vede")}
    cut = Tokenizer.from_str(bert[1].backend_tokenizer.to_str())
    cut.model = WordPiece(ids, unk_token="<unk>")
    pieces = PreTrainedTokenizerFast(tokenizer_object=cut, pad_token="<pad>", unk_token="<unk>")
    alone, batched = (
        attnlab.across(bert, [(bert[0], pieces)], sentences=SENTENCES, batch_size=size).matching
        for size in (1, 2)
    )
    pd.testing.assert_frame_equal(alone, batched, atol=1e-6)


def test_heads_of_more_layers_are_matched_over_all_of_them(bert: Pair) -> None:
    fewer = copy.deepcopy(bert[0])
    fewer.encoder.layer = fewer.encoder.layer[:1]
    fewer.config.num_hidden_layers = 1
    result = attnlab.across((fewer, bert[1]), [bert], sentences=SENTENCES)
    assert OtherShape("BertModel (2)", "encoder", shared=True) in result.notes
    matched = result.matching.set_index("layer")["matched"]
    assert matched[0].tolist() == [f"encoder.0.{head}" for head in range(3)]
    assert (matched[1] == "").all()
    (table,) = result.terminal()
    assert [row[0] for row in table.rows] == [f"encoder.0.{head}" for head in range(3)]
    assert all(row[2].startswith(f"{row[0]} (0.00) ") for row in table.rows)


def test_models_without_a_site_in_common_are_not_matched(bert: Pair) -> None:
    result = attnlab.across(bert, [(random_models.gpt2(), tokenizer())], sentences=SENTENCES)
    assert result.matching.empty
    assert OtherShape("GPT2LMHeadModel", "decoder", shared=False) in result.notes
    assert result.differences.empty
    (table,) = result.terminal()
    assert {row[2] for row in table.rows} == {""}


def test_a_planted_change_is_beyond_seeds(bert: Pair) -> None:
    changed = copy.deepcopy(bert[0])
    seed = copy.deepcopy(bert[0])
    with use(changed, {"encoder.1.2": "fixed(pattern='previous')"}):
        result = attnlab.across(
            bert, [(changed, bert[1])], seeds=[(seed, bert[1])], sentences=SENTENCES * 10,
            patterns=["offset -1"], match="number",
        )  # fmt: skip
    table = result.differences[result.differences["what"] == "offset -1"]
    own = table.set_index(["layer", "head"])
    assert own["beyond_seeds"].tolist() == [False] * 5 + [True]
    assert (own["seed_change"] == 0).all()
    assert own.loc[(1, 2), "other_degree"] == 1
    assert set(result.differences["model"]) == {"BertModel (2)"}
    assert NoSeeds() not in result.notes
    assert "with 1 further seed." in answers(result)[-1]


def test_the_largest_change_of_any_head_over_seeds_counts() -> None:
    degrees = pd.DataFrame(
        [
            ("a", 0, 0.5), ("b", 0, 0.8), ("one", 0, 0.6), ("two", 0, 0.3),
            ("a", 1, 0.5), ("b", 1, 0.4), ("one", 1, 0.5), ("two", 1, 0.5),
        ],
        columns=["model", "head", "degree"],
    ).assign(site="encoder", layer=0, what="sink")  # fmt: skip
    matching = degrees.assign(matched="encoder.0." + degrees["head"].astype(str))
    matching = matching[degrees["model"] != "a"].drop(columns=["degree", "what"])
    found = differences(degrees, matching, "a", ["one", "two"]).set_index("head")
    assert set(found["model"]) == {"b"}
    assert found["seed_change"].tolist() == pytest.approx([0.2, 0.2])
    assert found["beyond_seeds"].tolist() == [True, False]


def test_formation_is_halfway_between_start_and_end() -> None:
    def table(model: str, degree: float, step: int, what: str = "sink") -> dict[str, Any]:
        return {
            "model": model,
            "site": "encoder",
            "what": what,
            "degree": degree,
            "training_step": step,
        }

    rows = [table(str(step), value, step) for step, value in ((0, 0.1), (8, 0.1), (16, 0.9))]
    rows += [table(str(step), 0.2, step, "broad") for step in (0, 8, 16)]
    # Within what untrained models reach.
    rows += [
        table(str(step), value, step, "rare") for step, value in ((0, 0.1), (8, 0.2), (16, 0.3))
    ]
    twins = [table("x", 0.0, 0), table("y", 0.3, 0), table("x", 0.25, 0, "broad")]
    twins += [table("x", 0.0, 0, "rare"), table("y", 0.4, 0, "rare")]
    found = formation(pd.DataFrame(rows), pd.DataFrame(twins)).set_index("what")
    assert found["half_step"].to_dict() == pytest.approx(
        {"sink": 12, "broad": np.nan, "rare": np.nan}, nan_ok=True
    )
    assert found["untrained_low"].to_dict() == {"sink": 0, "broad": 0.25, "rare": 0}
    assert found["untrained_high"].to_dict() == {"sink": 0.3, "broad": 0.25, "rare": 0.4}


def test_other_models_follow_one_by_one_or_as_a_list(bert: Pair) -> None:
    given = {"sentences": SENTENCES[:3], "patterns": "offset -1"}
    expected = attnlab.across(bert, [bert], **given)
    for found in (
        attnlab.across(bert, bert, **given),
        attnlab.across(bert, others=[bert], **given),
    ):
        pd.testing.assert_frame_equal(found.degrees, expected.degrees)


def test_a_pattern_that_no_row_meets_is_left_out_beside_others(bert: Pair) -> None:
    given = {"sentences": SENTENCES[:3], "patterns": ["offset -1", "dep nsubj"]}
    found = attnlab.across(bert, bert, **given)
    assert {"offset -1"} == {*found.degrees["what"]} & {*given["patterns"]}
    left_out = [
        str(note) for note in found.notes if str(note).startswith("Left out is 'dep nsubj'")
    ]
    assert len(left_out) == 2
    assert "needs gold trees" in left_out[0]


def test_what_cannot_be_compared_is_refused(bert: Pair, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="^There is no model to compare the first one with"):
        attnlab.across(bert, sentences=SENTENCES)
    one_by_one = r"^across\(\) takes others one by one behind its source, or all in one list;"
    for positions, named in (([[bert], bert], {}), ([bert], {"others": [bert]})):
        with pytest.raises(TypeError, match=one_by_one):
            attnlab.across(bert, *positions, **named, sentences=SENTENCES)
    # The check of annotations, where it runs, comes first.
    a_list = r"others must be a list, not \{'a': 1\}\.$|violates type hint"
    with pytest.raises((InputError, TypeCheckError), match=a_list):
        attnlab.across(bert, others={"a": 1})
    with pytest.raises(InputError, match="No row of the texts can meet 'dep nsubj' at encoder"):
        attnlab.across(bert, [bert], sentences=SENTENCES, patterns=["dep nsubj"])
    with pytest.raises(
        InputError, match="BertModel: No row of the texts can meet 'token \"zebu\"'"
    ):
        attnlab.across(bert, [bert], sentences=SENTENCES, patterns=['token "zebu"'])
    with pytest.raises(InputError, match="checkpoints are those of one run"):
        AcrossSettings(others=["a"], checkpoints=True)
    with pytest.raises(InputError, match="is no run of attnlab, which alone keeps checkpoints"):
        attnlab.across(bert, checkpoints=True, sentences=SENTENCES)
    with pytest.raises(InputError, match="No model could be loaded|does not exist"):
        attnlab.across(bert, [tmp_path / "nothing"], sentences=SENTENCES)


def test_the_terminal_says_what_was_asked(found: Result) -> None:
    hits = found.degrees[found.degrees["what"] == "offset -1"]
    most = hits.loc[hits.groupby("model", sort=False)["degree"].idxmax()].iloc[0]
    told = f"encoder.{most['layer']}.{most['head']} of BertModel ({most['degree']:.2f})"
    assert [line for line in answers(found) if line.startswith(f"offset -1: most hits {told}, ")]
    [table] = terminal(found)
    assert ROLE_LEGEND in table.legend
    assert not any("✓" in str(row[1]) for row in table.rows)
    confirmed = found.across.assign(role="positional", significant=True)
    [table] = terminal(replace(found, tables={**found.tables, "across": confirmed}))
    assert all("✓" in str(row[1]) for row in table.rows)


def test_a_role_is_named_from_the_strength_of_an_analysis_on(found: Result) -> None:
    weak = [NAMED_FROM - 0.01, NAMED_FROM] * 9
    heads = found.across.assign(role="positional", detail="", significant=False, strength=weak)
    shown = replace(found, tables={**found.tables, "across": heads})
    [table] = terminal(shown)
    assert [row[1] for row in table.rows] == ["none", "positional 0.25"] * 3
    assert rows(shown)["role"].tolist() == ["none", "positional"] * 9
    layers = [cells for step in contents(shown).overview.steps for _, cells in step.rows]
    assert [cell.short for cell in itertools.chain(*layers) if cell] == ["·", "positional"] * 9


def test_the_page_shows_a_map_per_model(found: Result, tmp_path: Path) -> None:
    page = (found.save(tmp_path) / "report.html").read_text(encoding="utf-8")
    assert page.count('<div class="step">') == 3
    assert f"closest role: {ROLE_LEGEND}" in page
    assert '<input type="range" id="step" min="0" max="2"' in page
