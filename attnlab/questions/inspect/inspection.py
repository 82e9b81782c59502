"""What an encoder makes of one or two texts: tokens, shapes, contextual vectors, heads."""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from attnlab.core import InputError, Note, options_of, usable_device
from attnlab.evaluation import versions_in_words
from attnlab.models import RECURRENT, Model, Run, Source, model_of
from attnlab.questions.inspect.explanations import (
    Word,
    anisotropies,
    check_pair_count,
    moves,
    word_vectors,
    words_of,
)
from attnlab.questions.inspect.question import (
    QUESTION,
    InspectionSettings,
    NoCommonWord,
    UnknownWords,
)
from attnlab.reading import HeadStatistics, prepare
from attnlab.results import Result


@options_of(InspectionSettings)
def inspect(source: Source, settings: InspectionSettings) -> Result:
    """What the model at `source` makes of one or two texts, each read by itself.

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
        InputError: no such model, it has no tokenizer, a text is empty, too long for it or repeats words
            too often, or the device cannot be used.
    """
    loaded = _model(source)
    model, tokenizer = loaded.model, loaded.both_tokenizers.source
    if isinstance(source, str | Path):
        model.to(usable_device(settings.device))
    read = [text.lower() if loaded.lowercase else text for text in settings.texts]
    words = tuple(words_of(tokenizer, text) for text in read)
    check_pair_count(words)
    reading = prepare(loaded, read, whole=False)
    if reading.sentences.dropped:
        reasons = ", ".join(one.reason for one in reading.sentences.dropped)
        msg = f"A text cannot be read by this model: {reasons}; give a shorter one."
        raise InputError(msg)
    statistics = HeadStatistics()
    reading.feed([statistics])
    encoded, states = _states(model, tokenizer, read)
    vectors = torch.stack(states, dim=1).float().cpu()
    masks = encoded["attention_mask"].bool()
    by_word = [
        word_vectors(own[:, mask], found)
        for own, mask, found in zip(vectors, masks, words, strict=True)
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
            **{f"Text {number}": text for number, text in enumerate(read)},
            **versions_in_words(),
        },
        tuple(_notes(words, set(moved["word"]))),
        {"words": [[word.form for word in own] for own in words]},
        arrays={"vectors": vectors.masked_fill(~masks[:, None, :, None], torch.nan)},
        weights=loaded.weights,
    )


def _notes(words: Sequence[Sequence[Word]], moved: Collection[str]) -> Iterator[Note]:
    unknown = tuple(dict.fromkeys(one.form for own in words for one in own if one.unknown))
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
    model: Any, tokenizer: Any, texts: Sequence[str]
) -> tuple[dict[str, Tensor], tuple[Tensor, ...]]:
    """The texts as a padded batch, and the states between layers."""
    own = tokenizer.pad_token
    if own is None:
        # Behind a text, where no real token looks: any token will do, since the mask says so.
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.convert_ids_to_tokens(0)
    # Tokenizers of generating models may pad in front, which would move positions.
    encoded = tokenizer(list(texts), padding=True, padding_side="right", return_tensors="pt")
    tokenizer.pad_token = own
    stack = model.get_encoder() if model.config.is_encoder_decoder else model.base_model
    training = stack.training
    stack.eval()
    with torch.inference_mode():
        given = {name: value.to(model.device) for name, value in encoded.items()}
        outputs = stack(**given, output_hidden_states=True, return_dict=True)
    stack.train(training)
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
                    "word": word_at.get(position),
                }
            )
    table = pd.DataFrame(rows)
    return table.astype({"token_type": "Int64", "word": "Int64"})


def _shapes(
    encoded: dict[str, Tensor], states: Sequence[Tensor], heads: pd.DataFrame
) -> pd.DataFrame:
    texts, tokens = encoded["input_ids"].shape
    rows = [(name, tuple(one.shape), "text, token") for name, one in encoded.items()]
    rows.append(("states of each layer", tuple(states[0].shape), "text, token, dim"))
    rows.append(("all states", (len(states), *states[0].shape), "layer, text, token, dim"))
    for (site, layer), own in heads.groupby(["site", "layer"], sort=False):
        name = f"attention weights of {site}.{layer}"
        rows.append((name, (texts, len(own), tokens, tokens), "text, head, query, key"))
    table = pd.DataFrame(rows, columns=["tensor", "shape", "axes"])
    return table.assign(shape=[" x ".join(map(str, shape)) for shape in table["shape"]])
