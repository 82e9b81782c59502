"""The gradient by distance against whole Jacobians, and its README from a table."""

from pathlib import Path

import pandas as pd
import pytest
import torch

from attnlab.core.files import write_table
from experiments.gradient_by_distance import run as experiment

SOURCE, TARGET = torch.tensor([[2, 7, 8, 3]]), torch.tensor([[2, 6, 4, 10, 5]])


@pytest.mark.parametrize("name", experiment.MODELS)
def test_norms_are_those_of_jacobians(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for constant, value in (("DRAWS", 400), ("DIM", 8), ("VOCABULARY", 11)):
        monkeypatch.setattr(experiment, constant, value)
    model = experiment.drawn(name, 1)
    generator = torch.Generator().manual_seed(0)
    found = experiment.gradient_by_distance(model, SOURCE, TARGET, generator)
    states = model(SOURCE, decoder_input_ids=TARGET, output_hidden_states=True)
    words, last = states.decoder_hidden_states[0], states.decoder_hidden_states[-1][0, -1]
    jacobian = torch.stack(
        [torch.autograd.grad(one, words, retain_graph=True)[0][0] for one in last]
    )
    expected = jacobian.square().sum((0, 2)).sqrt().flip(0)
    torch.testing.assert_close(found, expected, rtol=0.1, atol=1e-6)


def test_the_readme_counts_words_until_the_gradient_vanishes(tmp_path: Path) -> None:
    factors = dict(zip(experiment.MODELS, (0.1, 0.5, 0.8, 0.9, 1.0), strict=True))
    rows = [
        {"model": name, "seed": seed, "distance": d, "gradient": (seed + 1) * factor**d}
        for name, factor in factors.items()
        for seed in range(2)
        for d in range(48)
    ]
    write_table(tmp_path / "table.csv", pd.DataFrame(rows))
    experiment.write_result(tmp_path)
    text = (tmp_path / "README.md").read_text("utf-8")
    # 0.5^(d - 1) is at least 1 % up to d = 7, 0.8^(d - 1) up to 21; 0.1^2 may be just below.
    assert "7.0 in a GRU, 21.0 in an LSTM, and within none of 47 in a transformer**." in text
    assert (tmp_path / "gradient.svg").exists()
