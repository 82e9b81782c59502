"""How well each attention mechanism stands in for full attention, head by head, at equal budgets."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from attnlab.errors import InputError
from attnlab.studies.observing import Observed, observe
from attnlab.studies.rivals import LEAST_BUDGET, Rival, rivals
from attnlab.studies.sources import load_subject, read_texts
from attnlab.translation.run import is_run, load

SENTENCES, CALIBRATION = 200, 500
DRAWS = 1000
INTERVAL = (0.025, 0.975)
KEYS = ["budget", "mechanism", "level"]


@dataclass(frozen=True)
class Comparison:
    """Tables of one comparison.

    Attributes:
        heads: one row a budget, mechanism and head: `mass_fraction`, the share of full attention
            that stands on the pairs the mechanism sees (NaN where it has no support);
            `output_error`, |X V - H V| / |H V| over a sentence (Frobenius norms); `visible_keys` a
            row; all mean over sentences. `multiply_adds` of a head at mean length.
        summary: the same by mechanism, mean over heads, with 95% intervals over sentences.
        sentences: how many held-out sentences.
        calibration: how many training sentences.
        tokens: mean length of the held-out sentences.
    """

    heads: pd.DataFrame
    summary: pd.DataFrame
    sentences: int
    calibration: int
    tokens: int


def compare(
    source: str | Path,
    budgets: Sequence[int],
    *,
    sentences: int = SENTENCES,
    calibration: int = CALIBRATION,
    text: Path | None = None,
    calibration_text: Path | None = None,
    seed: int = 0,
) -> Comparison:
    """Every mechanism against the encoder's full attention, on held-out sentences.

    Queries, keys and values are the model's own; nothing is trained. Tables of sigma and the fixed
    pattern of each head are learned on training sentences alone; those that are held out too are
    left out.

    Args:
        source: a run folder, a transformers folder, or the name of a model on the hub.
        budgets: visible keys a row, each 5 or more.
        sentences: how many held-out sentences at most.
        calibration: how many training sentences at most.
        text: a file of held-out sentences; a run brings its own.
        calibration_text: a file of training sentences; a run brings its own.
        seed: of the bootstrap.

    Raises:
        InputError: a budget below 5, no sentences, or a model that cannot be compared.
    """
    for budget in budgets:
        if budget < LEAST_BUDGET:
            msg = f"A budget is {LEAST_BUDGET} visible keys a row or more, not {budget}."
            raise InputError(msg)
    subject = load_subject(source, sentences=sentences, text=text)
    held_out = _sources(subject.texts)
    learning = _training(source, calibration_text, calibration, set(held_out))
    tokenizer = subject.tokenizer
    learned = list(observe(subject.model, tokenizer, learning))
    seen = list(observe(subject.model, tokenizer, held_out))
    total = sum(int(part.visible.sum()) for part in seen if part.layer == 0)
    tokens = max(1, round(total / len(held_out)))
    counts = _counts(source, subject.model, learned)
    parts = []
    for layer in sorted({part.layer for part in seen}):
        own = [part for part in seen if part.layer == layer]
        before = [part for part in learned if part.layer == layer]
        parts += [
            _measured(rival, own, budget, layer)
            for budget in budgets
            for rival in rivals(budget, before, counts, tokens=tokens)
        ]
    every = pd.concat(parts, ignore_index=True)
    order = [*KEYS, "written", "multiply_adds"]
    figures = ["mass_fraction", "output_error", "visible_keys"]
    by_head = every.groupby([*order, "layer", "head"], sort=False, dropna=False)[figures]
    return Comparison(
        by_head.mean().reset_index(),
        _summary(every, seed),
        len(held_out),
        len(learning),
        tokens,
    )


def _sources(texts: Sequence[Any]) -> list[str]:
    return [text if isinstance(text, str) else text[0] for text in texts]


def _training(source: str | Path, path: Path | None, count: int, held_out: set[str]) -> list[str]:
    """The first `count` training sentences that are not held out too."""
    if path is not None:
        texts = _sources(read_texts(path))
    elif is_run(source):
        rows = load(source).corpus().train
        texts = list(rows.select(range(min(2 * count, len(rows))))["source"])
    else:
        msg = f"{source} brings no training sentences; add --calibration-text FILE."
        raise InputError(msg)
    found = [text for text in texts if text not in held_out][:count]
    if not found:
        msg = "There is no training sentence that is not held out too; give others."
        raise InputError(msg)
    return found


def _counts(source: str | Path, model: Any, learned: Sequence[Observed]) -> Tensor:
    """Frequencies of token ids: those of the run's training rows, or of the training sentences."""
    if is_run(source):
        return torch.tensor(list(load(source).tokenizers.source_counts.values()))
    ids = torch.cat([part.token_ids[part.visible] for part in learned if part.layer == 0])
    return torch.bincount(ids.cpu(), minlength=model.config.vocab_size)


def measure_matrices(matrices: Tensor, seen: Observed, *, support: bool) -> dict[str, Tensor]:
    """Mass captured, output error and visible keys of implied matrices, each `[batch, head]`."""
    real = seen.visible[:, None, :, None]
    rows = seen.visible.sum(-1)[:, None]
    applied = matrices * real
    pairs = applied != 0
    full = seen.weights @ seen.value
    wrong = (applied @ seen.value - full).flatten(2).norm(dim=-1)
    mass = (seen.weights * pairs).sum((-2, -1)) / rows
    keys = pairs.sum((-2, -1)) / rows
    unknown = torch.full_like(mass, torch.nan)
    return {
        "mass_fraction": mass if support else unknown,
        "output_error": wrong / full.flatten(2).norm(dim=-1),
        "visible_keys": keys if support else unknown,
    }


def _measured(rival: Rival, seen: Sequence[Observed], budget: int, layer: int) -> pd.DataFrame:
    """One row a sentence and head."""
    with torch.no_grad():
        found = [measure_matrices(rival.apply(part), part, support=rival.support) for part in seen]
    joined = {name: torch.cat([part[name] for part in found]) for name in found[0]}
    sentences, heads = joined["output_error"].shape
    table = pd.DataFrame({name: values.flatten().numpy() for name, values in joined.items()})
    table["sentence"] = np.repeat(np.arange(sentences), heads)
    table["head"] = np.tile(np.arange(heads), sentences)
    cost = np.nan if rival.multiply_adds is None else float(rival.multiply_adds)
    return table.assign(
        budget=budget,
        mechanism=rival.name,
        level=rival.level,
        written=rival.written,
        multiply_adds=cost,
        layer=layer,
    )


def _summary(every: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Means over heads and sentences, with percentile bootstrap intervals over sentences."""
    draws = np.random.default_rng(seed).integers(
        0, every["sentence"].nunique(), (DRAWS, every["sentence"].nunique())
    )
    rows = []
    for keys, table in every.groupby(KEYS, sort=False):
        by_sentence = table.groupby("sentence")
        row: dict[str, Any] = dict(zip(KEYS, keys, strict=True))
        for name in ("mass_fraction", "output_error"):
            numbers = by_sentence[name].mean().to_numpy()
            low, high = np.quantile(numbers[draws].mean(-1), INTERVAL)
            row |= {name: numbers.mean(), f"{name}_low": low, f"{name}_high": high}
        row["visible_keys"] = table["visible_keys"].mean()
        row["multiply_adds"] = table["multiply_adds"].mean()
        rows.append(row)
    return pd.DataFrame(rows).sort_values(["budget", "output_error"], ignore_index=True)
