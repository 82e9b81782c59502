"""Everything needed to repeat a training run, as frozen values that save to `settings.json`."""

import dataclasses
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from attnlab.core import LARGEST_SEED, InputError, Option, Settings, Side, briefly, option_fields
from attnlab.models.tokenizer import BLANK_TOKENIZERS

TRANSLATION, LANGUAGE_MODEL = TASKS = ("translation", "language-model")
TRANSFORMER, RECURRENT = KINDS = ("transformer", "recurrent")
# What the configuration of attnlab's own models is called in config.json.
TRANSLATION_TYPE, LANGUAGE_TYPE, RECURRENT_TYPE = OWN_TYPES = (
    "attnlab-translation", "attnlab-language-model", "attnlab-recurrent",
)  # fmt: skip
# What a recurrent model has none of.
TRANSFORMERS_OWN = ("feed_forward", "norm", "positions", "init", "global_projections")


@dataclass(frozen=True, kw_only=True)
class ModelSettings(Settings):
    """Sizes and choices of an encoder-decoder (thesis eq. 3; Vaswani et al. 2017) or a language model.

    A recurrent model translates with an LSTM, GRU or Elman network and cross-attention of one head. A
    language model is the decoder alone, without cross-attention: next-token probabilities of the text so
    far. Its loss counts all tokens, or of each text one, drawn at random: the last token of a random
    beginning.

    `attention` holds mechanisms by site, layer or head, such as `{"encoder": "band(window=3)",
    "encoder.0.3": "topk(k=4)"}`; the longest address that fits a head decides, and what none fits is
    `full`. `init` `identity` starts W_Q, W_K, W_V as identity matrices, which the thesis also tries.
    `global_projections` start as copies of the others (Beltagy et al. 2020, section 3.1).

    Raises:
        InputError: a size or choice that no model can have.
    """

    task: Annotated[
        str,
        Option(
            "What the model learns: translation, or language-model for the next token of the source "
            "side or of a text file.",
            choices=TASKS,
        ),
    ] = TRANSLATION
    kind: Annotated[
        str,
        Option(
            "Kind of model: transformer, or recurrent for an LSTM, GRU or Elman network with attention of "
            "one head.",
            ("--model",),
            choices=KINDS,
        ),
    ] = TRANSFORMER
    cell: Annotated[
        str,
        Option(
            "Cell of a recurrent model: lstm, gru, or elman without gates.",
            choices=("lstm", "gru", "elman"),
        ),
    ] = "lstm"
    score: Annotated[
        str,
        Option(
            "Attention score of a recurrent model: additive or dot.", choices=("additive", "dot")
        ),
    ] = "additive"
    dim: Annotated[
        int, Option("Size of the token vectors, a multiple of heads.", least=1, most=16_384)
    ] = 128
    heads: Annotated[
        int | None,
        Option(
            "Number of heads in every attention, 1 to 16.",
            least=1,
            most=16,
            shown="8; 1 for a recurrent model",
        ),
    ] = None
    scaled: Annotated[
        bool,
        Option(
            "Divide attention scores by the root of the head size, or not.",
            ("--scaled/--unscaled",),
        ),
    ] = True
    encoder_layers: Annotated[int, Option("Number of encoder layers.", least=1, most=1000)] = 1
    decoder_layers: Annotated[int, Option("Number of decoder layers.", least=1, most=1000)] = 1
    feed_forward: Annotated[
        int, Option("Inner size of the ReLU feed-forward part.", least=1, most=262_144)
    ] = 512
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
        str,
        Option(
            "Kind of positions: sinusoidal, learned, or relative for sinusoidal ones with a learned bias "
            "per head and offset in the encoder.",
            choices=("sinusoidal", "learned", "relative"),
        ),
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
        float | None,
        Option(
            "Probability spread over all types in training.",
            least=0,
            below=1,
            shown="0.1; 0 for a language model",
        ),
    ] = None
    loss_tokens: Annotated[
        str,
        Option(
            "Tokens that the training loss of a language model counts: all, or last for the last one "
            "of a random beginning of each text.",
            choices=("all", "last"),
        ),
    ] = "all"
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
        if self.kind == RECURRENT:
            self._check_recurrent()
        elif (self.cell, self.score) != ("lstm", "additive"):
            msg = "cell and score are for a recurrent model; set model to recurrent."
            raise InputError(msg)
        if self.heads is None:
            object.__setattr__(self, "heads", 1 if self.kind == RECURRENT else 8)
        if self.dim % (self.heads or 1):
            fitting = [heads for heads in range(1, 17) if self.dim % heads == 0]
            msg = (
                f"{self.heads} heads do not divide a model of size {self.dim}; with that size there "
                f"can be {', '.join(map(str, fitting))} heads."
            )
            raise InputError(msg)
        if self.positions == "relative":
            self._check_relative()
        if self.loss_tokens != "all" and self.task != LANGUAGE_MODEL:
            msg = f"loss tokens are for a language model; a {self.task} model learns from all of them."
            raise InputError(msg)
        if self.label_smoothing is None:
            smoothing = 0.0 if self.task == LANGUAGE_MODEL else 0.1
            object.__setattr__(self, "label_smoothing", smoothing)

    def _check_relative(self) -> None:
        if self.task == LANGUAGE_MODEL:
            msg = "Relative positions are for an encoder, and a language model has none."
            raise InputError(msg)
        if self.global_projections:
            msg = "Relative positions cannot be combined with global_projections; leave one out."
            raise InputError(msg)

    def _check_recurrent(self) -> None:
        if self.task != TRANSLATION:
            msg = f"A recurrent model learns translation, not '{self.task}'."
            raise InputError(msg)
        for field_ in option_fields(ModelSettings):
            if field_.name not in TRANSFORMERS_OWN:
                continue
            value = getattr(self, field_.name)
            if value and value != field_.default:
                name = field_.name.replace("_", " ")
                msg = f"{name} is for transformers; leave it out of a recurrent model."
                raise InputError(msg)
        if self.heads not in {None, 1}:
            msg = f"The attention of a recurrent model has 1 head, not {self.heads}."
            raise InputError(msg)
        if self.score == "additive" and not self.scaled:
            msg = "Additive scores are not divided by anything; unscaled goes with the score dot."
            raise InputError(msg)
        if self.dim % 2:
            msg = f"dim of a recurrent model must be even, half for each direction, not {self.dim}."
            raise InputError(msg)

    @property
    def predicted_side(self) -> Side:
        """The side of a sentence pair whose tokens the model predicts."""
        return "source" if self.task == LANGUAGE_MODEL else "target"


