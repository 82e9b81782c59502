"""Studies of models that have another mechanism from the first training step on: arms, contrasts, models."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
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


@dataclass(frozen=True)
class Study:
    """Arms that are compared with each other, and how their models are trained.

    Attributes:
        folder: of the result.
        training: of every model.
        arms: by arm its plan, what says most first: the order in which they are trained.
        contrasts: the loss of the first minus that of the second, of the models of one pair and seed; these
            are tested, and corrected among themselves.
        keys: by column of the table, the site whose keys per row it counts.
        on_request: arms that are trained only where they are asked for.
    """

    folder: str
    training: Training
    arms: Mapping[str, dict[str, str]]
    contrasts: tuple[tuple[str, str], ...]
    keys: Mapping[str, str]
    on_request: Mapping[str, dict[str, str]] = field(default_factory=dict)

    @property
    def plans(self) -> dict[str, dict[str, str]]:
        """The plans of all arms."""
        return {**self.arms, **self.on_request}


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


def by_head(*mechanisms: str, site: str = "encoder") -> dict[str, str]:
    """A plan with a mechanism for each head of a site."""
    return {f"{site}.0.{head}": mechanism for head, mechanism in enumerate(mechanisms)}


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
ENCODER = Study(
    "trained_mechanisms", SHORT, ARMS, ((BAND, FULL), (GAUSSIAN, FULL), (RARE, BAND)),
    keys={"keys_per_row": "encoder"},
    on_request={f"{arm}, 9 keys": plan for arm, plan in at_budget(9).items()},
)  # fmt: skip
LARGER = replace(ENCODER, folder="trained_mechanisms_long", training=LONG)

# Rows of the decoder have their own key and those before it, so many together.
WINDOWS = {
    f"decoder band of {keys} keys": {"decoder": f"band(window=({keys - 1}, 0))"}
    for keys in (2, 4, 6, 8)
}
LAST_TWO, LAST_FOUR, LAST_SIX, LAST_EIGHT = WINDOWS
CROSS = "gaussian cross-attention"
LEARNED, DECODER_GAUSSIAN = f"{CROSS} with one learned head", "gaussian decoder"
NO_DECODER, EVERYWHERE = (
    "no self-attention in the decoder", "gaussian everywhere but one learned cross head",
)  # fmt: skip
# Around the position of the row and its neighbours; the last head is the one that is learned.
AROUND = [f"gaussian(offset={offset})" for offset in (-1, -1, -1, 0, 0, 1, 1, 1)]
ONE_LEARNED = by_head(*AROUND[:-1], "full", site="cross")
# Half of the heads look at the key before, half at their own.
PREVIOUS_OR_OWN = by_head(*["gaussian(offset=-1)"] * 4, *["gaussian(offset=0)"] * 4, site="decoder")
DECODER = Study(
    "trained_mechanisms_decoder", SHORT,
    {
        FULL: {"encoder": "full"},
        LAST_FOUR: WINDOWS[LAST_FOUR],
        CROSS: by_head(*AROUND, site="cross"),
        LEARNED: ONE_LEARNED,
        LAST_TWO: WINDOWS[LAST_TWO],
        DECODER_GAUSSIAN: PREVIOUS_OR_OWN,
        LAST_SIX: WINDOWS[LAST_SIX],
    },
    ((LAST_FOUR, FULL), (CROSS, FULL), (LEARNED, CROSS)),
    keys={"decoder_keys_per_row": "decoder", "cross_keys_per_row": "cross"},
    on_request={
        EVERYWHERE: ARMS[GAUSSIAN] | PREVIOUS_OR_OWN | ONE_LEARNED,
        LAST_EIGHT: WINDOWS[LAST_EIGHT],
        NO_DECODER: {"decoder": "none"},
    },
)  # fmt: skip


def settings_of(study: Study, pair: str, arm: str, seed: int, data: Path) -> RunSettings:
    """How the model of an arm is trained; `data` is the folder of the corpora."""
    training = study.training
    return settings_from(
        {
            "corpus": {
                "name": str(data / "multi30k"), "pair": pair, "lowercase": True,
                "max_tokens": MAX_TOKENS,
            },
            "tokenizer": {"vocabulary": training.vocabulary},
            "model": {
                "dim": training.dim, "heads": HEADS, "feed_forward": 4 * training.dim,
                "dropout": 0.2, "norm": "post", "attention": {**study.plans[arm]},
            },
            "optimizer": OPTIMIZER | {"epochs": training.epochs, "seed": seed},
        }
    )  # fmt: skip


def model_of(study: Study, pair: str, arm: str, seed: int, *, data: Path, runs: Path) -> Run:
    """The model of an arm, trained where the folder of runs does not hold it yet."""
    name = re.sub(r"\W+", "-", f"{pair} {arm} seed {seed}")
    return kept_run(name, settings_of(study, pair, arm, seed, data), runs)
