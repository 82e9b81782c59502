"""Sizes and choices of a model: what it learns, of which kind it is, what stands in its attention."""

from dataclasses import dataclass, field
from typing import Annotated

from attnlab.addresses import Side
from attnlab.errors import InputError
from attnlab.options import Option, Settings, option_fields

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

    A recurrent model translates with an LSTM or GRU and cross-attention of one head. A language model is
    the decoder alone, without cross-attention: next-token probabilities of the text so far. Its loss
    counts all tokens, or of each text one, drawn at random: the last token of a random beginning.

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
            "Kind of model: transformer, or recurrent for an LSTM or GRU with attention of one head.",
            ("--model",),
            choices=KINDS,
        ),
    ] = TRANSFORMER
    cell: Annotated[
        str, Option("Cell of a recurrent model: lstm or gru.", choices=("lstm", "gru"))
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
            self._refuse_unlike_recurrent()
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
        if self.loss_tokens != "all" and self.task != LANGUAGE_MODEL:
            msg = f"loss tokens are for a language model; a {self.task} model learns from all of them."
            raise InputError(msg)
        if self.label_smoothing is None:
            smoothing = 0.0 if self.task == LANGUAGE_MODEL else 0.1
            object.__setattr__(self, "label_smoothing", smoothing)

    def _refuse_unlike_recurrent(self) -> None:
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
