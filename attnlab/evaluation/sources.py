"""The texts that a question is asked on, and the model that it is asked of."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path

from attnlab.core import (
    InputError,
    Note,
    ShortRepr,
    check_has_lines,
    check_word_length,
    path_label,
    read_lines,
    texts_of,
)
from attnlab.corpora import (
    DEFAULT_PAIR,
    EMBEDDED,
    ParallelCorpus,
    load_corpus,
    notes_on_tables,
)
from attnlab.evaluation.shared_settings import (
    MANY_REPEATED,
    MANY_UNKNOWN,
    CalibratedSettings,
    FewerThanAsked,
    OtherLanguages,
    RepeatedTexts,
    SplitTexts,
    TextsAsked,
    TranslationsUnread,
    UnknownTokens,
    UnreadableTranslations,
)
from attnlab.labels import Gold, gold_of_embedded, gold_of_texts, gold_of_treebank, sentences_in
from attnlab.models import (
    LANGUAGE_MODEL,
    READABLE_BLEU,
    Model,
    Run,
    Source,
    check_has_sentences,
    choice,
    model_of,
)
from attnlab.reading import NoTranslations, Sentences, Text, source_of


@dataclass(frozen=True, repr=False)
class Texts(ShortRepr):
    """The texts that a question is asked on, and the corpus that others of the kind can come from.

    Attributes:
        texts: sentences, or pairs (source, target).
        origin: where they come from, in words.
        available: how many there are where these come from; None where they were handed in.
        beyond: the texts behind them in their file.
        training: those that were set apart to learn on, see `split_texts`.
        validation: those that were set apart to choose on.
        gold: what is known of them, where that was asked for.
        corpus: the corpus that sentences can come from, if there is one, loaded when first called.
        languages: of a corpus that was named, such as `en-it`.
        notes: whether the file that they come from looks like one of another form.
    """

    texts: tuple[Text, ...]
    origin: str = "sentences handed in"
    available: int | None = None
    beyond: tuple[Text, ...] = ()
    training: tuple[Text, ...] = ()
    validation: tuple[Text, ...] = ()
    gold: Gold | None = None
    corpus: Callable[[], ParallelCorpus] | None = None
    languages: str | None = None
    notes: tuple[Note, ...] = ()


def model_and_texts(
    source: Source,
    *,
    sentences: int | Sequence[Text],
    text: str | Path | None = None,
    corpus: str | None = None,
    pair: str | None = None,
    treebank: str | Path | None = None,
    gold: bool = False,
    scores: bool = False,
    corpora: bool = True,
) -> tuple[Model, Texts]:
    """The model at `source` with its first `sentences` held-out texts.

    Args:
        source: what `model_of` takes.
        sentences: how many texts at most, or the texts themselves.
        text: a file with one sentence a line (encoder-decoder: source, tab, translation). A run
            that was trained on lower case reads it, `corpus` and `treebank` in lower case.
        corpus: a corpus as for `attnlab train`; its test part is used. A run brings its own.
        pair: languages of `corpus`; None: those of the run, or `en-it`.
        treebank: a CoNLL-U file, whose sentences are then the texts.
        gold: whether to look for what is known of the texts.
        scores: whether a transformers model must score next tokens.
        corpora: whether who asks can be given a corpus, for the message where there are no sentences.

    Raises:
        InputError: no such model, no sentences for it, or sentences from two sources.
    """
    given = text or corpus or treebank or not isinstance(sentences, int)
    _check_one_source(sentences, text=text, corpus=corpus, pair=pair, treebank=treebank)
    if not given and isinstance(source, str | Path):
        file = "text, a file with a sentence on each line"
        check_has_sentences(source, f"{file}, or a corpus" if corpora else file)
    model = model_of(source, scores=scores)
    run = model if isinstance(model, Run) else None
    more = _corpus(run, corpus, pair)
    if not isinstance(sentences, int):
        texts = Texts(tuple(texts_of(sentences)))
    elif treebank is not None:
        trees = gold_of_treebank(treebank, sentences, lowercase=model.lowercase)
        origin = path_label(treebank)
        texts = Texts(trees.texts, origin, sentences_in(treebank), gold=trees)
    elif text is not None:
        lines = read_texts(text, lowercase=model.lowercase)
        texts = Texts(lines[:sentences], path_label(text), len(lines), lines[sentences:])
    elif more is not None:
        is_own_corpus = run is not None and corpus is None
        texts = _test_part(more(), sentences, None if is_own_corpus else _languages(run, pair))
    else:
        msg = "This model brings no sentences of its own; hand them in as sentences=[...]."
        raise InputError(msg)
    texts = replace(texts, corpus=more, notes=tuple(notes_on_tables(text, corpus)))
    brought = text is None and isinstance(sentences, int) and treebank is None
    if gold and texts.gold is None and texts.texts:
        name = corpus or (run.settings.corpus.name if run is not None and brought else None)
        texts = replace(texts, gold=_gold(texts, name, lowercase=model.lowercase))
    return model, replace(texts, texts=_as_read(model, texts.texts)) if brought else texts


def calibrated_texts(source: Source, settings: CalibratedSettings) -> tuple[Model, Texts]:
    """The model at `source` with the texts of a study that learns on some and is reported on others.

    Where the model brings no training sentences and none are given, the texts are split by `split_texts`.

    Raises:
        InputError: see `model_and_texts` and `split_texts`.
    """
    model, texts = model_and_texts(
        source, sentences=settings.sentences_to_read, text=settings.text, scores=True, corpora=False
    )
    if texts.corpus is None and not settings.learns_apart:
        texts = split_texts(texts, settings)
    return model, texts


def split_texts(texts: Texts, settings: CalibratedSettings) -> Texts:
    """The texts split in turn: the first held out, the second for training, the third for validation.

    Texts of one source are in one part, and turns are those of sources, by their first text. Where
    validation sentences are given, the texts beside them are split in two.

    Args:
        texts: those that were handed in.
        settings: how many texts each part has at most.

    Raises:
        InputError: there are fewer sources than purposes.
    """
    most = settings.sentences_to_read, settings.calibration, settings.validation
    given = () if isinstance(settings.validation, int) else settings.validation
    elsewhere = set(map(source_of, given))
    every = [text for text in (*texts.texts, *texts.beyond) if source_of(text) not in elsewhere]
    sources = dict.fromkeys(map(source_of, every))
    settings.check_can_be_split(sources)
    turns = {source: number % len(settings.purposes) for number, source in enumerate(sources)}
    held_out, training, validation = (
        tuple(text for text in every if turns[source_of(text)] == turn)[
            : count if isinstance(count, int) else None
        ]
        for turn, count in enumerate(most)
    )
    return replace(texts, texts=held_out, beyond=(), training=training, validation=validation)


def _check_one_source(
    sentences: int | Sequence[Text],
    *,
    text: str | Path | None,
    corpus: str | None,
    pair: str | None,
    treebank: str | Path | None,
) -> None:
    """Raises InputError where sentences come from two places, or none are wanted; see `model_and_texts`."""
    if treebank is not None and (text or corpus or not isinstance(sentences, int)):
        msg = "treebank brings its own sentences; leave text and corpus out."
        raise InputError(msg)
    if text is not None and not isinstance(sentences, int):
        msg = "sentences are the texts themselves here, and text names a file of others; leave one out."
        raise InputError(msg)
    if pair is not None and corpus is None:
        msg = "pair names the languages of corpus; name a corpus too, or leave pair out."
        raise InputError(msg)
    if isinstance(sentences, int) and sentences < 1:
        msg = f"The number of sentences must be at least 1, not {sentences}."
        raise InputError(msg)


def _test_part(corpus: ParallelCorpus, sentences: int, languages: str | None) -> Texts:
    """The first pairs that a corpus holds out; `languages` are those of one that is not the run's own."""
    texts = _first_pairs(corpus, "test", sentences)
    behind = "" if languages is None else f" ({languages})"
    origin = f"the test part of {path_label(corpus.name)}{behind}"
    return Texts(texts, origin, len(corpus.test), languages=languages)


