"""Ablation is what removing a head from the sum is, for every architecture and replacement."""

import copy

import pytest
import torch
from torch import nn
from zoo.architectures import CASES, SOURCE, TARGET, Case, columns, own

from attnlab.ablation.ablation import ablate_cumulatively, ablate_each, ablated, mean_outputs
from attnlab.ablation.projections import (
    all_heads,
    find_projections,
    projections_of,
    watched_heads,
)
from attnlab.core.addresses import Head
from attnlab.core.errors import AttnlabError, InputError

EXACT = {"rtol": 0, "atol": 1e-12}


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]()


def without(case: Case, heads: list[Head]) -> torch.Tensor:
    """The result of a copy of the model that does not add these heads: their weights are 0."""
    twin = copy.deepcopy(case)
    sizes = {layer: projection.heads for layer, projection in case.projections().items()}
    with torch.no_grad():
        for site, layer, head in heads:
            columns(twin.outputs[site, layer], sizes[site, layer], head).zero_()
    return twin.result()


def test_projections_are_found(case: Case) -> None:
    found = case.projections()
    assert {layer: projection.module for layer, projection in found.items()} == case.outputs
    weights = case.run(output_attentions=True)
    heads = {
        "encoder": weights.get("encoder_attentions", weights.get("attentions")),
        "decoder": weights.get("decoder_attentions", weights.get("attentions")),
        "cross": weights.get("cross_attentions"),
    }
    for (site, layer), projection in found.items():
        assert projection.heads == heads[site][layer].shape[1]


def test_projections_are_found_without_naming_modules(case: Case) -> None:
    source, target = SOURCE[2:], TARGET[2:]
    found = projections_of(case.model, lambda: case.run(source, target, output_attentions=True))
    assert found == case.projections()


def test_zero_equals_removing_the_head_from_the_sum(case: Case) -> None:
    projections = case.projections()
    whole = case.result()
    for layer in projections:
        head = Head(*layer, projections[layer].heads - 1)
        with ablated(projections, [head], "zero"):
            found = case.result()
        torch.testing.assert_close(found, without(case, [head]), **EXACT)
        assert (found - whole).abs().max() > 1e-3
    torch.testing.assert_close(case.result(), whole, rtol=0, atol=0)


def test_several_heads_of_several_layers(case: Case) -> None:
    projections = case.projections()
    heads = all_heads(projections)[::2]
    expected = without(case, heads)
    with ablated(projections, heads, "zero"):
        torch.testing.assert_close(case.result(), expected, **EXACT)


def test_mean_equals_a_constant_in_the_bias(case: Case) -> None:
    projections = case.projections()
    real = {"encoder": SOURCE != 0, "decoder": TARGET != 0, "cross": TARGET != 0}
    if not case.model.config.is_encoder_decoder:
        real["decoder"] = SOURCE != 0
    kept = {}
    with (
        torch.no_grad(),
        watched_heads(projections, lambda layer, apart: kept.update({layer: apart})),
    ):
        case.run()
    means = mean_outputs(projections, [None], lambda _: case.run(), lambda _, site: real[site])
    for layer in projections:
        by_hand = kept[layer][real[layer[0]]].mean(0)
        torch.testing.assert_close(means[layer], by_hand, **EXACT)
        twin = copy.deepcopy(case)
        output = twin.outputs[layer]
        part = columns(output, projections[layer].heads, 1)
        constant = (part @ by_hand[1]).detach().clone()
        with torch.no_grad():
            part.zero_()
        output.register_forward_hook(lambda _, __, out, constant=constant: out + constant)
        with ablated(projections, [Head(*layer, 1)], "mean", means):
            torch.testing.assert_close(case.result(), twin.result(), **EXACT)


def test_means_leave_padding_out_and_add_up_over_batches() -> None:
    case = CASES["bert"]()
    projections = case.projections()

    def real(batch, _):
        return batch != 0

    whole = mean_outputs(projections, [SOURCE], case.run, real)
    parts = mean_outputs(projections, [SOURCE[:1], SOURCE[1:, :7]], case.run, real)
    for layer in projections:
        torch.testing.assert_close(whole[layer], parts[layer], **EXACT)


def visible(case: Case, site: str) -> torch.Tensor:
    """Which keys each real token may look at."""
    alone = not case.model.config.is_encoder_decoder
    queries = SOURCE if site == "encoder" or alone else TARGET
    keys = SOURCE if site != "decoder" or alone else TARGET
    seen = (queries != 0)[:, :, None] & (keys != 0)[:, None, :]
    return seen.tril() if site == "decoder" else seen


@pytest.mark.parametrize("name", ["attnlab", "bert", "distilbert", "marian", "bart", "llama"])
def test_uniform_heads_look_at_all_that_they_may_alike(name: str) -> None:
    case = CASES[name]()
    projections = case.projections()
    for layer in projections:
        before = case.run(output_attentions=True)
        with ablated(projections, [Head(*layer, 1)], "uniform"):
            after = case.run(output_attentions=True)
        key = {"cross": "cross_attentions", "decoder": "decoder_attentions"}.get(
            layer[0], "encoder_attentions"
        )
        key = key if key in after else "attentions"
        old, new = before[key][layer[1]], after[key][layer[1]]
        seen = visible(case, layer[0])
        rows = seen.any(-1)
        even = seen / seen.sum(-1, keepdim=True).clamp_min(1).double()
        # Llama takes its softmax in float32.
        torch.testing.assert_close(new[:, 1][rows], even[rows], rtol=0, atol=1e-7)
        others = [head for head in range(old.shape[1]) if head != 1]
        torch.testing.assert_close(new[:, others], old[:, others], **EXACT)


