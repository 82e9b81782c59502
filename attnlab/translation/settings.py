"""Everything needed to repeat a training run, as frozen values that save to `settings.json`."""

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any

from attnlab.errors import InputError

FORMAT = 1


def _option(default: Any, help_text: str, flag: str | None = None) -> Any:
    """A field that the command line offers as an option with this help text."""
    metadata = {"help": help_text, "flag": flag}
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class CorpusSettings:
    """Which text: name or path, languages, size."""

    name: str = _option(
        "embedded", "embedded, a path, or a name on the hub; see: attnlab corpora.", "--corpus"
    )
    pair: str = _option("en-it", "Source and target language.")
    document: int = _option(1, "Join so many consecutive sentences.")
    limit: int | None = _option(None, "Use only the first rows for training.")
    size: int | None = _option(None, "Pairs of the embedded corpus (default 20000).")
    lowercase: bool = _option(False, "Lower-case both sides.", "--lowercase")
    max_tokens: int = _option(128, "Pairs with a side longer than this are dropped and counted.")


@dataclass(frozen=True)
class TokenizerSettings:
    """How text is cut into tokens."""

    kind: str = _option("bpe", "bpe, or word as in the thesis.", "--tokenizer")
    vocabulary: int = _option(8000, "Types at most, a tokenizer.")
    shared: bool = _option(True, "One vocabulary for both languages.", "--shared/--separate")


@dataclass(frozen=True)
class ModelSettings:
    """The choices of `TranslationConfig` that a user makes."""

    dim: int = _option(128, "Size of the token vectors, a multiple of heads.")
    heads: int = _option(8, "Heads in every attention, 1 to 16.")
    encoder_layers: int = _option(1, "Encoder layers.")
    decoder_layers: int = _option(1, "Decoder layers.")
    feed_forward: int = _option(512, "Inner size of the feed-forward part.")
    dropout: float = _option(0.1, "Dropout of token vectors and sub-layers.")
    attention_dropout: float = _option(0.0, "Dropout of attention weights.")
    norm: str = _option("post", "LayerNorm post, as in the thesis, or pre.")
    positions: str = _option("sinusoidal", "sinusoidal or learned.")
    tie_word_embeddings: bool = _option(
        True, "The output layer is the target embedding.", "--tied/--untied"
    )
    init: str = _option("default", "default, or identity for W_Q, W_K and W_V.")
    label_smoothing: float = _option(0.1, "Probability spread over all types in training.")
    attention: dict[str, str] = _option(
        {},
        "Mechanism of a site, layer or head: encoder.0.3=band(window=3), or a plan's .json file; "
        "may be given again.",
        "--attention",
    )
    global_projections: bool = _option(
        False,
        "Project the rows of longformer's global tokens apart, as in the paper.",
        "--global-projections",
    )


@dataclass(frozen=True)
class OptimizerSettings:
    """How the model is trained; `learning_rate` is the peak, reached after `warmup` steps."""

    epochs: int = _option(20, "Passes over the training rows.")
    batch_tokens: int | None = _option(
        None,
        "Tokens per batch and side, padding counted (default: the largest of 256 to 4096 that "
        "gives 1,500 steps).",
    )
    learning_rate: float = _option(2e-3, "Highest learning rate.")
    warmup: int | None = _option(
        None, "Steps up to that rate (default: a tenth of all steps, at most 400)."
    )
    schedule: str = _option("inverse_sqrt", "Then: inverse_sqrt, linear or cosine.")
    weight_decay: float = _option(0.01, "AdamW's weight decay; biases and layer norms have none.")
    clip: float = _option(1.0, "Largest norm of the gradient.")
    patience: int = _option(
        10,
        "Stop after so many evaluations without a better one, also over a resumption; warm-up does "
        "not count.",
    )
    best: str = _option(
        "bleu",
        "Keep the checkpoint that is best in bleu (in loss while BLEU is below 3) or in loss.",
    )
    precision: str = _option("auto", "bf16, fp32, or auto: bf16 where the device has it.")
    evaluations_per_epoch: int = _option(1, "How often to measure validation loss and BLEU.")
    validation_sentences: int = _option(1000, "How many validation rows to measure on.")
    seed: int = _option(0, "Seed of embedded corpus, model and batches.")


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
        if not isinstance(keys, dict):
            msg = f"The settings section '{section}' holds keys and values, not {keys!r}."
            raise InputError(msg)
        kind = sections[section]
        known = {part.name: part.type for part in dataclasses.fields(kind)}  # type: ignore[arg-type]
        for key, value in keys.items():
            if key not in known:
                names = ", ".join(known)
                msg = f"There is no setting '{section}.{key}'; choose from: {names}."
                raise InputError(msg)
            _refuse_wrong_kind(f"{section}.{key}", value, known[key])
        chosen[section] = kind(**keys)  # type: ignore[operator]
    return RunSettings(**chosen)


KINDS = {
    bool: ("true or false", (bool,)),
    int: ("a whole number", (int,)),
    float: ("a number", (int, float)),
    str: ("a text", (str,)),
}


def _refuse_wrong_kind(path: str, value: Any, kind: Any) -> None:
    """Raises InputError where JSON or TOML brought a value of another kind than the field's."""
    if kind == int | None:
        if value is None:
            return
        kind = int
    if kind not in KINDS:
        name = "a table of texts"
        allowed = isinstance(value, dict) and all(isinstance(text, str) for text in value.values())
    else:
        name, types = KINDS[kind]
        allowed = isinstance(value, types) and (kind is bool or not isinstance(value, bool))
    if not allowed:
        msg = f"The setting '{path}' is {name}, not {value!r}."
        raise InputError(msg)


def refuse_impossible_optimizer(settings: OptimizerSettings) -> None:
    """Raises InputError for a number or choice that no training can use."""
    positive = ("epochs", "batch_tokens", "learning_rate", "warmup", "clip", "patience")
    for name in (*positive, "evaluations_per_epoch", "validation_sentences"):
        if getattr(settings, name) is not None and not 0 < getattr(settings, name) < math.inf:
            msg = f"{name} must be a number above 0, not {getattr(settings, name)}."
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