def _gold(texts: Texts, corpus: str | None, *, lowercase: bool) -> Gold:
    """The trees of texts of the embedded corpus, of others the words alone."""
    if corpus != EMBEDDED or texts.corpus is None:
        return gold_of_texts(texts.texts)
    return gold_of_embedded(texts.texts, texts.corpus().drawn, lowercase=lowercase)


def _corpus(
    run: Run | None, name: str | None, pair: str | None
) -> Callable[[], ParallelCorpus] | None:
    """A function that loads, once, the corpus of that name as the run reads it, or else the run's own."""
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


def first_texts(
    model: Model, corpus: ParallelCorpus, split: str, count: int, without: Collection[str] = ()
) -> tuple[Text, ...]:
    """The first `count` texts of a part as the model reads them, but those whose source is in `without`.

    Raises:
        InputError: there is no such part.
    """
    return _as_read(model, _first_pairs(corpus, split, count, without))


def _first_pairs(
    corpus: ParallelCorpus, split: str, count: int, without: Collection[str] = ()
) -> tuple[tuple[str, str], ...]:
    rows = corpus.part(split)
    pairs = zip(rows["source"], rows["target"], strict=True)
    return tuple(islice((pair for pair in pairs if pair[0] not in without), count))


def _as_read(model: Model, pairs: Sequence[Text]) -> tuple[Text, ...]:
    """Pairs of a parallel corpus, or their sources for a model that reads no translations."""
    both = model.model.config.is_encoder_decoder
    return tuple(pairs) if both else tuple(map(source_of, pairs))


