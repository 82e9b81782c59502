"""Whole matrices of a few sentences, within a limit of bytes, and their file."""

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TypeVar

import torch
from jaxtyping import Float
from safetensors import SafetensorError, safe_open
from torch import Tensor

from attnlab.core import (
    SITES,
    UNKNOWN_SITE,
    InputError,
    ShortRepr,
    Site,
    address_of,
    briefly,
    fitting,
    heads_listed,
    layer_name,
    opened_tensors,
    parse_json,
    reason,
    site_order,
    write_tensors,
)
from attnlab.reading.vocabulary import Axis
from attnlab.reading.weights import LayerWeights, Naming, PerLayer, Rows

Key = tuple[int, Site, int]
MATRICES_FORMAT = "attnlab matrices 1"
# One letter a token: word, punctuation, and special tokens: at the start, at the end, any other.
LETTERS = {"w": "content", "p": "punctuation", "o": "opening", "c": "closing", "s": "special"}
_ALL_SITES = (*SITES, UNKNOWN_SITE)
_NAME = re.compile(rf"([0-9]{{1,9}})\.({'|'.join(_ALL_SITES)})\.([0-9]{{1,9}})")
_WEIGHT_TYPES = {torch.float16, torch.bfloat16, torch.float32, torch.float64}
Sides = TypeVar("Sides")


@dataclass(frozen=True, repr=False)
class KeptMatrices(ShortRepr):
    """Matrices `[head, query, key]` by (sentence, site, layer), with the tokens of both sides.

    Attributes:
        matrices: padding cut off.
        tokens: (query tokens, key tokens) by (sentence, site).
        left_out: sentences that were wanted but would have gone over the limit of bytes.
        kinds: what the tokens of both sides are, a letter of `LETTERS` each.
        all_queries: number of query tokens by (sentence, site) of which only the first are kept.
        chosen: the sentences that were asked for by their words, which are shown first.
        rows: positions of the queries by (sentence, site), where some were selected.
        heads: numbers of the heads, where some were selected.
    """

    matrices: Mapping[Key, Float[Tensor, "head query key"]] = field(default_factory=dict)
    tokens: Mapping[tuple[int, Site], tuple[list[str], list[str]]] = field(default_factory=dict)
    left_out: frozenset[int] = frozenset()
    kinds: Mapping[tuple[int, Site], tuple[str, str]] = field(default_factory=dict)
    all_queries: Mapping[tuple[int, Site], int] = field(default_factory=dict)
    chosen: tuple[int, ...] = ()
    rows: Mapping[tuple[int, Site], tuple[int, ...]] = field(default_factory=dict)
    heads: tuple[int, ...] | None = None

    def __add__(self, other: "KeptMatrices") -> "KeptMatrices":
        return KeptMatrices(
            _ordered({**self.matrices, **other.matrices}),
            {**self.tokens, **other.tokens},
            self.left_out | other.left_out,
            {**self.kinds, **other.kinds},
            {**self.all_queries, **other.all_queries},
            tuple(dict.fromkeys((*self.chosen, *other.chosen))),
            {**self.rows, **other.rows},
            self.heads,
        )

    def at(self, number: int) -> "KeptMatrices":
        """The matrices of its only sentence under another number, as one that was chosen."""
        return replace(
            self,
            matrices={(number, *at[1:]): matrix for at, matrix in self.matrices.items()},
            tokens={(number, site): sides for (_, site), sides in self.tokens.items()},
            kinds={(number, site): sides for (_, site), sides in self.kinds.items()},
            all_queries={(number, site): count for (_, site), count in self.all_queries.items()},
            chosen=(number,),
        )

    @property
    def names(self) -> list[str]:
        """Addresses of the heads, each once."""
        numbers = {at[1:]: self.heads or range(len(matrix)) for at, matrix in self.matrices.items()}
        return [f"{layer_name(*at)}.{head}" for at, heads in numbers.items() for head in heads]

    def of_head(self, name: str) -> dict[int, Float[Tensor, "query key"]]:
        """The matrices of a head, such as `decoder.3.1`, by sentence.

        Where one site has it, the site can be left out: `3.1`.

        Raises:
            InputError: no matrices of it were kept, or of several sites.
        """
        names = self.names
        address = address_of(name, names)
        if address not in names:
            advice = f"there are {heads_listed(names)}" if names else "set keep_matrices higher"
            msg = f"No matrices of {briefly(address)} were kept; {advice}."
            raise InputError(msg)
        layer, _, head = address.rpartition(".")
        by_sentence = {}
        for (number, site, at), matrix in self.matrices.items():
            heads = [str(index) for index in self.heads or range(len(matrix))]
            if layer_name(site, at) == layer and head in heads:
                by_sentence[number] = matrix[heads.index(head)]
        return by_sentence

    @property
    def sentences(self) -> tuple[int, ...]:
        """Numbers of the sentences, the chosen ones first."""
        return _chosen_first({number for number, _ in self.tokens}, self.chosen)

    def write(self, path: str | Path) -> None:
        """Writes tensors named `sentence.site.layer`, tokens as JSON in the file's metadata."""
        path = Path(path)
        tokens = {f"{number}.{site}": sides for (number, site), sides in self.tokens.items()}
        write_tensors(
            path,
            {
                f"{n}.{layer_name(site, layer)}": matrix
                for (n, site, layer), matrix in self.matrices.items()
            },
            {
                "tokens": json.dumps(tokens, ensure_ascii=False),
                "kinds": json.dumps(
                    {f"{n}.{site}": sides for (n, site), sides in self.kinds.items()}
                ),
                "all_queries": json.dumps(
                    {f"{n}.{site}": count for (n, site), count in self.all_queries.items()}
                ),
                "chosen": json.dumps(self.chosen),
                "rows": json.dumps({f"{n}.{site}": rows for (n, site), rows in self.rows.items()}),
                "heads": json.dumps(self.heads),
                "format": MATRICES_FORMAT,
            },
        )


