"""What an encoder makes of one or two texts: tokens, shapes, contextual vectors, heads."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from attnlab.devices import usable_device
from attnlab.errors import InputError
from attnlab.extraction.reading import prepare
from attnlab.extraction.statistics import HeadStatistics
from attnlab.notes import Note
from attnlab.representations import OneLine
from attnlab.studies.inspection.notes import UnknownWords
from attnlab.studies.inspection.words import (
    Word,
    anisotropies,
    moves,
    refuse_many_pairs,
    word_vectors,
    words_of,
)
from attnlab.studies.sources import load_transformers
from attnlab.translation.model_settings import RECURRENT
from attnlab.translation.runs.run import Source, run_at


@dataclass(frozen=True, repr=False)
class Inspection(OneLine):
    """One or two texts in a model.

    Attributes:
        tokens: one row per token of each text.
        shapes: one row per tensor.
        moves: one row per word in two contexts and layer; empty where no word stands twice.
        heads: one row per head, columns as in `attnlab.extraction.columns`; means over both texts.
        vectors: by text the contextual vectors of its tokens, of every layer; 0 is the embedding.
        words: by text, its words.
        notes: what a reader must know, see `attnlab.reporting.notes`.
    """

    tokens: pd.DataFrame
    shapes: pd.DataFrame
    moves: pd.DataFrame
    heads: pd.DataFrame
    vectors: tuple[Float[Tensor, "layer token dim"], ...] = field(repr=False)
    words: tuple[tuple[Word, ...], ...] = field(repr=False)
    notes: tuple[Note, ...] = ()


def inspect(source: Source, *texts: str, device: str | None = None) -> Inspection:
    """What the model at `source` makes of one or two texts, each read by itself.

    A word that stands in both texts, or twice in the only one, has a vector in each context: the mean
    over its tokens. How far it moves is the cosine between them, layer by layer. Beside it stands the
    anisotropy of the layer, the mean cosine between different words (Ethayarajh 2019, section 3). Of an
    encoder-decoder the encoder is read.

    Args:
        source: a run or its folder, a transformers folder, the name of a model on the hub, or a pair (model,
            tokenizer).
        texts: one or two sentences.
        device: on which the model runs, such as cpu or cuda; None: a GPU if there is one. A loaded
            run or a pair is used where it is.

    Raises:
        InputError: no such model, it has no tokenizer, a text is empty, too long for it or repeats words
            too often, or the device cannot be used.
    """
    _refuse_unusable(texts)
    model, tokenizer, lowercase = _model(source)
    if isinstance(source, str | Path):
        model.to(usable_device(device))
    read = [text.lower() for text in texts] if lowercase else list(texts)
    words = tuple(words_of(tokenizer, text) for text in read)
    refuse_many_pairs(words)
    reading = prepare(model, tokenizer, read, None)
    if reading.encoding.dropped:
        reasons = ", ".join(one.reason for one in reading.encoding.dropped)
        msg = f"A text cannot be read by this model: {reasons}; give a shorter one."
        raise InputError(msg)
    statistics = HeadStatistics()
    reading.feed([statistics])
    encoded, states = _states(model, tokenizer, read)
    masks = [mask.bool() for mask in encoded["attention_mask"]]
    vectors = tuple(
        torch.stack([state[text][mask] for state in states]).float().cpu()
        for text, mask in enumerate(masks)
    )
    by_word = [word_vectors(own, found) for own, found in zip(vectors, words, strict=True)]
    moved = moves(words, by_word, anisotropies(words, by_word))
    return Inspection(
        tokens=_tokens(tokenizer, encoded, words, reading.encoding.source.special),
        shapes=_shapes(encoded, states, statistics.heads()),
        moves=moved,
        heads=statistics.heads(),
        vectors=vectors,
        words=words,
        notes=_notes(words, set(moved["word"])),
    )


def _notes(words: Sequence[Sequence[Word]], moved: Collection[str]) -> tuple[Note, ...]:
    unknown = tuple(dict.fromkeys(one.form for own in words for one in own if one.unknown))
    return (UnknownWords(unknown, not set(moved).isdisjoint(unknown)),) if unknown else ()


def _refuse_unusable(texts: Sequence[str]) -> None:
    if len(texts) not in (1, 2):
        msg = f"Give one text or two, not {len(texts)}."
        raise InputError(msg)
    for number, text in enumerate(texts, start=1):
        if not text.strip():
            msg = f"Text {number} is empty; give a sentence."
            raise InputError(msg)


def _model(source: Source) -> tuple[Any, Any, bool]:
    """The model, the tokenizer of what it reads, and whether that is in lower case."""
    if isinstance(source, tuple):
        return *source, False
    run = run_at(source)
    if run is None:
        return *load_transformers(cast("str | Path", source), scores=False), False
    if run.settings.model.kind == RECURRENT:
        msg = f"The encoder of {run.folder} is recurrent and has no attention heads; inspect a transformer."
        raise InputError(msg)
    return run.model, run.tokenizers.source, run.settings.corpus.lowercase


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
