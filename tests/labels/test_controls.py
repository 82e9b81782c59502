"""The untrained twin of a model."""

import pytest
import torch
from zoo.architectures import CASES

from attnlab.labels.untrained import untrained_twin


@pytest.mark.parametrize("name", ["attnlab", "bert", "marian", "t5", "llama"])
def test_twin_has_the_shape_and_none_of_the_weights(name: str, untouched_randomness) -> None:
    model = CASES[name]().model
    twin, again, other = (untrained_twin(model, seed) for seed in (7, 7, 8))
    assert type(twin) is type(model)
    assert twin.dtype == model.dtype
    assert not twin.training
    mine, theirs = model.state_dict(), twin.state_dict()
    assert {key: value.shape for key, value in mine.items()} == {
        key: value.shape for key, value in theirs.items()
    }
    drawn = [key for key, value in mine.items() if value.ndim == 2 and value.unique().numel() > 1]
    drawn = [key for key in drawn if "position" not in key]
    assert drawn
    for key in drawn:
        assert not torch.equal(mine[key], theirs[key]), key
        assert torch.equal(theirs[key], again.state_dict()[key]), key
    assert any(not torch.equal(theirs[key], other.state_dict()[key]) for key in drawn)
