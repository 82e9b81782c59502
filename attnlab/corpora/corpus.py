"""Parallel corpora: which there are, and one type for them, embedded, of local files or of the hub."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations, islice, permutations
from pathlib import Path
from typing import TYPE_CHECKING

from attnlab.core import (
    LARGEST_NUMBER,
    SIDES,
    InputError,
    Progress,
    ShortRepr,
    check_regular,
    expand_user,
)
from attnlab.corpora.libraries import EMBEDDED_NAME, is_saved_folder, read_hub, read_saved
from attnlab.corpora.readers import (
    LANGUAGE_PAIR,
    LINES,
    find_files,
    find_languages,
    forms,
    is_text_file,
    list_split_files,
    looks_like_a_path,
    read_files,
    read_text_file,
    readers_by_ending,
)
from attnlab.corpora.rows import (
    IN_MEMORY,
    SPLITS,
    Pair,
    Splits,
    Storage,
    complete_splits,
    dataset_of,
    join_documents,
    pairs_of,
    source_of,
    target_of,
)
from attnlab.grammar import LANGUAGES

if TYPE_CHECKING:
    import datasets
    import pandas as pd

    from attnlab.grammar import GrammarPair


EMBEDDED = EMBEDDED_NAME
DEFAULT_PAIR = "en-it"
EMBEDDED_PAIRS = 20_000


@dataclass(frozen=True, repr=False)
class ParallelCorpus(ShortRepr):
    """Sentence pairs in three parts, each a dataset with the string columns `source` and `target`."""

    name: str
    source_language: str
    target_language: str
    train: "datasets.Dataset"
    validation: "datasets.Dataset"
    test: "datasets.Dataset"
    checksum: str
    """SHA-256 over all rows of all parts, in order, as they are here."""
    drawn: "tuple[GrammarPair, ...]" = ()
    """Of the embedded corpus: its pairs with trees and alignments, in the order of drawing."""
    storage: Storage = field(default_factory=Storage, compare=False)
    """Where rows are that do not fit in memory; they are there as long as it is."""

    def part(self, name: str) -> "datasets.Dataset":
        """The part `train`, `validation` or `test`.

        Raises:
            InputError: there is no such part.
        """
        if name not in SPLITS:
            msg = f"There is no part '{name}'; choose from: {', '.join(SPLITS)}."
            raise InputError(msg)
        rows: datasets.Dataset = getattr(self, name)
        return rows


def load_corpus(
    name: str = EMBEDDED,
    *,
    pair: str = DEFAULT_PAIR,
    document: int = 1,
    limit: int | None = None,
    seed: int = 0,
    size: int | None = None,
    lowercase: bool = False,
    plain: bool = False,
    progress: Progress | None = None,
    in_memory: int = IN_MEMORY,
) -> ParallelCorpus:
    """The corpus of that name, or at that path, as training, validation and test rows.

    Sentences come out in Unicode normal form C, without white space at their ends. Where a corpus
    has no validation or test part, it is held out from the training rows by a hash of the source
    sentence (see `complete_splits`); for the embedded corpus, whose English sentences are distinct, by
    a hash of the other side, so that neither a source nor a target sentence stands in two parts.

    name: `embedded`; a path (a file with an ending of `attnlab.corpora.readers`, a folder with
        `train.en` and `train.it` or `en-it.train.tsv`, the beginning of such names, a folder saved by
        datasets; each file may end in .gz); or a name on the hub such as `opus_books`.
    pair: source and target language; `it-en` turns `en-it` round. A .tsv whose name holds no pair
        is source, tab, target, as it stands.
    document: so many consecutive rows are joined by a space, before a part is held out; the rest at
        the end makes a shorter document.
    limit: only the first rows (documents, where they are joined) of the training part.
    plain: a .txt file is read too, for models of one language: each line is both sides of a row.
    seed, size: for the embedded corpus: the seed of the grammar and the number of pairs drawn.
    progress: called with (what is being done, done, in all) while that is drawn.
    in_memory: rows up to which a part is kept in memory; larger ones are memory-mapped from a folder
        where `tempfile` makes one, which is deleted with the corpus.

    Raises:
        InputError: the corpus, a file of it, the pair or a number cannot be used.
        AttnlabError: the hub cannot be reached and nothing of the corpus is in the cache.
    """
    check_values(name, document, limit, size)
    languages = split_pair(pair)
    drawn: tuple[GrammarPair, ...] = ()
    if name == EMBEDDED:
        drawn = draw_embedded(languages, seed, EMBEDDED_PAIRS if size is None else size, progress)
        splits: Splits = {"train": [(pair.source, pair.target) for pair in drawn]}
    else:
        splits = read_corpus(name, languages, plain=plain)
    # Documents before splits, so that their sentences are neighbours; case before splits, so that
    # sentences which differ in case only do not straddle.
    documents: Splits = {
        split: join_documents(_lower(rows) if lowercase else rows, document)
        for split, rows in splits.items()
    }
    storage = Storage(in_memory)
    key = _side_of_last_language(languages) if name == EMBEDDED else source_of
    parts = _stored(documents, name, key, limit, storage)
    return replace(_corpus(name, languages, parts), drawn=drawn, storage=storage)


def _side_of_last_language(languages: tuple[str, str]) -> Callable[[Pair], str]:
    """The side in the later of two languages of the grammar, so that both directions have the same parts."""
    source, target = map(list(LANGUAGES).index, languages)
    return target_of if target > source else source_of


def _stored(
    documents: Splits, name: str, key: Callable[[Pair], str], limit: int | None, storage: Storage
) -> "dict[str, datasets.Dataset]":
    """All three parts; see `load_corpus` for `limit` and `complete_splits` for `key`."""
    if set(SPLITS) <= set(documents):
        # What is held out depends on all rows; where nothing is, no more are read.
        documents = documents | {"train": islice(documents["train"], limit)}
    stored = {split: dataset_of(rows, storage) for split, rows in documents.items()}
    parts = complete_splits(stored, where=name, storage=storage, key=key, limit=limit)
    if parts["train"] is not stored["train"]:
        storage.discard(stored["train"])
    return parts


def build_corpus(name: str, languages: tuple[str, str], splits: Splits) -> ParallelCorpus:
    """The corpus with these rows in its three parts, with its checksum."""
    storage = Storage()
    parts = {split: dataset_of(splits[split], storage) for split in SPLITS}
    return replace(_corpus(name, languages, parts), storage=storage)


def _corpus(
    name: str, languages: tuple[str, str], parts: "dict[str, datasets.Dataset]"
) -> ParallelCorpus:
    digest = hashlib.sha256()
    for split in SPLITS:
        digest.update(f"{split} {len(parts[split])}\n".encode())
        for row in pairs_of(parts[split]):
            digest.update(f"{json.dumps(row, ensure_ascii=False)}\n".encode())
        if not len(parts[split]):
            digest.update(b"\n")
    return ParallelCorpus(name, *languages, **parts, checksum=digest.hexdigest())


def _lower(rows: Iterable[Pair]) -> Iterator[Pair]:
    return ((source.lower(), target.lower()) for source, target in rows)


def split_pair(pair: str) -> tuple[str, str]:
    """Both languages of a pair such as `en-it`.

    Raises:
        InputError: it is not two different names with a hyphen between them.
    """
    match = LANGUAGE_PAIR.fullmatch(pair)
    if match is None or match[1] == match[2]:
        msg = f'"{pair}" is no pair of languages; write two of them with a hyphen, such as en-it.'
        raise InputError(msg)
    return match[1], match[2]


def check_values(name: str, document: int, limit: int | None, size: int | None) -> None:
    """Raises if a number is out of range, or given for a corpus that has no use for it.

    Raises:
        InputError: see above.
    """
    for option, number in (("document", document), ("limit", limit), ("size", size)):
        if number is not None and number < 1:
            msg = f"{option} is {number}, which leaves nothing; it must be at least 1."
            raise InputError(msg)
        if number is not None and number > LARGEST_NUMBER:
            msg = f"--{option} is {number}, beyond 64 bits; name a smaller number."
            raise InputError(msg)
    if size is not None and name != EMBEDDED:
        msg = f"size is for the embedded corpus and {name} is not; use limit."
        raise InputError(msg)


def draw_embedded(
    languages: tuple[str, str], seed: int, size: int, progress: Progress | None = None
) -> "tuple[GrammarPair, ...]":
    """Pairs of the embedded grammar; `progress` as in `attnlab.grammar.embedded.draw_pairs`.

    Raises:
        InputError: a language that the grammar does not have.
    """
    from attnlab.grammar import draw_pairs

    if not set(languages) <= set(LANGUAGES):
        pairs = " and ".join("-".join(pair) for pair in permutations(LANGUAGES, 2))
        msg = f"The embedded corpus has no pair {'-'.join(languages)}; it has {pairs}."
        raise InputError(msg)
    return tuple(draw_pairs(size, seed=seed, languages=languages, progress=progress))


def local_path(name: str) -> Path | None:
    """The absolute path of a corpus on this machine; None for the embedded one and the hub's."""
    path = expand_user(name)
    if name != EMBEDDED and (path.exists() or list_split_files(path)):
        # Of a link the name stays, since it may tell the languages.
        return path.parent.resolve() / path.name
    return None


