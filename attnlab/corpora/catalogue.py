"""What corpora there are and how large one of them is."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from attnlab.core import SIDES, expand_user
from attnlab.corpora.corpus import DEFAULT_PAIR, EMBEDDED, EMBEDDED_PAIRS, ParallelCorpus
from attnlab.corpora.libraries import is_saved_folder
from attnlab.corpora.readers import LINES, find_files, find_languages, list_split_files, readers
from attnlab.corpora.rows import SPLITS
from attnlab.grammar import LANGUAGES

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class CatalogueEntry:
    """A corpus, or a form of corpora, that `load_corpus` accepts."""

    name: str
    languages: str
    size: str
    offline: bool
    """Whether it can be had without a network."""


def catalogue() -> list[CatalogueEntry]:
    """What `load_corpus` accepts, readers of other distributions among it."""
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
            for ending, reader in readers().items()
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
    known = find_languages(path)
    if any(file.form == LINES for file in find_files(path)):
        known = _pairs_among(known)
    return sorted(known, key=lambda pair: pair != DEFAULT_PAIR)


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