def _chosen_first(sentences: Iterable[int], chosen: Sequence[int]) -> tuple[int, ...]:
    """Numbers in order, but those of `chosen` before the others and in their own order."""
    present = set(sentences)
    return (*(number for number in chosen if number in present), *sorted(present - set(chosen)))


def _ordered(matrices: Mapping[Key, Tensor]) -> dict[Key, Tensor]:
    """Matrices sorted by sentence, site and layer, sites in the order that data flows."""
    return dict(sorted(matrices.items(), key=lambda m: (m[0][0], site_order(m[0][1]), m[0][2])))


def kept_weights(weights: Sequence[Tensor], tokens: object) -> KeptMatrices:
    """The weights of one text that a model returned, a tensor a layer, with its tokens.

    Args:
        weights: `[1 head query key]` or `[head query key]` each.
        tokens: as the tokenizer writes them, or those of queries and of keys.

    Raises:
        InputError: they are of several texts, of other tokens, or no weights.
    """
    sides = tokens if isinstance(tokens, tuple) else (tokens, tokens)
    if len(sides) != 2 or not all(isinstance(side, list) and side for side in sides):
        msg = (
            "Attention weights are shown with their tokens, a list: attnlab.show(output.attentions, "
            "tokenizer.convert_ids_to_tokens(ids[0]))."
        )
        raise InputError(msg)
    matrices: dict[Key, Tensor] = {}
    queries, keys = ([str(token) for token in side] for side in sides)
    at: dict[tuple[int, Site], tuple[list[str], list[str]]] = {(0, UNKNOWN_SITE): (queries, keys)}
    for layer, given in enumerate(weights):
        if given.ndim == 4 and len(given) != 1:
            msg = f"The weights are of {len(given)} texts; give those of one, [one[:1] for one in weights]."
            raise InputError(msg)
        matrix = given.detach().cpu().float()
        matrices[0, UNKNOWN_SITE, layer] = matrix[0] if given.ndim == 4 else matrix
        _check((0, UNKNOWN_SITE, layer), matrices[0, UNKNOWN_SITE, layer], at, {})
    return KeptMatrices(matrices, at)


def holds_kept_matrices(path: str | Path) -> bool:
    """Whether `path` is a file that `KeptMatrices.write` wrote; False for one that cannot be read."""
    path = Path(path)
    if path.suffix != ".safetensors" or not path.is_file():
        return False
    try:
        with safe_open(str(path), "pt") as file:
            return (file.metadata() or {}).get("format") == MATRICES_FORMAT
    except (SafetensorError, OSError):
        return False


