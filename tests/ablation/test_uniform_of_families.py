"""A head made uniform attends to all its keys alike and changes no other head, or it is refused."""

from typing import Any

import pytest
import torch
from grids import first
from torch import nn
from transformers import PhiConfig, PhiForCausalLM
from zoo.analyzed import ANALYZED, LEFT, TWINS
from zoo.random_models import PAIRS, SENTENCES, seeded, tokenizer

from attnlab.ablation import ablated
from attnlab.core import AttnlabError, Head, InputError
from attnlab.evaluation import load_evaluator
from attnlab.reading.capture import capture

pytestmark = pytest.mark.grid

TOKENIZER = tokenizer()
WITH_NORMS = {
    "phi with norms": lambda: PhiForCausalLM(
        PhiConfig(**LEFT | {"num_key_value_heads": 3}, qk_layernorm=True)
    )
}
# Queries not projected apart, scores with another part, or norms that a query of 0 does not pass.
REFUSED = {
    "falcon", "falcon-alibi", "gpt_oss", "phi3", "olmo2", "modernbert", "gpt_neox", "gpt_bigcode",
    "bloom", "mpt", "mpnet", "deberta", "deberta_v2", "ctrl", "codegen", "persimmon", "deepseek_v3",
    "mt5", "switch", "phi with norms",
}  # fmt: skip


def with_biases(model: Any) -> Any:
    """As after training: no bias and no norm is what it began as."""
    generator = torch.Generator().manual_seed(2)
    for module in model.modules():
        if "Norm" in type(module).__name__:
            for parameter in module.parameters():
                parameter.data += torch.randn(parameter.shape, generator=generator) * 0.3
        if isinstance(module, nn.Embedding) and module.embedding_dim < 12:
            module.weight.data.normal_(std=0.5, generator=generator)
    # MobileBERT reads the next token's embedding, which for padding is 0.
    model.get_input_embeddings().weight.data[0] = 0.0
    return model.eval()


def matrices(model: Any, texts: Any) -> dict[Any, torch.Tensor]:
    return capture((model, TOKENIZER), texts, keep_matrices=2).kept.matrices


@pytest.mark.parametrize("name", first([*ANALYZED, *WITH_NORMS], but=TWINS))
def test_a_uniform_head_is_uniform_and_alone_or_refused(name: str) -> None:
    model = with_biases(seeded((ANALYZED | WITH_NORMS)[name]))
    texts = (PAIRS if model.config.is_encoder_decoder else SENTENCES)[:2]
    try:
        projections = load_evaluator((model, TOKENIZER), sentences=texts).projections
    except AttnlabError:
        pytest.skip("no loss or no head apart")
    before, uniform = matrices(model, texts), []
    for site, layer in projections:
        head = Head(site, layer, 1)
        try:
            with ablated(projections, [head], "uniform"):
                after = matrices(model, texts)
        except InputError:
            continue
        uniform.append(head)
        for (number, at, deep), weights in after.items():
            old = before[number, at, deep]
            if (at, deep) != (site, layer):
                continue
            seen = weights[1] > 0  # of other scores some weights may be too small to be told from 0
            assert (seen | (old[1] == 0)).all()
            even = seen / seen.sum(-1, keepdim=True)
            torch.testing.assert_close(weights[1], even, atol=2e-6, rtol=0)
            others = [other for other in range(len(old)) if other != 1]
            torch.testing.assert_close(weights[others], old[others], atol=1e-6, rtol=1e-5)
    assert bool(uniform) is (name not in REFUSED)


def test_a_layer_with_a_bias_of_its_own_is_refused_and_cross_attention_beside_it_is_not() -> None:
    model = seeded(ANALYZED["umt5"]).eval()
    evaluator = load_evaluator((model, TOKENIZER), sentences=PAIRS[:2])
    possible = set()
    for site, layer in evaluator.projections:
        try:
            with ablated(evaluator.projections, [Head(site, layer, 0)], "uniform"):
                possible.add(site)
        except InputError as error:
            assert "use 'zero' or 'mean'" in str(error)  # noqa: PT017 - some layers are not refused
    assert possible == {"cross"}