def test_uniform_heads_are_uniform_in_the_rows_of_global_tokens_too() -> None:
    # These rows have queries of their own.
    case = own(
        attention={"encoder": "longformer(window=1, global_tokens=[2])"}, global_projections=True
    )
    projections = case.projections()
    before = case.run(output_attentions=True)["encoder_attentions"][1]
    with ablated(projections, [Head("encoder", 1, 1)], "uniform"):
        after = case.run(output_attentions=True)["encoder_attentions"][1]
    positions = torch.arange(SOURCE.shape[1])
    near = (positions[:, None] - positions).abs() <= 1
    seen = visible(case, "encoder") & (near | (positions == 2) | (positions == 2)[:, None])
    rows = seen.any(-1)
    even = seen / seen.sum(-1, keepdim=True).clamp_min(1).double()
    torch.testing.assert_close(after[:, 1][rows], even[rows], **EXACT)
    torch.testing.assert_close(after[:, [0, 2]], before[:, [0, 2]], **EXACT)
    again = case.run(output_attentions=True)["encoder_attentions"][1]
    torch.testing.assert_close(again, before, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["t5", "gpt2"])
def test_uniform_is_refused_where_the_query_is_not_all(name: str) -> None:
    case = CASES[name]()
    projections = case.projections()
    with (
        pytest.raises(InputError, match="use 'zero' or 'mean'"),
        ablated(projections, [Head("decoder", 0, 0)], "uniform"),
    ):
        pass


def test_uniform_is_refused_for_a_fixed_pattern() -> None:
    # A query of 0 would change nothing and look like a head of no importance.
    case = own(attention={"encoder": "fixed(pattern='previous')"})
    projections = case.projections()
    with (
        pytest.raises(InputError, match="Heads of encoder layer 0 cannot be made uniform"),
        ablated(projections, [Head("encoder", 0, 0)], "uniform"),
    ):
        pass
    with ablated(projections, [Head("encoder", 0, 0)], "zero"):
        found = case.result()
    torch.testing.assert_close(found, without(case, [Head("encoder", 0, 0)]), **EXACT)


def test_the_three_replacements_are_three_things() -> None:
    case = CASES["attnlab"]()
    projections = case.projections()
    means = mean_outputs(
        projections, [None], lambda _: case.run(),
        lambda _, site: SOURCE != 0 if site == "encoder" else TARGET != 0,
    )  # fmt: skip
    results = []
    for replacement in ("zero", "mean", "uniform"):
        with ablated(projections, [Head("encoder", 0, 1)], replacement, means):
            results.append(case.result())
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert (results[one] - results[other]).abs().max() > 1e-3


def test_a_slice_behind_the_projection_is_no_head() -> None:
    # The error that this module is there to prevent (heads.md, trap 3).
    case = CASES["bert"]()
    projections = case.projections()
    right = without(case, [Head("encoder", 0, 1)])

    def zero_slice(_, __, output):
        output = output.clone()
        output[..., 5:10] = 0
        return output

    handle = case.outputs["encoder", 0].register_forward_hook(zero_slice)
    wrong = case.result()
    handle.remove()
    assert (wrong - right).norm() / right.norm() > 0.1
    with ablated(projections, [Head("encoder", 0, 1)], "zero"):
        torch.testing.assert_close(case.result(), right, **EXACT)


def test_each_and_cumulative() -> None:
    case = CASES["attnlab"]()
    projections = case.projections()
    order = [Head("cross", 1, 2), Head("encoder", 0, 0), Head("encoder", 0, 2)]
    alone = ablate_each(projections, order, "zero", case.result)
    assert list(alone) == order
    for head in order:
        torch.testing.assert_close(alone[head], without(case, [head]), **EXACT)
    curve = ablate_cumulatively(projections, order, "zero", case.result)
    for count, found in enumerate(curve):
        torch.testing.assert_close(found, without(case, order[:count]), **EXACT)


def test_ablation_reaches_cached_generation() -> None:
    # Two models, one hooked and one with its weights removed, write the same text.
    case = CASES["attnlab"]()
    projections = case.projections()
    heads = [Head("cross", 0, 0), Head("decoder", 1, 1), Head("encoder", 1, 2)]
    options = {"max_new_tokens": 9, "num_beams": 1, "do_sample": False}
    twin = copy.deepcopy(case)
    with torch.no_grad():
        for site, layer, head in heads:
            columns(twin.outputs[site, layer], 3, head).zero_()
    with ablated(projections, heads, "zero"):
        found = case.model.generate(SOURCE, **options)
    assert torch.equal(found, twin.model.generate(SOURCE, **options))


def test_bad_requests_are_refused() -> None:
    case = CASES["bert"]()
    projections = case.projections()
    for head in (Head("encoder", 0, 3), Head("decoder", 0, 0), Head("encoder", 2, 0)):
        with (
            pytest.raises(InputError, match=rf"no head {head}; choose from encoder.0.0 to "),
            ablated(projections, [head], "zero"),
        ):
            pass
    with (
        pytest.raises(InputError, match="mean outputs"),
        ablated(projections, [Head("encoder", 0, 0)], "mean"),
    ):
        pass


def test_model_without_a_projection_is_refused() -> None:
    class Bare(nn.Module):
        def forward(self, tokens):
            return tokens * 2, tokens.new_ones(1, 3, 2, 2)

    bare = Bare()
    with pytest.raises(AttnlabError, match="encoder layer 0: the output projection of Bare"):
        find_projections(bare, {("encoder", 0): (bare, 0)}, lambda: bare(torch.ones(1, 2, 6)))
    # Nor is one of a module that did not run.
    with pytest.raises(AttnlabError, match="encoder layer 0: the output projection of Bare"):
        find_projections(bare, {("encoder", 0): (bare, 0)}, lambda: None)
