"""The commands that are no questions: what the list of commands says of each, and where its function is."""

from dataclasses import dataclass

from attnlab.results import Listed

_MODELS, _LISTS = "Models", "Lists, tables and studies"


@dataclass(frozen=True, kw_only=True)
class CommandEntry(Listed):
    """A command that is no question, whose function is called as it.

    Attributes:
        file: the module of this folder that has the function.
        tables: whether it prints tables, which --json gives as one object.
    """

    file: str
    tables: bool = True


COMMANDS = (
    CommandEntry(
        name="demo",
        panel=_MODELS,
        help="Train a small model on the embedded corpus, score it, say what its heads do, write the "
        "report.\n\n"
        "A demo in the folder whose training was interrupted is trained to the end; with --overwrite a new "
        "one is trained where that cannot be.",
        file="demo",
    ),
    CommandEntry(
        name="train",
        panel=_MODELS,
        help="Train a translation model; validation loss, BLEU and chrF go to metrics.jsonl every epoch.\n\n"
        "With --task language-model it learns the next token of the source side of the corpus, or of a .txt "
        "file with a text per line; validation loss and perplexity go to metrics.jsonl.\n\n"
        "The training loss beside the progress bar is above the validation loss of an equally good model: it "
        "is computed with dropout and label smoothing (--label-smoothing: a share of each target goes to all "
        "words alike). tokens/s are target tokens since the last evaluation, as in metrics.jsonl.\n\n"
        "Several processes or GPUs share a training: torchrun --nproc-per-node N -m attnlab train FOLDER. "
        "Batches, loss and weights are those of one process up to rounding, dropout aside; --resume takes "
        "any number. Ctrl-C, SIGTERM and SIGHUP end a training after the current step, with a checkpoint.",
        file="train",
        tables=False,
    ),
    CommandEntry(
        name="translate",
        panel=_MODELS,
        help="Translate sentences, one per line, to standard output; a blank line of a file stays blank.",
        file="translate",
        tables=False,
    ),
    CommandEntry(
        name="generate",
        panel=_MODELS,
        help="Let a language model go on with a text: samples, one per line, to standard output.",
        file="translate",
        tables=False,
    ),
    CommandEntry(
        name="score",
        panel=_MODELS,
        help="Score a run on a part of its corpus, as JSON: BLEU, chrF and their signatures.\n\n"
        "Of a language model: loss per token in nats, perplexity, and bits per character.",
        file="translate",
    ),
    CommandEntry(
        name="embed",
        panel="Words",
        help="Train skip-gram or CBOW vectors on a corpus; written as safetensors and as word2vec text.\n\n"
        "The corpus is cut into tokens as attnlab train does it with the same options, so that a model can "
        "start from them: attnlab train RUN --embeddings FOLDER --dim N. Needs the extra embeddings; attnlab "
        "doctor says how to install it.",
        file="train",
        tables=False,
    ),
    CommandEntry(
        name="show",
        panel="Heads",
        help="Draw all attention heads of a model on one sentence, as a page that needs no network.",
        file="show",
        tables=False,
    ),
    CommandEntry(
        name="export",
        panel="What could replace them",
        help="Write a model with a plan so that plain transformers runs it.\n\n"
        "Its scores are compared with those of the plan first; what differs is not written.",
        file="model_export",
        tables=False,
    ),
    CommandEntry(
        name="corpora",
        panel=_LISTS,
        help="List the corpora that can be used, or show the size of one.",
        file="catalogues",
    ),
    CommandEntry(
        name="mechanisms",
        panel=_LISTS,
        help="List the attention mechanisms with their options and abilities, or show what one costs.",
        file="catalogues",
    ),
    CommandEntry(
        name="doctor",
        panel=_LISTS,
        help="Show versions, devices and optional parts, and what each is for.",
        file="catalogues",
    ),
    CommandEntry(
        name="table",
        panel=_LISTS,
        help="Print a table with headings and decimals as declared, as text, CSV, Markdown or LaTeX.",
        file="table_commands",
    ),
    CommandEntry(
        name="report",
        panel=_LISTS,
        help="Make the page of a results folder again, from its tables and result.json.\n\n"
        "Draws the figures and writes report.html as the command that made the results does at its end. No "
        "model is loaded and nothing is computed again.",
        file="table_commands",
    ),
)
STUDY = Listed(
    name="study",
    panel=_LISTS,
    help="Run studies of many independent cells, on one machine or many, and go on where they stopped.",
)
