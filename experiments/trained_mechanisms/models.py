"""The models of the study, whose encoder has another mechanism from the first step of training on."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.models import Run, RunSettings, settings_from
from experiments.shared.runs import kept_run

PAIRS = ("en-fr", "en-de", "en-cs")
HEADS, MAX_TOKENS = 8, 64


@dataclass(frozen=True)
class Training:
    """How large the models are and how long they are trained."""

    dim: int
    vocabulary: int
    epochs: int


SHORT, LONG = Training(128, 4000, 5), Training(256, 6000, 14)
FULL, BAND, GAUSSIAN, RARE = "full", "band", "gaussian", "sigma, rare tokens"
FIXED = ("self", "previous", "next", "left", "right", "start", "end")
OPTIMIZER: dict[str, Any] = {
    "batch_tokens": 2048, "learning_rate": 2e-3, "warmup": 400, "schedule": "cosine",
    "precision": "fp32", "best": "loss", "validation_sentences": 200,
}  # fmt: skip


def at_budget(keys: int) -> dict[str, dict[str, str]]:
    """Plans of as many keys per row, an odd number from 5 up; rows at the ends of a sentence have fewer."""
    beside = keys // 2 - 1
    mechanisms = {
        BAND: f"band(window={beside + 1})",
        "window and first keys": f"sigma(window={beside}, num_pos=2, columns='first')",
        RARE: f"sigma(window={beside}, num_pos=2, columns='frequency')",
        "sigma, E trained": f"sigma_static(window={beside}, max_length={MAX_TOKENS})",
        # The row of the one global token sees all keys; with it the mean is that of the band.
        "longformer": f"longformer(window={beside}, global_tokens=[0])",
    }
    return {arm: {"encoder": mechanism} for arm, mechanism in mechanisms.items()}


def by_head(*mechanisms: str) -> dict[str, str]:
    """A plan with a mechanism for each encoder head."""
    return {f"encoder.0.{head}": mechanism for head, mechanism in enumerate(mechanisms)}


# By arm, its plan, in the order in which they are trained: what says most first.
ARMS: dict[str, dict[str, str]] = {
    FULL: {"encoder": "full"},
    "none": {"encoder": "none"},
    BAND: at_budget(5)[BAND],
    # Half of the heads look back, half ahead, as in the paper.
    GAUSSIAN: by_head(*["gaussian(offset=-1)"] * 4, *["gaussian(offset=1)"] * 4),
    **at_budget(5),
    "synthesizer, trained": {"encoder": f"synthesizer(max_length={MAX_TOKENS})"},
    "synthesizer, frozen": {"encoder": f"synthesizer(max_length={MAX_TOKENS}, trained=False)"},
    # Seven heads of the paper, and a learned one.
    "fixed patterns": by_head(*(f"fixed(pattern='{name}')" for name in FIXED), "full"),
    "linear": {"encoder": "linear"},
}
# Trained where they are asked for.
WIDER = {f"{arm}, 9 keys": plan for arm, plan in at_budget(9).items()}
PLANS = ARMS | WIDER


def settings_of(
    pair: str, arm: str, seed: int, data: Path, training: Training = SHORT
) -> RunSettings:
    """How the model of an arm is trained; `data` is the folder of the corpora."""
    return settings_from(
        {
            "corpus": {
                "name": str(data / "multi30k"), "pair": pair, "lowercase": True,
                "max_tokens": MAX_TOKENS,
            },
            "tokenizer": {"vocabulary": training.vocabulary},
            "model": {
                "dim": training.dim, "heads": HEADS, "feed_forward": 4 * training.dim,
                "dropout": 0.2, "norm": "post", "attention": {**PLANS[arm]},
            },
            "optimizer": OPTIMIZER | {"epochs": training.epochs, "seed": seed},
        }
    )  # fmt: skip


def model_of(
    pair: str, arm: str, seed: int, data: Path, runs: Path, *, training: Training = SHORT
) -> Run:
    """The model of an arm, trained where the folder of runs does not hold it yet."""
    name = re.sub(r"\W+", "-", f"{pair} {arm} seed {seed}")
    return kept_run(name, settings_of(pair, arm, seed, data, training), runs)
