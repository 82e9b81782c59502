"""Models and sentences of the folder of inputs, as any environment with transformers reads them."""

import json
from pathlib import Path
from typing import Any

Texts = list[list[int]]


def load_model(folder: Path) -> Any:
    """The model of a folder in eval mode, with eager attention, built from its configuration and weights."""
    import transformers
    from safetensors.torch import load_file

    values = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (name,) = values["architectures"]
    model_class = getattr(transformers, name)
    config = model_class.config_class(**values, attn_implementation="eager")
    model = model_class(config)
    missing, unexpected = model.load_state_dict(
        load_file(folder / "model.safetensors"), strict=False
    )
    model.tie_weights()
    # The output layer is the embedding and not written again.
    if unexpected or set(missing) - {"lm_head.weight"}:
        msg = f"{folder} does not hold this model: {missing}, {unexpected}"
        raise ValueError(msg)
    return model.eval()


def load_tokenizer(folder: Path) -> Any:
    """The tokenizer of a folder."""
    from transformers import PreTrainedTokenizerFast

    special = {
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
    }
    return PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), **special)


def load_ids(folder: Path) -> Texts:
    """Token ids of the sentences that are captured."""
    ids: Texts = json.loads((folder / "sentences.json").read_text(encoding="utf-8"))
    return ids


def read_twice(row: list[int]) -> list[int]:
    """A sentence whose ordinary tokens stand there twice, between the same first and last token."""
    return [row[0], *row[1:-1], *row[1:-1], row[-1]]


def padded(ids: Texts) -> Any:
    """One batch, padded behind: causal rows of real tokens do not see it."""
    import torch

    longest = max(map(len, ids))
    return torch.tensor([[*row, *[0] * (longest - len(row))] for row in ids])


def batches_of(ids: Texts, *, batched: bool) -> list[Texts]:
    """All sentences as one batch, or each alone."""
    return [ids] if batched else [[row] for row in ids]


def by_sentence(batches: list[Texts], found: list[list[Any]]) -> dict[str, Any]:
    """Weights `[layer, head, query, key]` of each sentence, from those of each batch by layer; how many."""
    import numpy as np

    weights = [
        np.stack([layer[number, :, : len(row), : len(row)].numpy() for layer in layers])
        for batch, layers in zip(batches, found, strict=True)
        for number, row in enumerate(batch)
    ]
    return {"units": len(weights)} | {str(number): one for number, one in enumerate(weights)}
