"""What a label is held against: the same model without training (shuffled words: `treebank.py`)."""

import copy
from typing import TypeVar

import torch
from transformers import PreTrainedModel

from attnlab.attention.bridge.installing import install, installed_plan
from attnlab.attention.mechanism import Mechanism

Model = TypeVar("Model", bound=PreTrainedModel)


def untrained_twin(model: Model, seed: int) -> Model:
    """A model of the same class, configuration and mechanisms with weights drawn anew, in eval mode.

    What its heads seem to do, architecture and tokens do by themselves. The same seed gives the same
    weights; the global random state is not touched. Tables that mechanisms keep besides weights,
    such as counts of tokens, are those of `model`.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        twin = type(model)(copy.deepcopy(model.config))
        plan = installed_plan(model)
        if plan is not None:
            install(twin, plan)
    _copy_tables(model, twin)
    return twin.to(device=model.device, dtype=model.dtype).eval()


def _copy_tables(model: PreTrainedModel, twin: PreTrainedModel) -> None:
    tables = dict(twin.named_buffers())
    for path, part in model.named_modules():
        if isinstance(part, Mechanism):
            for name, table in part.named_buffers(path, recurse=False):
                tables[name].copy_(table)