RUN_FORMAT = 1
MOST_TOKENS, MOST_PAIRS = 100_000, 1_000_000_000
SEED = Option("Seed of embedded corpus, model and batches.", least=0, most=LARGEST_SEED)


@dataclass(frozen=True, kw_only=True)
class CorpusSettings(Settings):
    """Options of the corpus: name or path, languages, size."""

    name: Annotated[
        str,
        Option(
            "Corpus: embedded, a path, or a name on the hub; see: attnlab corpora.", ("--corpus",)
        ),
    ] = "embedded"
    pair: Annotated[str, Option("Source and target language.")] = "en-it"
    document: Annotated[
        int, Option("Number of consecutive sentences that are joined.", most=MOST_TOKENS)
    ] = 1
    limit: Annotated[
        int | None, Option("Maximum number of training pairs; the first are used.", most=MOST_PAIRS)
    ] = None
    size: Annotated[
        int | None,
        Option("Number of pairs of the embedded corpus.", most=10_000_000, shown="20000"),
    ] = None
    lowercase: Annotated[bool, Option("Lower-case both sides.", ("--lowercase",))] = False
    max_tokens: Annotated[
        int,
        Option(
            "Maximum number of tokens per side; longer pairs are dropped and counted.",
            most=MOST_TOKENS,
        ),
    ] = 128


@dataclass(frozen=True, kw_only=True)
class TokenizerSettings(Settings):
    """Options of the tokenizers."""

    kind: Annotated[
        str,
        Option(
            f"Kind of tokenizer: {', '.join(BLANK_TOKENIZERS)}; the thesis has word.",
            ("--tokenizer",),
            choices=tuple(BLANK_TOKENIZERS),
        ),
    ] = "bpe"
    vocabulary: Annotated[int, Option("Maximum number of types per tokenizer.", most=1_000_000)] = (
        8000
    )
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
class EmbeddingSettings(Settings):
    """Options of the token vectors that a training starts from.

    With a tied output layer, frozen vectors freeze that layer too.
    """

    start: Annotated[
        str | None,
        Option(
            "Token vectors to start from: skipgram, trained on the corpus first, or embeddings of "
            "attnlab embed or in word2vec text.",
            ("--embeddings",),
            shown="drawn at random",
        ),
    ] = None
    frozen: Annotated[
        bool, Option("Keep the token vectors as they start.", ("--freeze-embeddings",))
    ] = False


