"""The embedded corpus: sentence pairs in two languages with gold trees and word alignments.

A sentence is drawn as an abstract structure (`phrases.py`) and written out in each language. What
other languages need and English does not show is fixed by convention or by the sentence itself, so
that the translation is a function of the English text: `you` is one person (tu), `I`, `you` and `we`
are masculine, `it` and `them` take the gender of the noun they refer to.

A language is a folder beside this file: its `tokens` write a structure out, its `CODE` names it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from random import Random
from typing import TypeAlias

from attnlab.core import InputError
from attnlab.grammar.english.english_sentences import english_tokens
from attnlab.grammar.phrase_structure import Sentence
from attnlab.grammar.sampling import Sampler
from attnlab.grammar.trees import Token, Word, aligned_positions, finished_words, surface


def _languages() -> dict[str, Callable[[Sentence], list[Token]]]:
    here = import_module(__package__)
    folders = (
        import_module(f"{__package__}.{module.name}")
        for module in iter_modules(here.__path__)
        if module.ispkg
    )
    return {folder.CODE: folder.tokens for folder in folders}


LANGUAGES: Mapping[str, Callable[[Sentence], list[Token]]] = _languages()
Languages: TypeAlias = tuple[str, str]
FEWEST_WORDS = 4
MOST_WORDS = 16
# Pairs between two calls of `progress`.
_PAIRS_A_REPORT = 250


@dataclass(frozen=True, slots=True)
class GrammarPair:
    """A sentence and its translation.

    The trees hold the words in order, the final punctuation mark last. `alignment` holds pairs
    (source word, target word), counted from 1; of English and Italian every word is in at least one:
    the `does` of a negation belongs to the finite verb, a dropped subject pronoun too, and the `'s`
    of `Anna's dog` to both the article and the preposition of `il cane di Anna`.
    """

    source: str
    target: str
    source_tree: tuple[Word, ...]
    target_tree: tuple[Word, ...]
    alignment: tuple[tuple[int, int], ...]


def pair_of(sentence: Sentence, languages: Languages = ("en", "it")) -> GrammarPair:
    """The structure written in both languages."""
    source, target = (LANGUAGES[language](sentence) for language in languages)
    return _paired(source, target)


def _paired(source: list[Token], target: list[Token]) -> GrammarPair:
    source_tree, target_tree = finished_words(source), finished_words(target)
    return GrammarPair(
        surface(source_tree),
        surface(target_tree),
        source_tree,
        target_tree,
        aligned_positions(source, target),
    )


def draw_pairs(
    count: int,
    *,
    seed: int = 0,
    languages: Languages = ("en", "it"),
    progress: Callable[[str, int, int], None] | None = None,
) -> list[GrammarPair]:
    """`count` sentences, distinct in English and there of 4 to 16 words, punctuation not counted.

    The same count and seed give the same sentences, in whichever languages; a longer list begins
    with the shorter one. Since no sentence comes twice, any cut of the list makes disjoint splits.
    Cost: about 0.2 milliseconds per pair. `progress` is called with ("Drawing sentences", drawn, count).

    Raises:
        InputError: if `count` is negative, or there is no such language.
    """
    if count < 0:
        msg = f"cannot draw {count} sentence pairs; ask for 0 or more"
        raise InputError(msg)
    unknown = [language for language in languages if language not in LANGUAGES]
    if unknown:
        msg = f"There is no embedded language '{unknown[0]}'; choose from: {', '.join(LANGUAGES)}."
        raise InputError(msg)
    sampler = Sampler(Random(seed))
    drawn: set[str] = set()
    pairs: list[GrammarPair] = []
    while len(pairs) < count:
        sentence = sampler.sentence()
        english = english_tokens(sentence)
        words = finished_words(english)
        text = surface(words)
        if text not in drawn and _is_usable(words):
            drawn.add(text)
            source, target = (
                english if language == "en" else LANGUAGES[language](sentence)
                for language in languages
            )
            pairs.append(_paired(source, target))
            if progress is not None and (len(pairs) % _PAIRS_A_REPORT == 0 or len(pairs) == count):
                progress("Drawing sentences", len(pairs), count)
    return pairs


def _is_usable(words: tuple[Word, ...]) -> bool:
    """False for sentences too short or long, with a name twice, or with one `you` of each number.

    `your` is translated as of one person (tuo), which would clash with `you all` (voi).
    """
    if not FEWEST_WORDS <= spoken_words(words) <= MOST_WORDS:
        return False
    names = [word.form for word in words if word.part_of_speech == "PROPN"]
    lemmas = {word.lemma for word in words}
    return len(names) == len(set(names)) and not {"all", "your"} <= lemmas


def spoken_words(words: tuple[Word, ...]) -> int:
    """The number of words that are not punctuation."""
    return sum(word.part_of_speech != "PUNCT" for word in words)
