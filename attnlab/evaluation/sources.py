"""What can be studied, told apart by what it is on disk: a run, a transformers model."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnlab.core import (
    SENTENCES,
    InputError,
    Note,
    ShortRepr,
    check_sentences,
    check_there,
    check_word_length,
    model_source,
    path_label,
    read_lines,
    read_pretrained,
    reason,
    versions,
)
from attnlab.corpora import DEFAULT_PAIR, EMBEDDED, ParallelCorpus, load_corpus
from attnlab.evaluation.shared_settings import FewerThanAsked, NoTranslations, Sentences
from attnlab.labels import Gold, gold_of_embedded, gold_of_texts, gold_of_treebank, sentences_in
from attnlab.models import (
    LANGUAGE_MODEL,
    UNREADABLE,
    Run,
    Source,
    check_generation_config,
    check_has_sentences,
    check_has_tokenizer,
    check_vocabulary,
    load_body,
    run_at,
)
from attnlab.reading import Text


@dataclass(frozen=True, repr=False)
class Subject(ShortRepr):
    """A model with the texts it is analyzed on.

    Attributes:
        model: a transformers model.
        tokenizer: its tokenizer, or an object with tokenizers `.source` and `.target`.
        texts: sentences, or pairs (source, target).
        origin: where the texts come from, in words.
        there: how many there are where these come from; None where they were handed in.
        details: how the model came about, in words, by heading.
        gold: what is known of the texts, where that was asked for.
        type_counts: of the source and the target types in the training corpus, where it is known.
        seed: what the model's first weights were drawn with.
        run: the run that the model is from, if any.
        corpus: the corpus that sentences can come from, if there is one, loaded when first called.
    """

    model: Any
    tokenizer: Any
    texts: tuple[Text, ...]
    origin: str
    there: int | None = None
    details: Mapping[str, str] = field(default_factory=dict)
    gold: Gold | None = None
    type_counts: tuple[Tensor, ...] | None = None
    seed: int = 0
    run: Run | None = None
    corpus: Callable[[], ParallelCorpus] | None = None

    @property
    def weights(self) -> str | None:
        """Checksum of the weights of the run; None for other models."""
        return None if self.run is None else self.run.weights


def load_subject(
    source: Source,
    *,
    sentences: int | Sequence[Text],
    text: str | Path | None = None,
    corpus: str | None = None,
    pair: str | None = None,
    treebank: str | Path | None = None,
    gold: bool = False,
    scores: bool = False,
) -> Subject:
    """The model at `source` with its first `sentences` held-out texts.

    Args:
        source: a run or its folder, a transformers folder, the name of a model on the hub, or a pair
            (model, tokenizer).
        sentences: how many texts at most, or the texts themselves.
        text: a file with one sentence a line (encoder-decoder: source, tab, translation). A run
            that was trained on lower case reads it, `corpus` and `treebank` in lower case.
        corpus: a corpus as for `attnlab train`; its test part is used. A run brings its own.
        pair: languages of `corpus`; None: those of the run, or `en-it`.
        treebank: a CoNLL-U file, whose sentences are then the texts.
        gold: whether to look for what is known of the texts.
        scores: whether a transformers model must score next tokens.

    Raises:
        InputError: no such model, no sentences for it, or sentences from two sources.
    """
    given = text or corpus or treebank or not isinstance(sentences, int)
    if treebank is not None and (text or corpus or not isinstance(sentences, int)):
        msg = "treebank brings its own sentences; leave text and corpus out."
        raise InputError(msg)
    if pair is not None and corpus is None:
        msg = "pair names the languages of corpus; name a corpus too, or leave pair out."
        raise InputError(msg)
    if isinstance(sentences, int) and sentences < 1:
        msg = f"The number of sentences must be at least 1, not {sentences}."
        raise InputError(msg)
    run = run_at(source)
    if run is None and not given:
        _check_any_sentences(source)
    subject = replace(_model(source, run, scores=scores), corpus=_corpus(run, corpus, pair))
    lowercase = run is not None and run.settings.corpus.lowercase
    if not isinstance(sentences, int):
        check_sentences(sentences)
        subject = replace(subject, texts=tuple(sentences), origin="sentences handed in")
    elif treebank is not None:
        return _with_treebank(subject, treebank, sentences, lowercase=lowercase)
    elif text is not None:
        lines = read_texts(text, lowercase=lowercase)
        first = lines[:sentences]
        subject = replace(subject, texts=first, origin=path_label(text), there=len(lines))
    else:
        languages = f" ({_languages(run, pair)})" if run is None or corpus is not None else ""
        subject = _with_test_part(subject, sentences, languages)
    if not gold or not subject.texts:
        return subject
    own = text is None and isinstance(sentences, int)
    name = corpus or (run.settings.corpus.name if run is not None and own else None)
    return replace(subject, gold=_gold(subject, name, lowercase=lowercase))


def _check_any_sentences(source: Source) -> None:
    if not isinstance(source, str | Path):
        msg = "A model without a folder brings no sentences; hand them in as sentences=[...]."
        raise InputError(msg)
    check_has_sentences(source, "text, a file with a sentence on each line, or a corpus")


def _with_treebank(
    subject: Subject, path: str | Path, sentences: int, *, lowercase: bool
) -> Subject:
    trees = gold_of_treebank(path, sentences, lowercase=lowercase)
    there = sentences_in(path)
    return replace(subject, texts=trees.texts, origin=path_label(path), there=there, gold=trees)


def _with_test_part(subject: Subject, sentences: int, languages: str) -> Subject:
    """On the first pairs that its corpus holds out; `languages` are told beside the corpus' name."""
    if subject.corpus is None:
        return subject
    chosen = subject.corpus()
    texts = first_pairs(chosen, "test", sentences)
    origin = f"the test part of {path_label(chosen.name)}{languages}"
    return replace(subject, texts=texts, origin=origin, there=len(chosen.test))


