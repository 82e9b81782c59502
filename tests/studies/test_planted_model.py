"""A whole model whose heads are known: hand-set weights in the encoder of a run."""

from pathlib import Path
from typing import Any

import pytest
import torch
from small_run import small_settings

from attnlab.attention.mechanisms.static import Static
from attnlab.attention.registry import parse
from attnlab.studies.planning.planning import Planning, plan
from attnlab.translation.runs.run import load
from attnlab.translation.training import train

HEADS, DIM = 4, 64
# The last number of a head's queries and keys holds how much a token is attended to, the others positions.
CONTENT, MOST = DIM - 1, 40
# Its exponential is 0 in 64 bits.
AWAY = -1000.0
STATIC = {-3: 0.2, 0: 0.5, 2: 0.3}
QUICK: dict[str, Any] = {"sentences": 6, "validation": 10, "calibration": 20, "sites": ("encoder",)}


def scores(head: int) -> torch.Tensor:
    """Scores of every pair of positions of a band, a column, weights by offset, and listed offsets."""
    position = torch.arange(MOST)
    offset = position - position[:, None]
    found = torch.full((MOST, MOST), AWAY)
    if head == 0:
        found[(offset >= -2) & (offset <= 1)] = 0.0
    elif head == 1:
        found[:, 0] = 0.0
    elif head == 2:
        for one, weight in STATIC.items():
            found[offset == one] = torch.tensor(weight).log()
    else:
        for one in (-4, 0, 3):
            found[offset == one] = 0.0
    return found


@torch.no_grad()
def plant(model: Any) -> None:
    """Positions as unit vectors, tokens as one number, and scores as products of the two projections."""
    embedding, attention = model.encoder.embedding, model.encoder.layers[0].attention
    positions, tokens = embedding.positions.table.weight, embedding.tokens.weight
    positions.zero_()
    positions[:MOST, :MOST] = torch.eye(MOST)
    tokens.zero_()
    drawn = torch.randn(len(tokens), generator=torch.Generator().manual_seed(0))
    tokens[:, CONTENT] = drawn / embedding.scale
    for layer in (attention.query, attention.key):
        layer.weight.zero_()
        layer.bias.zero_()
    for head in range(HEADS):
        rows = slice(head * DIM, head * DIM + MOST)
        attention.query.weight[rows, :MOST] = scores(head).T * DIM**0.5
        attention.key.weight[rows, :MOST] = torch.eye(MOST)
        if head in (0, 3):
            attention.query.bias[head * DIM + CONTENT] = DIM**0.5
            attention.key.weight[head * DIM + CONTENT, CONTENT] = 1.0


@pytest.fixture(scope="module")
def planted_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "planted"
    model = {"dim": HEADS * DIM, "heads": HEADS, "feed_forward": 8, "positions": "learned"}
    settings = small_settings(
        corpus={"max_tokens": MOST}, model=model, optimizer={"epochs": 1, "warmup": 1}
    )
    train(folder, settings, command="attnlab train planted")
    run = load(folder)
    plant(run.model)
    run.model.save_pretrained(folder)
    return folder


def test_a_planted_model_gets_exactly_the_plan_that_was_planted(planted_run: Path) -> None:
    found: Planning = plan(planted_run, (3,), **QUICK, bleu=False)
    heads = found.heads.set_index("head")
    assert heads["family"].tolist() == ["band", "ends", "static", "offsets"]
    written = heads["mechanism"].tolist()
    assert written[:2] == ["band(window=(2, 1))", "keys(first=1)"]
    fixed = parse(written[2])
    assert isinstance(fixed, Static)
    assert dict(zip(fixed.offsets, fixed.weights, strict=True)) == pytest.approx(STATIC, abs=0.01)
    assert written[3] == "keys(offsets=(-4, 0, 3))"
    assert heads["error"].to_numpy() == pytest.approx(0, abs=0.02)
    scored = found.scores.set_index("plan")
    assert scored.loc["searched", "loss_change"] == pytest.approx(0, abs=0.01)
    assert scored.loc["searched", "error"] < scored.loc["band", "error"] - 0.2