def read_corpus(name: str, languages: tuple[str, str], *, plain: bool = False) -> Splits:
    """The rows of a corpus on this machine, or else of one on the hub, with the splits it has.

    With `plain` it may be a text file.

    Raises:
        InputError: a path that does not exist, or what the reader of its form refuses.
    """
    path = expand_user(name)
    if not path.is_dir():
        check_regular(path)
    if is_saved_folder(path):
        return read_saved(path, languages)
    if plain and is_text_file(path):
        return read_text_file(path)
    if path.exists() or list_split_files(path):
        return read_files(path, languages)
    check_corpus_exists(name)
    return read_hub(name, languages)


def corpus_paths(name: str) -> list[Path]:
    """The file or folder of a corpus on this machine, or the files whose names begin so; none of others."""
    path = expand_user(name)
    if name == EMBEDDED or path.exists():
        return [] if name == EMBEDDED else [path]
    return [entry.path for entry in list_split_files(path)]


def check_corpus_exists(name: str) -> None:
    """Raises InputError for a path where there is nothing."""
    if looks_like_a_path(name) and local_path(name) is None:
        msg = f"There is no file or folder {name}; give {forms()}."
        raise InputError(msg)


@dataclass(frozen=True)
class CatalogueEntry:
    """A corpus, or a form of corpora, that `load_corpus` accepts."""

    name: str
    languages: str
    size: str
    offline: bool
    """Whether it can be had without a network."""