def _model(source: Source, run: Run | None, *, scores: bool) -> Subject:
    """The model with all that is known of it, without texts."""
    if isinstance(source, tuple):
        return Subject(*source, (), "")
    if not isinstance(source, Run) and run is None:
        return Subject(*load_transformers(source, scores=scores), (), "")
    assert run is not None  # noqa: S101 - a source that is none was loaded
    return Subject(
        run.model,
        run.tokenizers,
        (),
        "",
        details=_history(run),
        type_counts=type_counts_of(run),
        seed=run.settings.optimizer.seed,
        run=run,
    )


def _gold(subject: Subject, corpus: str | None, *, lowercase: bool) -> Gold:
    """Trees where `corpus` is the embedded one and has the texts, of others the words alone."""
    if corpus != EMBEDDED or subject.corpus is None:
        return gold_of_texts(subject.texts)
    return gold_of_embedded(subject.texts, subject.corpus().drawn, lowercase=lowercase)


def type_counts_of(run: Run) -> tuple[Tensor, Tensor]:
    """How often each type of the source and of the target stands in the training rows."""
    both = run.tokenizers.source_counts, run.tokenizers.target_counts
    source, target = (torch.tensor(list(counts.values())) for counts in both)
    return source, target


def _history(run: Run) -> dict[str, str]:
    """How the run came about, in words."""
    chosen, trained = run.settings, run.metrics()
    corpus, pairs = run.record["corpus"], run.record["corpus"]["pairs"]
    scores = [line["validation_bleu"] for line in trained if "validation_bleu" in line]
    perplexities = [line["validation_perplexity"] for line in trained if not scores]
    read = "texts" if chosen.model.task == LANGUAGE_MODEL else "pairs"
    mechanisms = {f"{site}: {name}" for site, name in run.model.config.attention.items()}
    return {
        "Trained on": f"{pairs['train']:,} {read} of {path_label(corpus['name'])} ({chosen.corpus.pair}), "
        f"seed {chosen.optimizer.seed}, checksum {corpus['checksum'][:12]}",
        "Attention": ", ".join(sorted(mechanisms)),
        "Best validation BLEU": f"{max(scores):.1f}" if scores else "",
        "Best validation perplexity": f"{min(perplexities):.1f}" if perplexities else "",
    }


def _corpus(
    run: Run | None, name: str | None, pair: str | None
) -> Callable[[], ParallelCorpus] | None:
    """Loads, once, the corpus of that name in the run's languages and case, or else the run's own."""
    if run is None and name is None:
        return None

    @cache
    def load_once() -> ParallelCorpus:
        if name is None and run is not None:
            return run.corpus()
        lowercase = run is not None and run.settings.corpus.lowercase
        plain = run is not None and run.settings.model.task == LANGUAGE_MODEL
        return load_corpus(
            name or EMBEDDED, pair=_languages(run, pair), lowercase=lowercase, plain=plain
        )

    return load_once


def _languages(run: Run | None, pair: str | None) -> str:
    return pair or (DEFAULT_PAIR if run is None else run.settings.corpus.pair)


