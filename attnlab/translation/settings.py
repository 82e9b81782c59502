"""Everything needed to repeat a training run, as frozen values that save to `settings.json`."""

import dataclasses
from dataclasses import dataclass, field
from typing import Annotated, Any

from attnlab.errors import InputError
from attnlab.options import Option, Settings, option_fields

RUN_FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class CorpusSettings(Settings):
    """Which text: name or path, languages, size."""

    name: Annotated[
        str,
        Option(
            "Corpus: embedded, a path, or a name on the hub; see: attnlab corpora.", ("--corpus",)
        ),
    ] = "embedded"
    pair: Annotated[str, Option("Source and target language.")] = "en-it"
    document: Annotated[int, Option("Number of consecutive sentences that are joined.")] = 1
    limit: Annotated[
        int | None, Option("Maximum number of training pairs; the first are used.")
    ] = None
    size: Annotated[
        int | None, Option("Number of pairs of the embedded corpus.", shown="20000")
    ] = None
    lowercase: Annotated[bool, Option("Lower-case both sides.", ("--lowercase",))] = False
    max_tokens: Annotated[
        int,
        Option("Maximum number of tokens per side; longer pairs are dropped and counted."),
    ] = 128


@dataclass(frozen=True, kw_only=True)
class TokenizerSettings(Settings):
    """How text is cut into tokens."""

    kind: Annotated[
        str, Option("Kind of tokenizer: bpe, or word as in the thesis.", ("--tokenizer",))
    ] = "bpe"
    vocabulary: Annotated[int, Option("Maximum number of types per tokenizer.")] = 8000
    shared: Annotated[
        bool, Option("One vocabulary for both languages, or two.", ("--shared/--separate",))
    ] = True
    checksum: Annotated[
        str | None,
        Option(
            "Checksum that the source tokenizer must have; a plan that names token ids brings it.",
            ("--tokenizer-checksum",),
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class ModelSettings(Settings):
    """Sizes and choices of an encoder-decoder (thesis eq. 3; Vaswani et al. 2017).

    `attention` holds mechanisms by site, layer or head, such as `{"encoder": "band(window=3)",
    "encoder.0.3": "topk(k=4)"}`; the longest address that fits a head decides, and what none fits is
    `full`. `init` `identity` starts W_Q, W_K, W_V as identity matrices, which the thesis also tries.
    `global_projections` start as copies of the others (Beltagy et al. 2020, section 3.1).

    Raises:
        InputError: a size or choice that no model can have.
    """

    dim: Annotated[int, Option("Size of the token vectors, a multiple of heads.", least=1)] = 128
    heads: Annotated[
        int, Option("Number of heads in every attention, 1 to 16.", least=1, most=16)
    ] = 8
    encoder_layers: Annotated[int, Option("Number of encoder layers.", least=1)] = 1
    decoder_layers: Annotated[int, Option("Number of decoder layers.", least=1)] = 1
    feed_forward: Annotated[int, Option("Inner size of the ReLU feed-forward part.", least=1)] = 512
    dropout: Annotated[
        float, Option("Dropout of token vectors and sub-layers.", least=0, below=1)
    ] = 0.1
    attention_dropout: Annotated[
        float, Option("Dropout of attention weights (the thesis: 0.1).", least=0, below=1)
    ] = 0.0
    norm: Annotated[
        str,
        Option("Position of LayerNorm: post, as in the thesis, or pre.", choices=("post", "pre")),
    ] = "post"
    positions: Annotated[
        str, Option("Kind of positions: sinusoidal or learned.", choices=("sinusoidal", "learned"))
    ] = "sinusoidal"
    tie_word_embeddings: Annotated[
        bool,
        Option("Use the target embedding as the output layer, or not.", ("--tied/--untied",)),
    ] = True
    init: Annotated[
        str,
        Option("Start of W_Q, W_K and W_V: default or identity.", choices=("default", "identity")),
    ] = "default"
    label_smoothing: Annotated[
        float, Option("Probability spread over all types in training.", least=0, below=1)
    ] = 0.1
    attention: Annotated[
        dict[str, str],
        Option(
            "Mechanism of a site, layer or head: encoder.0.3=band(window=3), or a plan's .json "
            "file; may be given again."
        ),
    ] = field(default_factory=dict)
    global_projections: Annotated[
        bool,
        Option(
            "Project the rows of longformer's global tokens apart, as in the paper.",
            ("--global-projections",),
        ),
    ] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dim % self.heads:
            fitting = [heads for heads in range(1, 17) if self.dim % heads == 0]
            msg = (
                f"{self.heads} heads do not divide a model of size {self.dim}; with that size there "
                f"can be {', '.join(map(str, fitting))} heads."
            )
            raise InputError(msg)


@dataclass(frozen=True, kw_only=True)
class OptimizerSettings(Settings):
    """How the model is trained; `learning_rate` is the peak, reached after `warmup` steps.

    Raises:
        InputError: a number or choice that no training can use.
    """

    epochs: Annotated[int, Option("Number of passes over the training pairs.", above=0)] = 20
    batch_tokens: Annotated[
        int | None,
        Option(
            "Number of tokens per batch and side, padding counted.",
            above=0,
            shown="the largest of 256 to 4096 that gives 1,500 steps",
        ),
    ] = None
    learning_rate: Annotated[float, Option("Highest learning rate.", above=0)] = 2e-3
    warmup: Annotated[
        int | None,
        Option(
            "Number of steps up to that rate.",
            above=0,
            shown="a tenth of all steps, at most 400",
        ),
    ] = None
    schedule: Annotated[
        str,
        Option(
            "Decay of the rate after them: inverse_sqrt, linear or cosine.",
            choices=("inverse_sqrt", "linear", "cosine"),
        ),
    ] = "inverse_sqrt"
    weight_decay: Annotated[
        float, Option("Weight decay of AdamW; biases and layer norms have none.")
    ] = 0.01
    clip: Annotated[float, Option("Largest norm of the gradient.", above=0)] = 1.0
    patience: Annotated[
        int,
        Option(
            "Number of evaluations without a better one after which training stops, also over a "
            "resumption; warm-up does not count.",
            above=0,
        ),
    ] = 10
    best: Annotated[
        str,
        Option(
            "Measure by which the best checkpoint is kept: bleu (loss while BLEU is below 3) or "
            "loss.",
            choices=("bleu", "loss"),
        ),
    ] = "bleu"
    precision: Annotated[
        str,
        Option(
            "Precision of training: bf16, fp32, or auto (bf16 where the device has it).",
            choices=("auto", "bf16", "fp32"),
        ),
    ] = "auto"
    evaluations_per_epoch: Annotated[
        int, Option("Number of measurements of validation loss and BLEU per epoch.", above=0)
    ] = 1
    validation_sentences: Annotated[
        int, Option("Number of validation pairs to measure on.", above=0)
    ] = 1000
    seed: Annotated[int, Option("Seed of embedded corpus, model and batches.")] = 0


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


SECTIONS: dict[str, type[Settings]] = {
    "corpus": CorpusSettings,
    "tokenizer": TokenizerSettings,
    "model": ModelSettings,
    "optimizer": OptimizerSettings,
}


def settings_from(values: dict[str, Any]) -> RunSettings:
    """The settings that `values`, read from JSON or TOML, hold; sections and keys may be missing.

    Raises:
        InputError: a section or key is unknown, or a value cannot be used; the message names its
            path and the choices.

    >>> settings_from({"model": {"heads": 4}}).model.heads
    4
    """
    sections: dict[str, Any] = {}
    for section, keys in values.items():
        if section not in SECTIONS:
            msg = f"There is no settings section '{section}'; choose from: {', '.join(SECTIONS)}."
            raise InputError(msg)
        if not isinstance(keys, dict):
            msg = f"The settings section '{section}' holds keys and values, not {keys!r}."
            raise InputError(msg)
        known = {field.name: field for field in option_fields(SECTIONS[section])}
        for key, value in keys.items():
            if key not in known:
                msg = f"There is no setting '{section}.{key}'; choose from: {', '.join(known)}."
                raise InputError(msg)
            known[key].refuse(value, f"{section}.{key}")
        sections[section] = SECTIONS[section](**keys)
    return RunSettings(**sections)