def load_kept_matrices(path: str | Path) -> KeptMatrices:
    """The matrices that `KeptMatrices.write` wrote.

    Raises:
        InputError: the file is not one of attnlab's, or what it holds does not fit together.
    """
    path = Path(path)
    if not holds_kept_matrices(path):
        msg = f"{path} holds no matrices written by attnlab."
        raise InputError(msg)
    matrices: dict[Key, Tensor] = {}
    with opened_tensors(path, copies=3) as file:
        metadata = file.metadata() or {}
        try:
            for name in file.keys():  # noqa: SIM118 - a safetensors handle is no dictionary
                matrices[_key(name)] = file.get_tensor(name)
            tokens = _sentence_entry("tokens", metadata, tuple[list[str], list[str]])
            kinds = _sentence_entry("kinds", {"kinds": "{}", **metadata}, tuple[str, str])
            all_queries = _sentence_entry("all_queries", {"all_queries": "{}", **metadata}, int)
            chosen = fitting(tuple[int, ...], parse_json(metadata.get("chosen", "[]")))
            rows = _sentence_entry("rows", {"rows": "{}", **metadata}, tuple[int, ...])
            heads = parse_json(metadata.get("heads", "null"))
            heads = None if heads is None else fitting(tuple[int, ...], heads)
            for key, matrix in matrices.items():
                _check(key, matrix, tokens, kinds)
            _check_heads(matrices)
        except (InputError, SafetensorError) as error:
            msg = (
                f"{path} cannot be read as the matrices of an analysis ({reason(error)}); analyze the "
                "model again, or name one of its arrays (option array)."
            )
            raise InputError(msg) from error
    return KeptMatrices(
        _ordered(matrices), tokens, frozenset(), kinds, all_queries, chosen, rows, heads
    )


def _key(name: str) -> Key:
    match = _NAME.fullmatch(name)
    if match is None:
        msg = f"its array '{name}' has no name such as 0.encoder.1"
        raise InputError(msg)
    return int(match[1]), next(site for site in _ALL_SITES if site == match[2]), int(match[3])


def _sentence_entry(
    name: str, metadata: Mapping[str, str], schema: Callable[..., Sides]
) -> dict[tuple[int, Site], Sides]:
    """An entry of the metadata, which holds a value for each sentence and site."""
    if name not in metadata:
        msg = f"it has matrices without {name}"
        raise InputError(msg)
    try:
        written = fitting(dict[str, schema], parse_json(metadata[name]))  # type: ignore[valid-type]
    except InputError as error:
        msg = f"{name}: {reason(error)}"
        raise InputError(msg) from error
    return {_key(f"{address}.0")[:2]: sides for address, sides in written.items()}


def _check(
    key: Key,
    matrix: Tensor,
    tokens: Mapping[tuple[int, Site], tuple[list[str], list[str]]],
    kinds: Mapping[tuple[int, Site], tuple[str, str]],
) -> None:
    """Raises InputError where a matrix has other sides than its tokens, or no real numbers."""
    number, site, layer = key
    name = f"{number}.{layer_name(site, layer)}"
    if (number, site) not in tokens:
        msg = f"{name} has no tokens"
        raise InputError(msg)
    expected = (*map(len, tokens[number, site]),)
    if matrix.ndim != 3 or 0 in matrix.shape or matrix.shape[1:] != expected:
        msg = f"{name} is {tuple(matrix.shape)}, not heads times {expected[0]} times {expected[1]} tokens"
        raise InputError(msg)
    marked = kinds.get((number, site), tuple("w" * length for length in expected))
    if expected != (*map(len, marked),) or not set("".join(marked)) <= set(LETTERS):
        msg = f"the kinds of {number}.{site} are not one of {', '.join(LETTERS)} for each token"
        raise InputError(msg)
    if matrix.dtype not in _WEIGHT_TYPES or not bool(
        (torch.isfinite(matrix) & (matrix >= 0)).all()
    ):
        msg = f"{name} holds what is no attention weight: they are finite, 0 or more, of 16 to 64 bits"
        raise InputError(msg)