def read_texts(path: str | Path, *, lowercase: bool = False) -> tuple[Text, ...]:
    """The lines of a file, as pairs where each holds one tab; empty lines are left out.

    Args:
        path: the file.
        lowercase: whether the lines are put in lower case.

    Raises:
        InputError: the file is missing, empty, not UTF-8, or has tabs in some lines only.
    """
    path = Path(path)
    check_has_lines(path)
    lines = [line.strip(" ") for line in read_lines(path)]
    for number, line in enumerate(lines, start=1):
        check_word_length(line, f"{path}, line {number},")
    lines = [line.lower() for line in lines] if lowercase else lines
    rows = [tuple(line.split("\t")) for line in lines if line]
    widths = {len(row) for row in rows}
    if widths == {1}:
        return tuple(row[0] for row in rows)
    if widths == {2}:
        return tuple((row[0], row[1]) for row in rows)
    msg = f"{path}: each line must be a sentence, or each a sentence, a tab and its translation."
    raise InputError(msg)


def notes_on_training(model: Model) -> list[Note]:
    """Whether a run has not been trained until its translations can be read."""
    if not isinstance(model, Run):
        return []
    scores = [
        (line["validation_bleu"], line["validation_loss"])
        for line in model.metrics()
        if "validation_bleu" in line
    ]
    # Of the evaluation whose weights the run has.
    bleu = max(scores, key=lambda score: choice(*score), default=(READABLE_BLEU,))[0]
    if bleu >= READABLE_BLEU:
        return []
    return [UnreadableTranslations(path_label(model.folder), bleu, READABLE_BLEU)]


def notes_on_unknown(parts: Mapping[str, Sentences]) -> list[Note]:
    """Whether many tokens of some part are unknown to the tokenizer, by the name of each."""
    shares = tuple((name, part.unknown_share) for name, part in parts.items())
    many = tuple(share for share in shares if share[1] >= MANY_UNKNOWN)
    return [UnknownTokens(many)] if many else []


def notes_on_texts(
    model: Model,
    texts: Texts,
    parts: Mapping[str, Sentences],
    requested: TextsAsked | None,
    sites: Sequence[str] | None,
) -> list[Note]:
    """Whether texts are unknown words, fewer than asked for, repeat, or do not suffice for some sites.

    And what `notes_on_training` says.

    Args:
        model: that read them.
        texts: those to report on.
        parts: these as the model reads them, and others that something was chosen or learned on, by name.
        requested: how many were asked for; None where nobody did.
        sites: that were asked for; None for all.
    """
    notes = [*notes_on_training(model), *texts.notes, *notes_on_unknown(parts)]
    if texts.training:
        parts_of_texts = len(texts.texts), len(texts.training), len(texts.validation) or None
        notes.append(SplitTexts(*parts_of_texts))
    elif isinstance(requested, int) and len(texts.texts) < requested:
        notes.append(FewerThanAsked(requested, texts.origin, len(texts.texts)))
    both = model.model.config.is_encoder_decoder
    # Of translations those of one source too: their encoder heads and most of their words are the same.
    different = set(map(source_of, texts.texts)) if both else set(texts.texts)
    repeated = len(texts.texts) - len(different)
    if repeated >= MANY_REPEATED * len(texts.texts):
        notes.append(RepeatedTexts(repeated, len(texts.texts)))
    paired = isinstance(texts.texts[0], tuple)
    if sites is None and not paired and both:
        notes.append(NoTranslations())
    if isinstance(model, Run) and texts.languages not in {None, model.settings.corpus.pair}:
        notes.append(OtherLanguages(model.settings.corpus.pair, str(texts.languages)))
    # A run that is a language model reads one side of its own corpus, as it was trained.
    if texts.corpus is not None and not both and not isinstance(model, Run):
        notes.append(TranslationsUnread())
    return notes
