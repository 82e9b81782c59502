"""Whole models whose heads are known: hand-set weights at one site of a run."""

import random
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from small_run import small_settings, write_pairs

from attnlab.attention.mechanisms.static import Static
from attnlab.attention.registry import parse
from attnlab.core.addresses import SITES
from attnlab.models.run import load
from attnlab.models.training import train
from attnlab.questions.plan.planning import plan
from attnlab.results.result import Result

HEADS, DIM, MOST = 4, 64, 40
# A token adds a number here and takes it away there, so that all vectors have one mean and variance.
CONTENT, AGAINST = DIM - 1, DIM - 2
# Its exponential is 0 in 64 bits.
AWAY = -1000.0
WORDS = [first + second for first in "bcdfg" for second in ("alto", "ema", "iro", "os")]
QUICK: dict[str, Any] = {"sentences": 6, "validation": 10, "calibration": 20}
# Of each site: the window of a band, weights by offset, and listed offsets; a decoder looks back only.
FORWARD = ((2, 1), {-3: 0.2, 0: 0.5, 2: 0.3}, (-4, 0, 3))
PLANTED = {
    "encoder": FORWARD,
    "decoder": ((2, 0), {-3: 0.2, -1: 0.3, 0: 0.5}, (-4, -2, 0)),
    "cross": FORWARD,
}


def scores(site: str, head: int) -> torch.Tensor:
    """Scores of every pair of positions of a band, a column, weights by offset, and listed offsets."""
    position = torch.arange(MOST)
    offset = position - position[:, None]
    window, static, listed = PLANTED[site]
    found = torch.full((MOST, MOST), AWAY)
    if head == 0:
        found[(offset >= -window[0]) & (offset <= window[1])] = 0.0
    elif head == 1:
        found[:, 0] = 0.0
    elif head == 2:
        for one, weight in static.items():
            found[offset == one] = torch.tensor(weight).log()
    else:
        for one in listed:
            found[offset == one] = 0.0
    return found


@torch.no_grad()
def plant(model: Any, site: str) -> None:
    """Positions as unit vectors, tokens as one number, and scores as products of the two projections."""
    encoder, decoder = model.encoder.layers[0], model.decoder.layers[0]
    for stack in (model.encoder, model.decoder):
        plant_embedding(stack.embedding)
    if site == "cross":
        for passed in (
            encoder.attention.output,
            encoder.feed_forward.outer,
            decoder.attention.output,
        ):
            passed.weight.zero_()
            passed.bias.zero_()
        for around in (
            encoder.after_attention,
            encoder.after_feed_forward,
            decoder.after_attention,
        ):
            keep_planted(around.norm)
    sites = {"encoder": encoder.attention, "decoder": decoder.attention, "cross": decoder.cross}
    attention = sites[site]
    for layer in (attention.query, attention.key):
        layer.weight.zero_()
        layer.bias.zero_()
    for head in range(HEADS):
        rows = slice(head * DIM, head * DIM + MOST)
        attention.query.weight[rows, :MOST] = scores(site, head).T * DIM**0.5
        attention.key.weight[rows, :MOST] = torch.eye(MOST)
        if head in (0, 3):
            attention.query.bias[head * DIM + CONTENT] = DIM**0.5
            attention.key.weight[head * DIM + CONTENT, CONTENT] = 1.0


def plant_embedding(embedding: Any) -> None:
    """A unit vector for each position; each token type is worth 1 or -1."""
    positions, tokens = embedding.positions.table.weight, embedding.tokens.weight
    positions.zero_()
    positions[:MOST, :MOST] = torch.eye(MOST)
    tokens.zero_()
    drawn = torch.randint(2, (len(tokens),), generator=torch.Generator().manual_seed(0)) * 2.0 - 1
    tokens[:, CONTENT] = drawn / embedding.scale
    tokens[:, AGAINST] = -drawn / embedding.scale


def keep_planted(norm: Any) -> None:
    """The normalisation that leaves the planted vectors, all of one mean and variance, as they are."""
    (width,) = norm.normalized_shape
    variance = 3 / width - 1 / width**2
    norm.weight.fill_((variance + norm.eps) ** 0.5)
    norm.bias.fill_(1 / width)


@pytest.fixture(scope="module")
def trained_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose sentences are their own translations, so that no row is behind the last key."""
    folder = tmp_path_factory.mktemp("runs") / "trained"
    draw = random.Random(0)
    sentences = [" ".join(draw.choices(WORDS, k=draw.randint(5, 12))) for _ in range(200)]
    pairs = write_pairs(folder.parent / "pairs.tsv", [(one, one) for one in sentences])
    settings = small_settings(
        corpus={"name": str(pairs), "size": None, "max_tokens": MOST},
        model={"dim": HEADS * DIM, "heads": HEADS, "feed_forward": 8, "positions": "learned"},
        optimizer={"epochs": 1, "warmup": 1},
    )
    train(folder, settings, command="attnlab train planted")
    return folder


@pytest.mark.parametrize("site", SITES)
def test_a_planted_model_gets_exactly_the_plan_that_was_planted(
    site: str, trained_run: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(trained_run, tmp_path / "planted")
    run = load(folder)
    plant(run.model, site)
    run.model.save_pretrained(folder)
    window, static, listed = PLANTED[site]
    found: Result = plan(folder, (3,), sites=(site,), **QUICK, quick=True, criterion="l1")
    heads = found.mechanisms.set_index("head")
    assert heads["mechanism_family"].tolist() == ["band", "ends", "static", "offsets"]
    written = heads["mechanism"].tolist()
    assert written[:2] == [f"band(window={window})", "keys(first=1)"]
    fixed = parse(written[2])
    assert isinstance(fixed, Static)
    assert dict(zip(fixed.offsets, fixed.weights, strict=True)) == pytest.approx(static, abs=0.01)
    assert written[3] == f"keys(offsets={listed})"
    assert heads["error"].to_numpy() == pytest.approx(0, abs=0.02)
    scored = found.summary.set_index("mechanism")
    assert scored.loc["searched", "loss_change"] == pytest.approx(0, abs=0.01)
    assert scored.loc["searched", "error"] < scored.loc["band", "error"] - 0.2