def _check_heads(matrices: Mapping[Key, Tensor]) -> None:
    """Raises InputError where a layer has other heads in one sentence than in another."""
    heads: dict[tuple[Site, int], int] = {}
    for (number, site, layer), matrix in matrices.items():
        head_count = heads.setdefault((site, layer), len(matrix))
        if len(matrix) != head_count:
            msg = f"{number}.{layer_name(site, layer)} has {len(matrix)} heads, not {head_count}"
            raise InputError(msg)


@dataclass(frozen=True)
class KeptLayer:
    """Matrices of one layer and sentence, with tokens and letters of `LETTERS` of both sides.

    Attributes:
        blocks: rows of the matrices, those of the first queries alone where all would go over the limit of
            bytes. To the first rows others of the same sentence add up, of which nothing else is named.
        tokens: of all rows, and of the keys.
        kinds: likewise.
        rows: positions of the queries where some were selected.
    """

    blocks: tuple[Float[Tensor, "head _ key"], ...]
    tokens: tuple[list[str], list[str]] = ([], [])
    kinds: tuple[str, str] = ("", "")
    rows: tuple[int, ...] | None = None

    def __add__(self, other: "KeptLayer") -> "KeptLayer":
        return replace(self, blocks=self.blocks + other.blocks)

    def joined(self) -> "KeptLayer":
        """The layer with its blocks joined to one."""
        return self if len(self.blocks) == 1 else replace(self, blocks=(self.matrices,))

    @property
    def matrices(self) -> Float[Tensor, "head query key"]:
        """All rows that are held."""
        return self.blocks[0] if len(self.blocks) == 1 else torch.cat(self.blocks, 1)

    @property
    def entries(self) -> int:
        """Number of weights of all queries."""
        return len(self.tokens[0]) * self.entries_per_query

    @property
    def entries_per_query(self) -> int:
        """Number of weights of one query."""
        return len(self.blocks[0]) * len(self.tokens[1])


class MatrixKeeper(PerLayer[Key, KeptLayer]):
    """Keeps the matrices of `chosen` and the first other sentences, `sentences` or more in all.

    Those that would go over the limit are dropped whole, others before chosen ones.

    Where none would be left, the smallest is kept in half precision, and of its queries the first
    that fit: rows that are kept are rows of the model, whatever is left out.
    """

    by_rows = True

    def __init__(
        self,
        sentences: int,
        most_bytes: int,
        dtype: torch.dtype = torch.float32,
        *,
        chosen: Sequence[int] = (),
        heads: tuple[int, ...] | None = None,
    ) -> None:
        super().__init__()
        self.heads = heads
        if dtype not in {torch.float16, torch.float32}:
            msg = f"Matrices are kept as float32 or float16, not {dtype}."
            raise InputError(msg)
        self.chosen = tuple(dict.fromkeys(chosen))
        others = max(0, sentences - len(self.chosen))
        first = (number for number in range(sentences) if number not in self.chosen)
        self.wanted = frozenset((*self.chosen, *islice(first, others)))
        self.most_bytes = most_bytes
        self.dtype = dtype

    def values_of(self, layer: LayerWeights) -> dict[Key, KeptLayer]:
        """The wanted sentences, cut out of the batch."""
        return {
            (number, layer.site, layer.layer): self._cut_out(layer, row)
            for row, number in enumerate(layer.sentences)
            if number in self.wanted
        }

    def _cut_out(self, layer: LayerWeights, row: int) -> KeptLayer:
        rows = layer.rows
        axes = layer.queries if rows is None else rows.among.at(rows.chosen), layer.keys
        queries, keys = (int(axis.real[row].sum()) for axis in axes)
        here = int(layer.queries.real[row].sum())
        kept = KeptLayer((layer.weights[row, :, :here, :keys],))
        if layer.is_first_block:
            kept = replace(
                kept,
                tokens=_tokens(axes, layer.vocabularies, row),
                kinds=(_letters(axes[0], row), _letters(axes[1], row)),
                rows=_selected(rows, row),
            )
        entries = layer.weights.shape[1] * keys
        if queries * entries * self.dtype.itemsize > self.most_bytes:
            # No sentence with this layer is kept whole, so that more need not be held.
            start = 0 if rows is None else rows.start
            most = _queries_within([(queries, entries)], self.most_bytes)
            return _reduced(kept, max(most - start, 0))
        # A clone, because a slice would hold the batch in memory.
        return replace(kept, blocks=(kept.matrices.to("cpu", self.dtype).clone(),))

    def kept(self) -> KeptMatrices:
        """The sentences that fit the limit, chosen ones first; part of the smallest where none does."""
        layers: dict[int, dict[Key, KeptLayer]] = {}
        for key in self.sums:
            # Blocks are let go layer by layer, so that no two copies of all are held.
            layer = self.sums[key] = self.sums[key].joined()
            layers.setdefault(key[0], {})[key] = layer
        sizes = {
            number: sum(layer.entries for layer in layers[number].values()) * self.dtype.itemsize
            for number in _chosen_first(layers, self.chosen)
        }
        used, kept = 0, dict[Key, KeptLayer]()
        for number, size in sizes.items():
            if used + size <= self.most_bytes:
                used += size
                kept |= layers[number]
        if sizes and not kept:
            first = [number for number in self.chosen if number in sizes] or list(sizes)
            smallest = layers[min(first, key=lambda number: sizes[number])]
            sizes_of = [
                (len(layer.tokens[0]), layer.entries_per_query) for layer in smallest.values()
            ]
            most = _queries_within(sizes_of, self.most_bytes)
            kept = {key: _reduced(layer, most) for key, layer in smallest.items()}
        matrices = {key: layer.matrices for key, layer in kept.items()}
        rows = {key[:2]: matrix.shape[1] for key, matrix in matrices.items()}
        return KeptMatrices(
            _ordered(matrices),
            {k[:2]: (layer.tokens[0][: rows[k[:2]]], layer.tokens[1]) for k, layer in kept.items()},
            frozenset(sizes.keys() - {key[0] for key in kept}),
            {k[:2]: (layer.kinds[0][: rows[k[:2]]], layer.kinds[1]) for k, layer in kept.items()},
            {
                key[:2]: len(layer.tokens[0])
                for key, layer in kept.items()
                if rows[key[:2]] < len(layer.tokens[0])
            },
            tuple(number for number in self.chosen if number in {key[0] for key in kept}),
            {
                key[:2]: layer.rows[: rows[key[:2]]]
                for key, layer in kept.items()
                if layer.rows is not None
            },
            self.heads,
        )


