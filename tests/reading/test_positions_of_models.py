"""How many tokens a model has positions for, by running it on as many and on one more."""

import pytest
import torch
import transformers as hf

from attnlab.reading.sentences import most_positions

SIZES = {
    "vocab_size": 60, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
    "intermediate_size": 11, "max_position_embeddings": 20, "pad_token_id": 1,
}  # fmt: skip
FAMILIES = {
    "bert": (hf.BertConfig, hf.BertModel),
    "roberta": (hf.RobertaConfig, hf.RobertaModel),
    "xlm-roberta": (hf.XLMRobertaConfig, hf.XLMRobertaModel),
    "camembert": (hf.CamembertConfig, hf.CamembertModel),
    "mpnet": (hf.MPNetConfig, hf.MPNetModel),
    "electra": (hf.ElectraConfig, hf.ElectraModel),
    "opt": (hf.OPTConfig, hf.OPTModel),
    "gpt2": (hf.GPT2Config, hf.GPT2Model),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_so_many_tokens_can_be_read_and_no_more(name: str) -> None:
    make, of = FAMILIES[name]
    model = of(make(**SIZES)).eval()
    most = most_positions(model.config)
    with torch.no_grad():
        assert model(torch.full((1, most), 5)).last_hidden_state.shape[1] == most
        with pytest.raises((IndexError, RuntimeError)):
            model(torch.full((1, most + 1), 5))
