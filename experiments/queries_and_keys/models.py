"""The study of whether a translation encoder needs queries and keys: arms, contrasts, models."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.models import Run, RunSettings, settings_from
from experiments.shared.runs import kept_run
from experiments.trained_mechanisms.models import (
    FIXED,
    FULL,
    GAUSSIAN,
    HEADS,
    LONG,
    MAX_TOKENS,
    OPTIMIZER,
)

PAIRS = ("en-de", "en-fr", "en-cs", "de-en")
BIAS, IDENTITY, NONE = "full with relative bias", "full from the identity", "none"
FROZEN, LEARNED = "synthesizer, frozen", "synthesizer, trained"
PATTERNS = "fixed patterns"
# The most important ones first, since the order is that of training.
ARMS = (FULL, BIAS, GAUSSIAN, NONE, FROZEN, IDENTITY, PATTERNS, LEARNED)
DEEP_ARMS = (FULL, BIAS, GAUSSIAN, NONE)
LAYERS = (1, 3)
# Fixed before a model was measured: by loss and by BLEU, of models of one pair, size and seed.
CONTRAST = (GAUSSIAN, BIAS)
_OPTIONS: dict[str, dict[str, str]] = {
    BIAS: {"positions": "relative"}, IDENTITY: {"init": "identity"},
}  # fmt: skip
# Half of the heads look back, half ahead (You et al. 2020); seven fixed heads and a learned one
# (Raganato et al. 2020).
_BY_HEAD = {
    GAUSSIAN: [f"gaussian(offset={offset})" for offset in (-1, 1) for _ in range(HEADS // 2)],
    PATTERNS: [*(f"fixed(pattern='{name}')" for name in FIXED), "full"],
}
_ALIKE = {
    NONE: "none",
    FROZEN: f"synthesizer(max_length={MAX_TOKENS}, trained=False)",
    LEARNED: f"synthesizer(max_length={MAX_TOKENS})",
}


@dataclass(frozen=True, order=True)
class Trained:
    """A model of the study: the columns that tell its rows apart."""

    pair: str
    layers: int
    arm: str
    seed: int


def attention(arm: str, layers: int) -> dict[str, str]:
    """The mechanisms of the encoder's heads in an arm."""
    if arm not in _BY_HEAD:
        return {"encoder": _ALIKE.get(arm, "full")}
    return {
        f"encoder.{layer}.{head}": mechanism
        for layer in range(layers)
        for head, mechanism in enumerate(_BY_HEAD[arm])
    }


def settings_of(model: Trained, data: Path) -> RunSettings:
    """How a model is trained, as those of the long study are; `data` is the folder of the corpora."""
    depth: dict[str, Any] = {}
    if model.layers > 1:
        depth = {"encoder_layers": model.layers, "decoder_layers": model.layers}
    return settings_from(
        {
            "corpus": {
                "name": str(data / "multi30k"), "pair": model.pair, "lowercase": True,
                "max_tokens": MAX_TOKENS,
            },
            "tokenizer": {"vocabulary": LONG.vocabulary},
            "model": {
                "dim": LONG.dim, "heads": HEADS, "feed_forward": 4 * LONG.dim, "dropout": 0.2,
                "norm": "post", "attention": attention(model.arm, model.layers), **depth,
                **_OPTIONS.get(model.arm, {}),
            },
            # Two thirds of the time of fp32; no run of another study stands beside these.
            "optimizer": OPTIMIZER
            | {"epochs": LONG.epochs, "seed": model.seed, "precision": "bf16"},
        }
    )  # fmt: skip


def model_of(model: Trained, *, data: Path, runs: Path) -> Run:
    """A model of the study, trained where the folder of runs does not hold it yet."""
    deep = "" if model.layers == 1 else f"{model.layers} layers "
    name = re.sub(r"\W+", "-", f"{model.pair} {deep}{model.arm} seed {model.seed}")
    return kept_run(name, settings_of(model, data), runs)
