"""The control of what architecture and tokens do by themselves: the same model before training."""

import copy
from typing import TypeVar

import torch
from transformers import PreTrainedModel

from attnlab.attention import Mechanism, install, installed_plan
from attnlab.core import input_device

Model = TypeVar("Model", bound=PreTrainedModel)


def untrained_twin(model: Model, seed: int) -> Model:
    """A model of the same class, configuration and mechanisms with weights drawn anew, in eval mode.

    What its heads seem to do, architecture and tokens do by themselves. The same seed gives the same
    weights; the global random state is not touched. Tables that mechanisms keep besides weights,
    such as counts of tokens, are those of `model`.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        twin = type(model)(copy.deepcopy(model.config))
        plan = installed_plan(model)
        if plan is not None:
            install(twin, plan)
    _copy_tables(model, twin)
    return twin.to(device=input_device(model.device), dtype=model.dtype).eval()


def _copy_tables(model: PreTrainedModel, twin: PreTrainedModel) -> None:
    tables = dict(twin.named_buffers())
    for path, part in model.named_modules():
        if isinstance(part, Mechanism):
            for name, table in part.named_buffers(path, recurse=False):
                tables[name].copy_(table)
