"""The embedded corpus: English and Italian sentence pairs with gold trees and word alignments.

A sentence is drawn as an abstract structure (`phrases.py`) and written out twice. What Italian
needs and English does not show is fixed by convention or by the sentence itself, so that the
translation is a function of the English text: `you` is one person (tu), `I`, `you` and `we` are
masculine, `it` and `them` take the gender of the noun they refer to.
"""

from dataclasses import dataclass
from random import Random

from attnlab.errors import InputError
from attnlab.grammar.english.sentences import english_tokens
from attnlab.grammar.italian.sentences import italian_tokens
from attnlab.grammar.phrases import Sentence
from attnlab.grammar.sampling import Sampler
from attnlab.grammar.trees import Word, aligned_positions, finished_words, surface

FEWEST_WORDS = 4
MOST_WORDS = 16


@dataclass(frozen=True, slots=True)
class GrammarPair:
    """An English sentence and its Italian translation.

    The trees hold the words in order, the final punctuation mark last. `alignment` holds pairs
    (source word, target word), counted from 1; every word is in at least one: the `does` of a
    negation belongs to the finite verb, a dropped subject pronoun too, and the `'s` of
    `Anna's dog` to both the article and the preposition of `il cane di Anna`.
    """

    source: str
    target: str
    source_tree: tuple[Word, ...]
    target_tree: tuple[Word, ...]
    alignment: tuple[tuple[int, int], ...]


def pair_of(sentence: Sentence) -> GrammarPair:
    """The structure written in both languages."""
    source, target = english_tokens(sentence), italian_tokens(sentence)
    source_tree, target_tree = finished_words(source), finished_words(target)
    return GrammarPair(
        surface(source_tree),
        surface(target_tree),
        source_tree,
        target_tree,
        aligned_positions(source, target),
    )


def draw_pairs(count: int, *, seed: int = 0) -> list[GrammarPair]:
    """`count` pairs with distinct English sentences of 4 to 16 words, punctuation not counted.

    The same count and seed give the same list; a longer list begins with the shorter one. Since
    no sentence comes twice, any cut of the list makes disjoint splits. Cost: about
    a tenth of a millisecond a pair.

    Raises:
        InputError: if `count` is negative.
    """
    if count < 0:
        msg = f"cannot draw {count} sentence pairs; ask for 0 or more"
        raise InputError(msg)
    sampler = Sampler(Random(seed))
    seen: set[str] = set()
    pairs: list[GrammarPair] = []
    while len(pairs) < count:
        pair = pair_of(sampler.sentence())
        if pair.source in seen or not _is_wanted(pair):
            continue
        seen.add(pair.source)
        pairs.append(pair)
    return pairs


def _is_wanted(pair: GrammarPair) -> bool:
    """False for sentences too short or long, with a name twice, or with one `you` of each number.

    `your` is translated as of one person (tuo), which would clash with `you all` (voi).
    """
    words = pair.source_tree
    if not FEWEST_WORDS <= spoken_words(words) <= MOST_WORDS:
        return False
    names = [word.form for word in words if word.part_of_speech == "PROPN"]
    lemmas = {word.lemma for word in words}
    return len(names) == len(set(names)) and not {"all", "your"} <= lemmas


def spoken_words(words: tuple[Word, ...]) -> int:
    """The number of words that are not punctuation."""
    return sum(word.part_of_speech != "PUNCT" for word in words)
