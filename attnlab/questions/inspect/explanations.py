"""Words in context: which tokens they are, their vectors, and how far they move between contexts."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import comb
from typing import Any

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from attnlab.core import SAME_WORDS
from attnlab.questions.inspect.question import MOVES
from attnlab.reading import tokens_of

# The vectors of each word of a text, in every layer.
WordVectors = Float[Tensor, "layer word dim"]


@dataclass(frozen=True)
class Word:
    """A word of a text.

    Attributes:
        form: in lower case.
        tokens: the positions of its tokens.
        unknown: whether one of them stands for what the vocabulary lacks.
    """

    form: str
    tokens: tuple[int, ...]
    unknown: bool = False


def words_of(tokenizer: Any, text: str) -> tuple[Word, ...]:
    """The words of a text between white space and punctuation marks, with the tokens that they are cut into.

    Without a fast tokenizer, which alone knows where tokens stand, each token is a word.
    """
    tokens = tokens_of(tokenizer, [text])[0]
    forms = tokenizer.convert_ids_to_tokens(list(tokens.ids))
    lacking = [number == tokenizer.unk_token_id for number in tokens.ids]
    words: list[Word] = []
    end = -1
    # Marks of a space that are tokens of their own belong to the word behind them.
    marks: tuple[int, ...] = ()
    for position, special in enumerate(tokens.special):
        if special:
            continue
        if tokens.spans is None:
            words.append(Word(forms[position].lower(), (position,), lacking[position]))
            continue
        start, stop = tokens.spans[position]
        piece = text[start:stop]
        bare = piece.strip()
        if not bare:
            marks = (*marks, position)
            continue
        goes_on = start == end and piece == bare and bare.isalnum() and words[-1].form[-1].isalnum()
        if goes_on:
            last = words.pop()
            unknown = last.unknown or lacking[position]
            words.append(Word(last.form + bare.lower(), (*last.tokens, position), unknown))
        else:
            words.append(Word(bare.lower(), (*marks, position), lacking[position]))
        end, marks = stop, ()
    return tuple(words)


def check_pair_count(words: Sequence[Sequence[Word]]) -> None:
    """Raises InputError where `moves` would compare words in more contexts than `SAME_WORDS` allows."""
    one, other = (Counter(word.form for word in own) for own in (words[0], words[-1]))
    if len(words) == 1:
        pairs = sum(comb(count, 2) for count in one.values())
    else:
        pairs = sum(count * other[form] for form, count in one.items())
    SAME_WORDS.refuse(pairs, "What is to be inspected")


def word_vectors(vectors: Float[Tensor, "layer token dim"], words: Sequence[Word]) -> WordVectors:
    """The mean over the tokens of each word."""
    if not words:
        return vectors[:, :0]
    return torch.stack([vectors[:, list(word.tokens)].mean(1) for word in words], dim=1)


def anisotropies(
    words: Sequence[Sequence[Word]], vectors: Sequence[WordVectors]
) -> Float[Tensor, " layer"]:
    """Mean cosine between the vectors of different words, over all texts, by layer; NaN of fewer than two.

    Source: Ethayarajh 2019, section 3, which takes a sample of all words.
    """
    forms = [word.form for own in words for word in own]
    unit = F.normalize(torch.cat(list(vectors), dim=1).double(), dim=-1)
    different = torch.tensor([[one != other for other in forms] for one in forms])
    if not bool(different.any()):
        return unit.new_full((len(unit),), torch.nan)
    return (unit @ unit.mT)[:, different].mean(1)


def moves(
    words: Sequence[Sequence[Word]], vectors: Sequence[WordVectors], anisotropy: Tensor
) -> pd.DataFrame:
    """Cosine of every word's vectors in two contexts, one row per pair of contexts and layer.

    The contexts are the two texts, or two positions in the only one.
    """
    if len(words) == 1:
        pairs = list(combinations(range(len(words[0])), 2))
    else:
        pairs = list(product(range(len(words[0])), range(len(words[1]))))
    one, other = words[0], words[-1]
    rows = []
    for i, j in pairs:
        if one[i].form != other[j].form:
            continue
        cosines = F.cosine_similarity(vectors[0][:, i].double(), vectors[-1][:, j].double(), dim=-1)
        for layer, (cosine, common) in enumerate(
            zip(cosines.tolist(), anisotropy.tolist(), strict=True)
        ):
            positions = (one[i].tokens[0], other[j].tokens[0])
            rows.append((one[i].form, *positions, layer, cosine, common, cosine - common))
    return pd.DataFrame(rows, columns=list(MOVES))
