"""What can be analyzed, told apart by what it is on disk: a run, a transformers model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attnlab.errors import InputError
from attnlab.heads.batches import Text
from attnlab.heads.taps import SITES, Site
from attnlab.translation.corpus import load_corpus
from attnlab.translation.run import Run, is_run, load


@dataclass(frozen=True)
class Subject:
    """A model with the texts it is analyzed on.

    Attributes:
        model: a transformers model.
        tokenizer: its tokenizer, or an object with tokenizers `.source` and `.target`.
        texts: sentences, or pairs (source, target).
        origin: where the texts come from, in words.
        details: how the model came about, in words, by heading.
    """

    model: Any
    tokenizer: Any
    texts: tuple[Text, ...]
    origin: str
    details: Mapping[str, str] = field(default_factory=dict)


def load_subject(
    source: str | Path,
    *,
    sentences: int | Sequence[Text],
    text: Path | None = None,
    corpus: str | None = None,
    pair: str = "en-it",
) -> Subject:
    """The model at `source` with its first `sentences` held-out texts.

    Args:
        source: a run folder, a transformers folder, or the name of a model on the hub.
        sentences: how many texts at most, or the texts themselves.
        text: a file with one sentence a line (encoder-decoder: source, tab, translation).
        corpus: a corpus as for `attnlab train`; its test part is used. A run brings its own.
        pair: languages of `corpus`.

    Raises:
        InputError: no such model, or no sentences for it.
    """
    if isinstance(sentences, int) and sentences < 1:
        msg = f"The number of sentences must be at least 1, not {sentences}."
        raise InputError(msg)
    run = load(source) if is_run(source) else None
    if run is None and isinstance(sentences, int) and text is None and corpus is None:
        msg = (
            f"{source} is no run of attnlab and brings no sentences; "
            "add --text FILE (a sentence on each line) or --corpus NAME."
        )
        raise InputError(msg)
    if run is None:
        (model, tokenizer), details = _load_transformers(source), {}
    else:
        model, tokenizer, details = run.model, run.tokenizers, _history(run)
    if isinstance(sentences, int):
        texts, origin = _texts(run, text, corpus, pair, sentences)
        return Subject(model, tokenizer, texts, origin, details)
    return Subject(model, tokenizer, tuple(sentences), "sentences handed in", details)


def _history(run: Run) -> dict[str, str]:
    """How the run came about, in words."""
    chosen, trained = run.settings, run.metrics()
    corpus, pairs = run.record["corpus"], run.record["corpus"]["pairs"]
    scores = [line["validation_bleu"] for line in trained if "validation_bleu" in line]
    mechanisms = {f"{site}: {name}" for site, name in run.model.config.attention.items()}
    return {
        "Trained on": f"{pairs['train']:,} pairs of {corpus['name']} ({chosen.corpus.pair}), "
        f"seed {chosen.optimizer.seed}, checksum {corpus['checksum'][:12]}",
        "Attention": ", ".join(sorted(mechanisms)),
        "Best validation BLEU": f"{max(scores):.1f}" if scores else "",
    }


def _texts(
    run: Run | None, text: Path | None, corpus: str | None, pair: str, count: int
) -> tuple[tuple[Text, ...], str]:
    """The first texts of a file, a corpus or the run's own corpus, and their origin in words."""
    if text is not None:
        return read_texts(text)[:count], str(text)
    if corpus is None and run is not None:
        own = run.corpus()
        return _pairs(own.test, count), f"the test part of {own.name}"
    name = corpus or "embedded"
    return _pairs(load_corpus(name, pair=pair).test, count), f"the test part of {name} ({pair})"


def read_texts(path: Path) -> tuple[Text, ...]:
    """The lines of a file, as pairs where each holds one tab; empty lines are left out.

    Raises:
        InputError: the file is missing, empty, not UTF-8, or has tabs in some lines only.
    """
    try:
        lines = [line.strip("\r\n ") for line in path.read_text(encoding="utf-8").split("\n")]
    except FileNotFoundError:
        msg = f"There is no file {path}; give one with a sentence on each line."
        raise InputError(msg) from None
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{path} cannot be read as UTF-8 text ({error})."
        raise InputError(msg) from None
    rows = [tuple(line.split("\t")) for line in lines if line]
    if not rows:
        msg = f"{path} is empty; give a file with a sentence on each line."
        raise InputError(msg)
    widths = {len(row) for row in rows}
    if widths == {1}:
        return tuple(row[0] for row in rows)
    if widths == {2}:
        return tuple((row[0], row[1]) for row in rows)
    msg = f"{path}: each line must be a sentence, or each a sentence, a tab and its translation."
    raise InputError(msg)


def _pairs(rows: Any, count: int) -> tuple[tuple[str, str], ...]:
    return tuple(
        (row["source"], row["target"]) for row in rows.select(range(min(count, len(rows))))
    )


def _load_transformers(source: str | Path) -> tuple[Any, Any]:
    from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer

    name = str(source)
    try:
        config = AutoConfig.from_pretrained(name)
        kind = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModel
        return kind.from_pretrained(name), AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError, KeyError) as error:
        found = "is a folder" if Path(name).is_dir() else "is no folder here"
        first = str(error).strip().splitlines()[0]
        msg = (
            f"No model could be loaded from {name!r}, which {found} ({first}); give a run of "
            "attnlab, a transformers folder, or the name of a model on the hub."
        )
        raise InputError(msg) from error


def parse_sites(text: str | None) -> tuple[Site, ...] | None:
    """Sites from a list with commas; None, for all, when there is no list.

    Raises:
        InputError: a name that is no site.
    """
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in SITES]
    if unknown:
        msg = f"There is no site '{unknown[0]}'; choose from: {', '.join(SITES)}."
        raise InputError(msg)
    return tuple(site for site in SITES if site in names)
