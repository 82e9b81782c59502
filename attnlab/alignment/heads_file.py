"""`heads.json`: the heads of a model that align, how to read them, and what other programs take of it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import Field

from attnlab.alignment.conventions import ENGINE_ROW, FromWord, LinkRule, Row
from attnlab.core import InputError, counted, read_json, write_json
from attnlab.reading import Weighing

_Number: TypeAlias = Annotated[int, Field(ge=0, le=100_000)]
_Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
_Seconds: TypeAlias = Annotated[float, Field(ge=0)]
LayerHead: TypeAlias = tuple[_Number, _Number]


@dataclass(frozen=True, kw_only=True)
class AlignmentHeads:
    """Cross-attention heads whose mean weights say what a target word translates.

    Attributes:
        heads: (layer, head), both from 0.
        row: which row of the weights belongs to a piece, see `word_weights`.
        from_word: over which pieces of a target word, see `word_weights`.
        rule: how weights become links, see `linked`.
        layers: decoder layers of the model.
        heads_per_layer: cross-attention heads of each.
        model: its name.
        checksum: SHA-256 of its weights, in hexadecimal digits.
        chosen_by: gold links, starts of words, or a rule that needs neither.
        sentences: number of sentence pairs that the heads were chosen on.
        aer: of the heads on gold links, 0 to 1; None where there are none.
        aer_low: lower end of its 95 % interval.
        aer_high: upper end.
        scored_on: what gold links, or words of audio, those are.
        start_error: mean absolute error of starts of words, in seconds; None for heads of texts.
        start_error_low: lower end of its 95 % interval.
        start_error_high: upper end.
        weights: what is averaged: `attention` weights, or shares of `contribution`.
    """

    heads: Annotated[tuple[LayerHead, ...], Field(min_length=1)]
    row: Row
    from_word: FromWord
    rule: LinkRule
    layers: _Number
    heads_per_layer: _Number
    model: str
    checksum: str
    chosen_by: str
    sentences: _Number
    aer: _Share | None = None
    aer_low: _Share | None = None
    aer_high: _Share | None = None
    scored_on: str | None = None
    start_error: _Seconds | None = None
    start_error_low: _Seconds | None = None
    start_error_high: _Seconds | None = None
    weights: Weighing = "attention"

    @property
    def numbers(self) -> tuple[int, ...]:
        """The heads numbered layer by layer."""
        return tuple(layer * self.heads_per_layer + head for layer, head in self.heads)

    def check_fits(
        self, layers: int, heads_per_layer: int, checksum: str, what: str = "heads"
    ) -> None:
        """Raises where the heads are those of another model.

        Args:
            layers: decoder layers of the model that is to be used.
            heads_per_layer: its cross-attention heads in each.
            checksum: of its weights.
            what: the heads are, in words.

        Raises:
            InputError: see above.
        """
        expected, actual = (self.layers, self.heads_per_layer), (layers, heads_per_layer)
        if expected != actual:
            ours, theirs = (
                f"{counted(depth, 'decoder layer')} of {counted(width, 'head')}"
                for depth, width in (expected, actual)
            )
            msg = (
                f"The {what} are those of a model of {ours}, and this one has {theirs}; choose heads "
                "for it."
            )
            raise InputError(msg)
        if checksum != self.checksum:
            msg = (
                f"The {what} are those of {self.model}, and the weights of this model are others or of "
                "another type; choose heads for it."
            )
            raise InputError(msg)


def write_heads(path: str | Path, heads: AlignmentHeads) -> None:
    """Writes `heads.json`, atomically."""
    write_json(path, asdict(heads))


def read_heads(path: str | Path) -> AlignmentHeads:
    """The heads of a file that `write_heads` wrote.

    Raises:
        InputError: the file is missing, no JSON, or a field is missing, of another type or out of range.
    """
    fault, advice = "holds no alignment heads", "name a heads.json that attnlab align wrote"
    if not Path(path).exists():
        msg = f"{path} cannot be read, since there is no such file; {advice}."
        raise InputError(msg)
    chosen = read_json(path, AlignmentHeads, fault=fault, advice=advice)
    times = Counter(chosen.heads)
    for layer, head in chosen.heads:
        if layer >= chosen.layers or head >= chosen.heads_per_layer or times[layer, head] > 1:
            msg = (
                f"{path} {fault} (heads has [{layer}, {head}], twice or beyond the {chosen.layers} x "
                f"{chosen.heads_per_layer} heads of its model); {advice}."
            )
            raise InputError(msg)
    return chosen


def whisper_heads(heads: Sequence[tuple[int, int]]) -> dict[str, list[list[int]]]:
    """The field `alignment_heads` of `generation_config.json`, and of CTranslate2's `config.json` of Whisper.

    transformers takes the weights `[layer][:, head]` of each pair and averages them, each normalized over its
    rows (`_extract_token_timestamps` of models/whisper/generation_whisper.py). It leaves out as many rows at
    the start as the prompt has tokens, so it reads a token by its `input` row. CTranslate2 4.8.1 reads the
    list in src/models/whisper.cc, lines 440 to 448, and its converter takes it from `generation_config`.
    """
    return {"alignment_heads": [[layer, head] for layer, head in sorted(heads)]}


@dataclass(frozen=True)
class CTranslate2Heads:
    """What CTranslate2 takes for a translation model, and what that costs.

    Attributes:
        alignment_layer: decoder layer, from 0.
        alignment_heads: number of heads that are averaged, always the first ones of the layer.
        head_order: the heads of the layer in the order into which they must be brought before conversion, so
            that those of the set come first.
    """

    alignment_layer: int
    alignment_heads: int
    head_order: tuple[int, ...]


def ctranslate2_heads(
    heads: Sequence[tuple[int, int]], heads_per_layer: int, row: Row
) -> CTranslate2Heads | None:
    """The fields `alignment_layer` and `alignment_heads` of a translation model.

    None where it cannot be told: of heads of several layers, or that are read on another row than
    `ENGINE_ROW`.

    CTranslate2 4.8.1 averages the first `alignment_heads` heads of one layer, all where that is 0, and unless
    told the first head of the last layer (src/layers/transformer.cc, lines 518 to 528, 565 to 575).
    The fields are variables of the weights, set at conversion (`TransformerDecoderSpec` of
    python/ctranslate2/specs/transformer_spec.py), and no keys of `config.json`; the converter of transformers
    models sets neither. Other heads must be moved to the front of their layer: rows of the query, key and
    value projections of its cross-attention and columns of its output projection, which changes nothing else.
    """
    layers = {layer for layer, _ in heads}
    if row != ENGINE_ROW or len(layers) != 1:
        return None
    first = sorted(head for _, head in heads)
    rest = sorted(set(range(heads_per_layer)) - set(first))
    return CTranslate2Heads(layers.pop(), len(first), (*first, *rest))


# Of Marian's configuration, a layer counted from 1.
MARIAN_LAYER = "transformer-guided-alignment-layer"


def marian_layer(heads: Sequence[tuple[int, int]], row: Row) -> int | None:
    """What `MARIAN_LAYER` of the configuration of a translation model is to be.

    Marian returns the weights of head 0 of that layer for `--alignment` (`collectOneHead` in
    src/models/transformer.h of marian-nmt/marian-dev). None where the heads
    are others, or read on another row than `ENGINE_ROW`.
    """
    if row != ENGINE_ROW or len(heads) != 1 or heads[0][1] != 0:
        return None
    return heads[0][0] + 1
