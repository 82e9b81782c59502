"""What an encoder makes of one or two texts: tokens, shapes, contextual vectors, heads."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import comb
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from attnlab.core import SAME_WORDS, InputError, Note, eval_mode, options_of
from attnlab.models import RECURRENT, Model, Run, Source, model_of
from attnlab.questions.inspect.question import (
    MOVES,
    QUESTION,
    InspectionSettings,
    NoCommonWord,
    UnknownWords,
)
from attnlab.reading import HeadStatistics, Text, lowered, prepare, source_of, tokens_of
from attnlab.results import Result

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


def words_of(tokenizer: Any, given: Text) -> tuple[Word, ...]:
    """The words of a text between white space and punctuation marks, with the tokens that they are cut into.

    Without a fast tokenizer, which alone knows where tokens stand, each token is a word.
    """
    seconds = None if isinstance(given, str) else [given[1]]
    tokens = tokens_of(tokenizer, [source_of(given)], seconds=seconds)[0]
    text = _joined(given)
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


def _joined(text: Text) -> str:
    return text if isinstance(text, str) else " ".join(text)


def check_pair_count(words: Sequence[Sequence[Word]]) -> None:
    """Raises InputError where `moves` would compare words in more contexts than `SAME_WORDS` allows."""
    first, other = (Counter(word.form for word in text) for text in (words[0], words[-1]))
    if len(words) == 1:
        pairs = sum(comb(count, 2) for count in first.values())
    else:
        pairs = sum(count * other[form] for form, count in first.items())
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
    forms = pd.factorize(np.array([word.form for text in words for word in text], dtype=object))[0]
    unit = F.normalize(torch.cat(list(vectors), dim=1).double(), dim=-1)
    different = torch.from_numpy(forms[:, None] != forms)
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
    first, other = words[0], words[-1]
    rows = []
    for i, j in pairs:
        if first[i].form != other[j].form:
            continue
        cosines = F.cosine_similarity(vectors[0][:, i].double(), vectors[-1][:, j].double(), dim=-1)
        for layer, (cosine, common) in enumerate(
            zip(cosines.tolist(), anisotropy.tolist(), strict=True)
        ):
            positions = (first[i].tokens[0], other[j].tokens[0])
            rows.append((first[i].form, *positions, layer, cosine, common, cosine - common))
    return pd.DataFrame(rows, columns=list(MOVES))


@options_of(InspectionSettings)
def inspect(source: Source, settings: InspectionSettings) -> Result:
    """What the model at `source` makes of one or two texts, each read by itself; a text can be a pair.

    A word that stands in both texts, or twice in the only one, has a vector in each context: the mean
    over its tokens. How far it moves is the cosine between them, layer by layer. Beside it stands the
    anisotropy of the layer, the mean cosine between different words (Ethayarajh 2019, section 3). Of an
    encoder-decoder the encoder is read.

    Args:
        source: a run or its folder, a transformers folder, the name of a model on the hub, or a pair (model,
            tokenizer). A loaded run or a pair is used on the device where it is.
        settings: as keyword arguments.

    Returns:
        The tables `tokens` (a row per token of each text), `shapes`, `moves` (a row per word in two contexts
        and layer; empty where no word stands twice) and `heads` (means over both texts), and the array
        `vectors`, [text, layer, token, dim], NaN where a text is padded.

    Raises:
        InputError: no such model, it has no tokenizer or none with a form for pairs, a text is empty, too
            long for it or repeats words too often, or the device cannot be used.
    """
    loaded = _model(source)
    model, tokenizer = loaded.model, loaded.both_tokenizers.source
    loaded.move_to_named(settings.device, source)
    read = [lowered(text) if loaded.lowercase else text for text in settings.texts]
    if model.config.is_encoder_decoder and not isinstance(read[0], str):
        msg = f"{loaded.label} has an encoder that reads one text at a time; give single sentences."
        raise InputError(msg)
    words = tuple(words_of(tokenizer, text) for text in read)
    check_pair_count(words)
    reading = prepare(loaded, read, whole=False)
    if reading.sentences.dropped:
        reasons = ", ".join(note.reason for note in reading.sentences.dropped)
        msg = f"A text cannot be read by this model: {reasons}; give a shorter one."
        raise InputError(msg)
    statistics = HeadStatistics(distances=True)
    reading.feed([statistics])
    encoded, states = _states(model, tokenizer, read, reading.sentences.source.padding)
    vectors = torch.stack(states, dim=1).float().cpu()
    masks = encoded["attention_mask"].bool()
    by_word = [
        word_vectors(layers[:, mask], text_words)
        for layers, mask, text_words in zip(vectors, masks, words, strict=True)
    ]
    moved = moves(words, by_word, anisotropies(words, by_word))
    heads = statistics.heads()
    return Result(
        QUESTION.name,
        f"Texts in {loaded.label}",
        {
            "tokens": _tokens(tokenizer, encoded, words, reading.sentences.source.special),
            "shapes": _shapes(encoded, states, heads),
            "moves": moved,
            "heads": heads,
        },
        {
            **loaded.facts,
            **{f"Text {number}": _joined(text) for number, text in enumerate(read)},
        },
        tuple(_notes(words, set(moved["word"]))),
        {"words": [[word.form for word in text] for text in words]},
        arrays={"vectors": vectors.masked_fill(~masks[:, None, :, None], torch.nan)},
        weights=loaded.weights,
    )


def _notes(words: Sequence[Sequence[Word]], moved: Collection[str]) -> Iterator[Note]:
    unknown = tuple(dict.fromkeys(word.form for text in words for word in text if word.unknown))
    if unknown:
        yield UnknownWords(unknown, not set(moved).isdisjoint(unknown))
    if len(words) == 2 and not moved:
        yield NoCommonWord()


def _model(source: Source) -> Model:
    loaded = model_of(source, scores=False)
    if isinstance(loaded, Run) and loaded.settings.model.kind == RECURRENT:
        msg = (
            f"The encoder of {loaded.folder} is recurrent and has no attention heads; inspect a "
            "transformer."
        )
        raise InputError(msg)
    return loaded


def _states(
    model: Any, tokenizer: Any, texts: Sequence[Text], padding: int
) -> tuple[dict[str, Tensor], tuple[Tensor, ...]]:
    """The texts as a padded batch, and the states between layers."""
    pad_token = tokenizer.pad_token
    if pad_token is None:
        # Behind a text, where no real token looks: any token will do, since the mask says so.
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.convert_ids_to_tokens(0)
    # Tokenizers of generating models may pad in front, which would move positions.
    seconds = [text[1] for text in texts if isinstance(text, tuple)]
    encoded = tokenizer(
        list(map(source_of, texts)),
        seconds or None,
        padding=True,
        padding_side="right",
        return_tensors="pt",
    )
    tokenizer.pad_token = pad_token
    stack = model.get_encoder() if model.config.is_encoder_decoder else model.base_model
    with eval_mode(stack), torch.inference_mode():
        given = {name: value.to(model.device) for name, value in encoded.items()}
        # The tokenizer's may be beyond the embedding.
        given["input_ids"].masked_fill_(given["attention_mask"] == 0, padding)
        outputs = stack(**given, output_hidden_states=True, return_dict=True)
    return dict(encoded), outputs.hidden_states


def _tokens(
    tokenizer: Any,
    encoded: dict[str, Tensor],
    words: Sequence[Sequence[Word]],
    special: Collection[int],
) -> pd.DataFrame:
    """One row per token; `special` are the ids that count as such in statistics of heads too."""
    rows = []
    types = encoded.get("token_type_ids")
    for text, ids in enumerate(encoded["input_ids"].tolist()):
        word_at = {at: number for number, word in enumerate(words[text]) for at in word.tokens}
        for position, token in enumerate(tokenizer.convert_ids_to_tokens(ids)):
            mask = int(encoded["attention_mask"][text, position])
            rows.append(
                {
                    "text": text,
                    "position": position,
                    "token": token,
                    "id": ids[position],
                    "special": ids[position] in special or not mask,
                    "mask": mask,
                    "token_type": None if types is None else int(types[text, position]),
                    "word_index": word_at.get(position),
                }
            )
    table = pd.DataFrame(rows)
    return table.astype({"token_type": "Int64", "word_index": "Int64"})


def _shapes(
    encoded: dict[str, Tensor], states: Sequence[Tensor], heads: pd.DataFrame
) -> pd.DataFrame:
    texts, tokens = encoded["input_ids"].shape
    rows = [(name, tuple(tensor.shape), "text, token") for name, tensor in encoded.items()]
    rows.append(("states of each layer", tuple(states[0].shape), "text, token, dim"))
    rows.append(("all states", (len(states), *states[0].shape), "layer, text, token, dim"))
    for (site, layer), group in heads.groupby(["site", "layer"], sort=False):
        name = f"attention weights of {site}.{layer}"
        rows.append((name, (texts, len(group), tokens, tokens), "text, head, query, key"))
    table = pd.DataFrame(rows, columns=["tensor", "shape", "axes"])
    return table.assign(shape=[" x ".join(map(str, shape)) for shape in table["shape"]])