def _selected(rows: Rows | None, row: int) -> tuple[int, ...] | None:
    """The positions of the rows of one sentence; None where they are all of them."""
    if rows is None or len(rows.chosen) == rows.among.real.shape[1]:
        return None
    return tuple(rows.chosen[rows.among.real[row][rows.chosen]].tolist())


def _tokens(
    axes: tuple[Axis, Axis], vocabularies: tuple[Naming, Naming], row: int
) -> tuple[list[str], list[str]]:
    """The real tokens of one sentence on both sides."""
    queries, keys = (
        names.tokens(axis.ids[row][axis.real[row]].tolist())
        for names, axis in zip(vocabularies, axes, strict=True)
    )
    return queries, keys


def _queries_within(layers: Sequence[tuple[int, int]], most_bytes: int) -> int:
    """The most first queries whose weights fit the limit in half precision; at least 1.

    Args:
        layers: how many queries each has, and how many weights each of them has.
        most_bytes: the limit.
    """

    def bytes_of(queries: int) -> int:
        return torch.float16.itemsize * sum(
            min(queries, most) * entries for most, entries in layers
        )

    longest = max(queries for queries, _ in layers)
    return max(1, bisect_right(range(1, longest + 1), most_bytes, key=bytes_of))


def _reduced(layer: KeptLayer, queries: int) -> KeptLayer:
    """The first queries of a layer, in half precision."""
    return replace(layer, blocks=(layer.matrices[:, :queries].to("cpu", torch.float16).clone(),))


def _letters(axis: Axis, row: int) -> str:
    """The kind of each real token of one sentence, a letter of `LETTERS` each."""
    # The first that fits: an opening or closing token is special too, punctuation is content.
    flags = [(letter, getattr(axis, LETTERS[letter])[row].tolist()) for letter in "ocspw"]
    positions = range(int(axis.real[row].sum()))
    return "".join(
        next(letter for letter, marked in flags if marked[position]) for position in positions
    )
