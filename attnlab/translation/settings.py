"""Everything needed to repeat a training run, as frozen values that save to `settings.json`."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from attnlab.errors import InputError

FORMAT = 1


@dataclass(frozen=True)
class CorpusSettings:
    """Which text: name or path, languages, size."""

    name: str = "embedded"
    pair: str = "en-it"
    document: int = 1
    limit: int | None = None
    size: int | None = None
    lowercase: bool = False
    max_tokens: int = 128


@dataclass(frozen=True)
class TokenizerSettings:
    """How text is cut into tokens."""

    kind: str = "bpe"
    vocabulary: int = 8000
    shared: bool = True


@dataclass(frozen=True)
class ModelSettings:
    """The choices of `TranslationConfig` that a user makes."""

    dim: int = 128
    heads: int = 8
    encoder_layers: int = 1
    decoder_layers: int = 1
    feed_forward: int = 512
    dropout: float = 0.1
    attention_dropout: float = 0.0
    norm: str = "post"
    positions: str = "sinusoidal"
    tie_word_embeddings: bool = True
    init: str = "default"
    label_smoothing: float = 0.1
    attention: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class OptimizerSettings:
    """How the model is trained; `learning_rate` is the peak, reached after `warmup` steps."""

    epochs: int = 20
    batch_tokens: int = 4096
    learning_rate: float = 2e-3
    warmup: int = 400
    schedule: str = "inverse_sqrt"
    weight_decay: float = 0.01
    clip: float = 1.0
    patience: int = 10
    best: str = "bleu"
    precision: str = "auto"
    evaluations_per_epoch: int = 1
    validation_sentences: int = 1000
    seed: int = 0


@dataclass(frozen=True)
class RunSettings:
    """One training run."""

    corpus: CorpusSettings = field(default_factory=CorpusSettings)
    tokenizer: TokenizerSettings = field(default_factory=TokenizerSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return dataclasses.asdict(self)


def settings_from(values: dict[str, Any]) -> RunSettings:
    """The settings that `values`, read from JSON or TOML, hold; sections and keys may be missing.

    Raises:
        InputError: a section or key is unknown; the message names its path and the choices.

    >>> settings_from({"model": {"heads": 4}}).model.heads
    4
    """
    sections = {part.name: part.default_factory for part in dataclasses.fields(RunSettings)}
    chosen: dict[str, Any] = {}
    for section, keys in values.items():
        if section not in sections:
            msg = f"There is no settings section '{section}'; choose from: {', '.join(sections)}."
            raise InputError(msg)
        kind = sections[section]
        known = [part.name for part in dataclasses.fields(kind)]  # type: ignore[arg-type]
        unknown = [key for key in keys if key not in known]
        if unknown:
            msg = f"There is no setting '{section}.{unknown[0]}'; choose from: {', '.join(known)}."
            raise InputError(msg)
        chosen[section] = kind(**keys)  # type: ignore[operator]
    return RunSettings(**chosen)


def refuse_impossible_optimizer(settings: OptimizerSettings) -> None:
    """Raises InputError for a number or choice that no training can use."""
    positive = ("epochs", "batch_tokens", "learning_rate", "warmup", "clip", "patience")
    for name in (*positive, "evaluations_per_epoch", "validation_sentences"):
        if getattr(settings, name) <= 0:
            msg = f"{name} must be above 0, not {getattr(settings, name)}."
            raise InputError(msg)
    choices = {
        "schedule": ("inverse_sqrt", "linear", "cosine"),
        "best": ("bleu", "loss"),
        "precision": ("auto", "bf16", "fp32"),
    }
    for name, allowed in choices.items():
        if getattr(settings, name) not in allowed:
            msg = f"{name} is one of {', '.join(allowed)}, not '{getattr(settings, name)}'."
            raise InputError(msg)
