"""What corpora there are and how large one of them is."""

from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from attnlab.corpora.corpus import EMBEDDED, EMBEDDED_PAIRS, ParallelCorpus
from attnlab.corpora.files import find_files, find_languages, list_split_files
from attnlab.corpora.libraries import is_saved_folder
from attnlab.corpora.splits import SPLITS

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_PAIR = ("en", "it")


@dataclass(frozen=True)
class CatalogueEntry:
    """A corpus, or a form of corpora, that `load_corpus` accepts."""

    name: str
    languages: str
    size: str
    offline: bool
    """Whether it can be had without a network."""


CATALOGUE = (
    CatalogueEntry(EMBEDDED, "en-it", f"any; {EMBEDDED_PAIRS:,} pairs by default", offline=True),
    CatalogueEntry("PATH.tsv", "source, tab, target", "yours", offline=True),
    CatalogueEntry("PATH.jsonl", '{"translation": {"en": …, "it": …}}', "yours", offline=True),
    CatalogueEntry("FOLDER", "train.en with train.it, val.…, test.…", "yours", offline=True),
    CatalogueEntry("FOLDER", "en-it.train.tsv, en-it.val.tsv, …", "yours", offline=True),
    CatalogueEntry("FOLDER", "saved by datasets (save_to_disk)", "yours", offline=True),
    CatalogueEntry("opus_books", "en-it and other pairs", "en-it: 32,332 pairs", offline=False),
    CatalogueEntry("OWNER/NAME", "any with a translation column", "see the hub", offline=False),
)


def list_pairs(name: str) -> list[str]:
    """The pairs that the names of a corpus's files tell, en-it first; none where they do not tell.

    Raises:
        InputError: the path holds no files that can be read as a corpus.
    """
    path = Path(name).expanduser()
    if name == EMBEDDED:
        return ["-".join(DEFAULT_PAIR)]
    if is_saved_folder(path) or not (path.exists() or list_split_files(path)):
        return []
    known = find_languages(path)
    if any(file.form == "lines" for file in find_files(path)):
        ordered = sorted(known, key=lambda language: (language not in DEFAULT_PAIR, language))
        known = [f"{source}-{target}" for source, target in combinations(ordered, 2)]
    return sorted(known, key=lambda pair: pair != "-".join(DEFAULT_PAIR))


def summarise_corpus(corpus: ParallelCorpus) -> "pd.DataFrame":
    """One row a part and side: pairs, mean words in a sentence, and the words that 95 % do not exceed.

    Words are what stands between spaces.
    """
    import pandas as pd

    rows = []
    for split in SPLITS:
        part = getattr(corpus, split)
        for side in ("source", "target"):
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
