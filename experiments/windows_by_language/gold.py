"""How far gold dependency arcs reach, counted as the words of models are."""

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

import pandas as pd

from attnlab.labels import GoldSentence, gold_of_treebank
from experiments.windows_by_language.reading import CURVE, SHARE


def gold_curves(folder: Path, languages: Sequence[str]) -> pd.DataFrame:
    """The share of arcs of at most w words, by language of which the folder has a treebank."""
    rows = []
    for language in languages:
        path = folder / f"{language}.conllu.gz"
        if not path.exists():
            continue
        lengths = pd.Series(
            [
                length
                for sentence in gold_of_treebank(path, None).source
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
