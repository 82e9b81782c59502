"""How far gold dependency arcs reach, counted as the words of models are."""

from itertools import accumulate
from pathlib import Path

import pandas as pd

from attnlab.labels import GoldSentence, gold_of_treebank
from experiments.windows_by_language.models import LANGUAGES
from experiments.windows_by_language.reading import CURVE, SHARE


def gold_curves(folder: Path) -> pd.DataFrame:
    """The share of arcs of at most w words, by language."""
    rows = []
    for language in LANGUAGES:
        lengths = pd.Series(
            [
                length
                for sentence in gold_of_treebank(folder / f"{language}.conllu.gz", None).source
                for length in arc_lengths(sentence)
            ]
        )
        rows += [
            {
                "language": language,
                "window": window,
                "captured": (lengths <= window).mean(),
                "arcs": len(lengths),
                "mean_length": lengths.mean(),
                "w90": int(lengths.quantile(SHARE, interpolation="higher")),
            }
            for window in range(CURVE + 1)
        ]
    return pd.DataFrame(rows)


def arc_lengths(sentence: GoldSentence) -> list[int]:
    """How many written words the two words of each arc are apart; punctuation is no word, the root no arc."""
    words = [tag != "PUNCT" for tag in sentence.tags]
    place = list(accumulate(words))
    return [
        abs(place[arc.dependent] - place[arc.head])
        for arc in sentence.arcs
        if words[arc.dependent] and words[arc.head]
    ]
