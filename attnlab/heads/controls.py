"""What a label is held against: the same model without training (shuffled words: `treebank.py`)."""

import copy
from typing import TypeVar

import torch
from transformers import PreTrainedModel

Model = TypeVar("Model", bound=PreTrainedModel)


def untrained_twin(model: Model, seed: int) -> Model:
    """A model of the same class and configuration with weights drawn anew, in eval mode.

    What its heads seem to do, architecture and tokens do by themselves. The same seed gives the same
    weights; the global random state is not touched.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        twin = type(model)(copy.deepcopy(model.config))
    return twin.to(device=model.device, dtype=model.dtype).eval()