def first_pairs(
    corpus: ParallelCorpus, split: str, count: int, without: Collection[str] = ()
) -> tuple[tuple[str, str], ...]:
    """The first `count` pairs of a part, those left out whose source is in `without`.

    Raises:
        InputError: there is no such part.
    """
    rows = corpus.part(split)
    pairs = zip(rows["source"], rows["target"], strict=True)
    return tuple(islice((pair for pair in pairs if pair[0] not in without), count))


def source_of(text: Text) -> str:
    """The sentence, or the source of a pair."""
    return text if isinstance(text, str) else text[0]


def read_texts(path: str | Path, *, lowercase: bool = False) -> tuple[Text, ...]:
    """The lines of a file, as pairs where each holds one tab; empty lines are left out.

    Args:
        path: the file.
        lowercase: whether the lines are put in lower case.

    Raises:
        InputError: the file is missing, empty, not UTF-8, or has tabs in some lines only.
    """
    path = Path(path)
    check_there(path, SENTENCES)
    lines = [line.strip(" ") for line in read_lines(path)]
    for number, line in enumerate(lines, start=1):
        check_word_length(line, f"{path}, line {number},")
    lines = [line.lower() for line in lines] if lowercase else lines
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


def load_transformers(source: str | Path, *, scores: bool) -> tuple[Any, Any]:
    """The model and the tokenizer in a transformers folder, or of that name on the hub.

    Args:
        source: the folder or the name.
        scores: whether the model must score next tokens.

    Raises:
        InputError: they cannot be loaded.
    """
    from transformers import (
        AutoConfig,
        AutoModel,
        AutoModelForCausalLM,
        AutoModelForSeq2SeqLM,
        AutoTokenizer,
    )
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING,
        MODEL_FOR_MASKED_LM_MAPPING,
    )

    from attnlab.attention import PLAN_ENTRY, install_saved, saved_plan

    name = model_source(source)
    try:
        config = read_pretrained(AutoConfig, name)
        kind: Any = AutoModel
        if config.is_encoder_decoder:
            kind = AutoModelForSeq2SeqLM
        elif (
            scores
            and type(config) in MODEL_FOR_CAUSAL_LM_MAPPING
            # BERT and its like could be given scores, but read both ways.
            and (type(config) not in MODEL_FOR_MASKED_LM_MAPPING or config.is_decoder)
        ):
            kind = AutoModelForCausalLM
        check_generation_config(name)
        model = load_body(kind, name, scores=scores)
        check_has_tokenizer(name)
        tokenizer = read_pretrained(AutoTokenizer, name)
        check_vocabulary(tokenizer, model)
    except UNREADABLE as error:
        found = "is a folder" if Path(source).is_dir() else "is no folder here"
        msg = (
            f"No model could be loaded from {str(source)!r}, which {found} ({reason(error)}); give a run of "
            "attnlab, a transformers folder, or the name of a model on the hub."
        )
        raise InputError(msg) from error
    if Path(name).is_dir() and saved_plan(Path(name)) is not None:
        install_saved(model, Path(name))
    elif hasattr(config, PLAN_ENTRY):
        msg = f"{source} was saved with mechanisms in it; download it and give its folder."
        raise InputError(msg)
    return model, tokenizer


def notes_on_texts(
    subject: Subject, asked: Sentences | None, sites: Sequence[str] | None
) -> list[Note]:
    """Whether there are fewer texts than were asked for, or sites for which they do not suffice."""
    found: list[Note] = []
    if isinstance(asked, int) and len(subject.texts) < asked:
        found.append(FewerThanAsked(asked, subject.origin, len(subject.texts)))
    paired = isinstance(subject.texts[0], tuple)
    if sites is None and not paired and subject.model.config.is_encoder_decoder:
        found.append(NoTranslations())
    return found


def source_in_words(source: Source, model: Any) -> str:
    """Where a model is from, or its class where it was handed in."""
    path = source.folder if isinstance(source, Run) else source
    return type(model).__name__ if isinstance(path, tuple) else path_label(path)


def model_in_words(source: Source, model: Any) -> dict[str, str]:
    """Where the model is from, its class and its size."""
    name, parameters = type(model).__name__, sum(weight.numel() for weight in model.parameters())
    return {
        "Source": source_in_words(source, model),
        "Model": f"{name}, {parameters:,} parameters",
    }


def versions_in_words() -> dict[str, str]:
    """What the figures were computed with."""
    parts = versions(("torch", "transformers"))
    return {"Versions": ", ".join(f"{name} {version}" for name, version in parts.items())}