def catalogue() -> list[CatalogueEntry]:
    """Corpora and forms that `load_corpus` accepts, those of other distributions among them."""
    folders = (
        "train.en with train.it, val.…, test.…",
        "en-it.train.tsv, en-it.val.tsv, …",
        "saved by datasets (save_to_disk)",
    )
    size = f"any; {EMBEDDED_PAIRS:,} pairs by default"
    return [
        CatalogueEntry(EMBEDDED, ", ".join(_pairs_among(LANGUAGES)), size, offline=True),
        *(
            CatalogueEntry(f"PATH.{ending}", reader.holds, "yours", offline=True)
            for ending, reader in readers_by_ending().items()
        ),
        *(CatalogueEntry("FOLDER", holds, "yours", offline=True) for holds in folders),
        CatalogueEntry("opus_books", "en-it and other pairs", "en-it: 32,332 pairs", offline=False),
        CatalogueEntry("OWNER/NAME", "any with a translation column", "see the hub", offline=False),
    ]


def list_pairs(name: str) -> list[str]:
    """The pairs that the names of a corpus's files tell, en-it first; none where they do not tell.

    Raises:
        InputError: the path holds no files that can be read as a corpus.
    """
    path = expand_user(name)
    if name == EMBEDDED:
        return _pairs_among(LANGUAGES)
    if is_saved_folder(path) or not (path.exists() or list_split_files(path)):
        return []
    languages = find_languages(path)
    if any(file.form == LINES for file in find_files(path)):
        languages = _pairs_among(languages)
    return sorted(languages, key=lambda pair: pair != DEFAULT_PAIR)


def _pairs_among(languages: Iterable[str]) -> list[str]:
    """Each two of the languages, those of the usual pair first."""
    usual = DEFAULT_PAIR.split("-")
    ordered = sorted(languages, key=lambda language: (language not in usual, language))
    return [f"{source}-{target}" for source, target in combinations(ordered, 2)]


def summarise_corpus(corpus: ParallelCorpus) -> "pd.DataFrame":
    """One row per part and side: pairs, mean words in a sentence, and the words that 95 % do not exceed.

    Words are what stands between spaces.
    """
    import pandas as pd

    rows = []
    for split in SPLITS:
        part = corpus.part(split)
        for side in SIDES:
            words = pd.Series([len(sentence.split()) for sentence in part[side]])
            rows.append(
                {
                    "split": split,
                    "language": getattr(corpus, f"{side}_language"),
                    "pairs": len(part),
                    "words_mean": words.mean(),
                    "words_percentile_95": int(words.quantile(0.95, interpolation="higher")),
                }
            )
    return pd.DataFrame(rows)