@dataclass(frozen=True, kw_only=True)
class OptimizerSettings(Settings):
    """Options of the training; `learning_rate` is the peak, reached after `warmup` steps.

    Raises:
        InputError: a number or choice that no training can use.
    """

    epochs: Annotated[
        int, Option("Number of passes over the training pairs.", above=0, most=100_000)
    ] = 20
    batch_tokens: Annotated[
        int | None,
        Option(
            "Number of tokens per batch and side, padding counted.",
            above=0,
            most=10_000_000,
            shown="the largest of 256 to 4096 that gives 1,500 steps",
        ),
    ] = None
    learning_rate: Annotated[float, Option("Highest learning rate.", above=0)] = 2e-3
    warmup: Annotated[
        int | None,
        Option(
            "Number of steps up to that rate.",
            above=0,
            most=MOST_PAIRS,
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
            most=MOST_PAIRS,
        ),
    ] = 10
    best: Annotated[
        str | None,
        Option(
            "Measure by which the best checkpoint is kept: bleu (loss while BLEU is below 3) or "
            "loss.",
            choices=("bleu", "loss"),
            shown="bleu; loss for a language model",
        ),
    ] = None
    precision: Annotated[
        str,
        Option(
            "Precision of training: bf16, fp32, or auto (bf16 where the device has it).",
            choices=("auto", "bf16", "fp32"),
        ),
    ] = "auto"
    evaluations_per_epoch: Annotated[
        int,
        Option(
            "Number of measurements of validation loss and BLEU per epoch.", above=0, most=10_000
        ),
    ] = 1
    validation_sentences: Annotated[
        int, Option("Number of validation pairs to measure on.", above=0, most=1_000_000)
    ] = 1000
    keep_checkpoints: Annotated[
        int,
        Option(
            "Maximum number of checkpoints to keep, the first before training and the others evenly spaced "
            "by the logarithm of their step, for attnlab across --checkpoints; where patience ends the "
            "training, its end is kept in place of the steps that it does not reach.",
            least=0,
            most=10_000,
        ),
    ] = 0
    seed: Annotated[int, SEED] = 0


@dataclass(frozen=True)
class RunSettings:
    """One training run.

    Raises:
        InputError: sections that do not go together.
    """

    corpus: CorpusSettings = field(default_factory=CorpusSettings)
    tokenizer: TokenizerSettings = field(default_factory=TokenizerSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    embeddings: EmbeddingSettings = field(default_factory=EmbeddingSettings)
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)

    def __post_init__(self) -> None:
        writes = self.model.task == LANGUAGE_MODEL
        if writes and self.optimizer.best == "bleu":
            msg = "A language model has no BLEU; its best checkpoint is kept by loss."
            raise InputError(msg)
        if self.optimizer.best is None:
            best = replace(self.optimizer, best="loss" if writes else "bleu")
            object.__setattr__(self, "optimizer", best)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return dataclasses.asdict(self)


# Below it, scores divided by it are beyond the numbers of a 32-bit float.
LEAST_TEMPERATURE = 1e-4


@dataclass(frozen=True, kw_only=True)
class GenerationSettings(Settings):
    """Options of a language model that goes on with a text.

    Raises:
        InputError: a number that cannot be used.
    """

    samples: Annotated[int, Option("Number of texts to write.", least=1, most=10_000)] = 1
    max_tokens: Annotated[
        int | None,
        Option(
            "Maximum number of tokens of a text, those of the prompt among them.",
            least=2,
            most=MOST_TOKENS,
            shown="that of the run's training",
        ),
    ] = None
    temperature: Annotated[
        float,
        Option(
            "Number that scores are divided by before sampling; 0 takes the likeliest token.",
            least=0,
        ),
    ] = 1.0
    top_k: Annotated[
        int | None,
        Option(
            "Number of likeliest tokens that are sampled from.",
            least=1,
            most=1_000_000,
            shown="all",
        ),
    ] = None
    seed: Annotated[int, Option("Seed of sampling.", least=0, most=LARGEST_SEED)] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if 0 < self.temperature < LEAST_TEMPERATURE:
            msg = (
                f"temperature must be 0 or at least {LEAST_TEMPERATURE}, not {self.temperature}; "
                "0 takes the likeliest token."
            )
            raise InputError(msg)
        if self.temperature == 0 and (self.samples > 1 or self.top_k is not None):
            msg = (
                "At temperature 0 there is one text, of the likeliest tokens; leave samples and top_k "
                "out, or give a temperature above 0."
            )
            raise InputError(msg)


SECTIONS: dict[str, type[Settings]] = {
    "corpus": CorpusSettings,
    "tokenizer": TokenizerSettings,
    "model": ModelSettings,
    "embeddings": EmbeddingSettings,
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
            msg = f"There is no settings section {briefly(section)}; choose from: {', '.join(SECTIONS)}."
            raise InputError(msg)
        if not isinstance(keys, dict):
            msg = f"The settings section '{section}' holds keys and values, not {briefly(keys)}."
            raise InputError(msg)
        fields = {field.name: field for field in option_fields(SECTIONS[section])}
        for key, value in keys.items():
            if key not in fields:
                wrong = briefly(f"{section}.{key}")
                msg = f"There is no setting {wrong}; choose from: {', '.join(fields)}."
                raise InputError(msg)
            fields[key].refuse(value, f"{section}.{key}")
        sections[section] = SECTIONS[section](**keys)
    return RunSettings(**sections)
