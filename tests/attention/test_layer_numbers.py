"""Hybrid models: layers have the model's own numbers, those without attention counted too."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from grids import first
from torch import nn
from zoo.hybrids import HYBRIDS, LAYERS, WITH
from zoo.random_models import SENTENCES, seeded, tokenizer

import attnlab
from attnlab.ablation.ablation import ablated
from attnlab.ablation.projections import projections_of
from attnlab.attention.bridge.installing import install, use
from attnlab.attention.bridge.saved import load_with_plan
from attnlab.attention.bridge.sites import layer_numbers, mechanism_of
from attnlab.attention.plan import load_plan, plan_of, write_plan
from attnlab.core.addresses import Head
from attnlab.core.errors import InputError
from attnlab.reading.capture import capture

TOKENIZER = tokenizer()
LOST, LAST = WITH
REPLACED = [name for name, family in HYBRIDS.items() if family.replaced]
# Layers without attention, of another kind, stand among layers that are found in the same way.
ALIKE = {*HYBRIDS} - {"jamba", "lfm2", "qwen3_5", "zamba2", "qwen3_5 with images"}


def hybrid(name: str) -> Any:
    return seeded(HYBRIDS[name].build).eval()


def matrices(model: Any, **options: Any) -> dict[int, torch.Tensor]:
    kept = capture((model, TOKENIZER), SENTENCES[:1], keep_matrices=1, **options).kept.matrices
    return {layer: matrix for (_, _, layer), matrix in kept.items()}


def changed(model: Any, layer: int) -> Any:
    """A copy whose layer of this index, by its path, has other weights."""
    other = copy.deepcopy(model)
    with torch.no_grad():
        for path, parameter in other.named_parameters():
            if f".layers.{layer}." in path:
                parameter.add_(torch.linspace(-0.5, 0.5, parameter.numel()).view_as(parameter))
    return other


@pytest.mark.parametrize("name", first(HYBRIDS, but=ALIKE))
def test_captured_layers_have_the_numbers_of_their_modules(name: str) -> None:
    model = hybrid(name)
    own = matrices(model)
    assert tuple(own) == WITH
    behind_first, before_both = (matrices(changed(model, layer)) for layer in (LOST + 1, 0))
    assert torch.equal(behind_first[LOST], own[LOST])
    assert not torch.equal(behind_first[LAST], own[LAST])
    assert not torch.equal(before_both[LOST], own[LOST])
    assert tuple(matrices(model, layers=[LAST])) == (LAST,)
    for layer in (1, LAYERS):
        with pytest.raises(InputError, match=f"in layer {layer} to read; .*decoder: layers 2, 5"):
            matrices(model, layers=[LAST, layer])


@pytest.mark.parametrize("name", first(REPLACED, but=ALIKE))
def test_a_plan_names_layers_by_these_numbers(name: str) -> None:
    model = hybrid(name)
    own = matrices(model)
    with use(model, {f"decoder.{LAST}": "band(window=0)"}) as installed:
        banded = [at for at in installed.modules if mechanism_of(at.module).name == "band"]
        replaced = matrices(model)
    assert [(at.layer, f".layers.{LAST}." in at.path) for at in banded] == [(LAST, True)]
    torch.testing.assert_close(replaced[LOST], own[LOST], atol=1e-5, rtol=1e-4)
    expected = torch.eye(own[LAST].shape[-1]).expand_as(own[LAST])
    torch.testing.assert_close(replaced[LAST], expected)
    for address in ("decoder.0", f"decoder.{LAST - 1}.0"):
        with pytest.raises(
            InputError, match=f"'{address}', .* decoder has attention in layers 2, 5"
        ):
            install(model, {address: "band(window=0)"})


@pytest.mark.parametrize("name", first(HYBRIDS, but=ALIKE))
def test_a_head_is_ablated_in_the_layer_of_its_number(name: str) -> None:
    model = hybrid(name)
    ids = TOKENIZER(SENTENCES[0], return_tensors="pt")["input_ids"]
    paths = {module: path for path, module in model.named_modules()}
    found = projections_of(model, lambda: model(ids, output_attentions=True, use_cache=False))
    assert [*found] == [("decoder", layer) for layer in WITH]
    for layer in WITH:
        assert f".layers.{layer}." in paths[found["decoder", layer].module]
    with ablated(found, [Head("decoder", LOST, 0)], "zero"):
        after = matrices(model)
    assert torch.equal(after[LOST], matrices(model)[LOST])
    assert not torch.equal(after[LAST], matrices(model)[LAST])


@pytest.mark.parametrize("name", ["lfm2", "qwen3_5", "zamba2"])
def test_a_saved_model_has_its_plan_in_the_same_layers(name: str, tmp_path: Path) -> None:
    model, plan = hybrid(name), {f"decoder.{LAST}.1": "band(window=1)"}
    with use(model, plan):
        expected = matrices(model)
        model.save_pretrained(tmp_path)
    again = load_with_plan(tmp_path)
    assert again.plan.as_dict() == plan
    found = matrices(again.model)
    assert {layer: torch.allclose(found[layer], expected[layer], atol=1e-6) for layer in WITH} == {
        LOST: True,
        LAST: True,
    }


@pytest.mark.parametrize("format_", ["attnlab attention plan 1", None])
def test_plans_of_another_numbering_are_refused(format_: str | None, tmp_path: Path) -> None:
    model = hybrid("lfm2")
    with use(model, {"decoder.5": "band(window=1)"}):
        model.save_pretrained(tmp_path / "model")
    write_plan(tmp_path / "plan.json", plan_of({"decoder.0": "band(window=1)"}))
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    plan = json.loads((tmp_path / "plan.json").read_text())
    for entry in (config["attnlab_plan"], plan):
        entry.pop("format")
        if format_ is not None:
            entry["format"] = format_
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(
        InputError, match="may be counted without those that have no attention; write"
    ):
        load_plan(tmp_path / "plan.json")
    with pytest.raises(
        InputError, match=r"config\.json has another format than this version writes"
    ):
        load_with_plan(tmp_path / "model")


QUESTIONS: dict[str, Any] = {
    "analyze": (lambda pair: attnlab.analyze(pair, sentences=SENTENCES[:2], labels=False).heads),
    "importance": (lambda pair: attnlab.importance(pair, sentences=SENTENCES).importance),
    "inspect": (lambda pair: attnlab.inspect(pair, sentence=SENTENCES[0]).heads),
    "compare": (
        lambda pair: attnlab.compare(
            pair, sentences=SENTENCES[:2], validation=SENTENCES[2:4],
            calibration=SENTENCES[4:], per_head=True, quick=True, mechanisms=["band"], budgets=[2],
        ).mechanisms_by_head
    ),
    "detect": (
        lambda pair: attnlab.detect(
            pair, sequences=2, context=32, gate_steps=1, first=2, recent=4, controls=False
        ).detectors.dropna(subset="learned_gate")
    ),
    "check": (lambda pair: attnlab.check(pair[0], tokens=16).abilities),
}  # fmt: skip


@pytest.mark.parametrize("question", QUESTIONS)
def test_tables_have_these_numbers(question: str) -> None:
    table = QUESTIONS[question]((hybrid("qwen3_5"), TOKENIZER))
    assert set(zip(table["site"], table["layer"], strict=True)) == {("decoder", n) for n in WITH}


def test_lists_that_do_not_tell_layers_apart_give_no_numbers() -> None:
    two = nn.ModuleList([nn.ModuleList([nn.Identity(), nn.Identity()]) for _ in range(2)])
    assert layer_numbers(two, [module for layer in two for module in layer]) == {}
    assert layer_numbers(two, [layer[1] for layer in two]) == {two[0][1]: (0,), two[1][1]: (1,)}
    alone = nn.Sequential()
    alone.attention = nn.Identity()
    assert layer_numbers(alone, [alone.attention]) == {}
    two[1][0] = two[0][1]
    assert layer_numbers(two, [two[0][1]]) == {two[0][1]: (0, 1)}
