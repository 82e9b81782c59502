"""Subword and word tokenizers, trained on the training rows, with the frequency of every type."""

import hashlib
import json
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from attnlab.core import (
    MOST_FILE_BYTES,
    SIDES,
    AttnlabError,
    InputError,
    ShortRepr,
    Side,
    open_regular,
    panics,
    read_json,
    reason,
    write_json,
    write_text,
)
from attnlab.corpora import ROWS_AT_ONCE, ParallelCorpus

if TYPE_CHECKING:
    import datasets
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast


def texts_of(rows: "datasets.Dataset", side: Side) -> Iterator[str]:
    """One side of the rows, a few at a time in memory."""
    for some in rows.select_columns(side).iter(ROWS_AT_ONCE):
        yield from some[side]


def count_types(tokenizer: "PreTrainedTokenizerFast", texts: Iterable[str]) -> dict[str, int]:
    """How often each type of the vocabulary stands in the encoded texts, in the order of ids."""
    counts: Counter[int] = Counter()
    rest = iter(texts)
    while some := list(islice(rest, ROWS_AT_ONCE)):
        for ids in token_ids(tokenizer, some):
            counts.update(ids)
    return by_type(tokenizer, [counts[number] for number in range(len(tokenizer))])


def by_type(tokenizer: "PreTrainedTokenizerFast", counts: Iterable[int]) -> dict[str, int]:
    """Counts in the order of ids by the type that each id stands for."""
    types = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    return dict(zip(types, counts, strict=True))


def token_ids(tokenizer: "PreTrainedTokenizerFast", texts: Sequence[str]) -> list[list[int]]:
    """Token ids of texts, as `tokenizer(texts)["input_ids"]` has them, in two thirds of its time."""
    backend = tokenizer.backend_tokenizer
    backend.encode_special_tokens = tokenizer.split_special_tokens
    backend.no_truncation()
    backend.no_padding()
    return [encoding.ids for encoding in backend.encode_batch_fast(list(texts))]


SPECIAL_TOKENS = ("<pad>", "<unk>", "<s>", "</s>")
PAD, UNKNOWN, START, END = range(len(SPECIAL_TOKENS))
SPACE = "\N{LOWER ONE EIGHTH BLOCK}"
"""Stands for the space before a subword, so that subwords joined give the text back."""
JOINING_MARKS = ("'", "\N{RIGHT SINGLE QUOTATION MARK}", "-")
COUNTS_FILE = "token_counts.json"
_ADVICE = "restore it or train the run again"


@dataclass(frozen=True, repr=False)
class Tokenizers(ShortRepr):
    """The tokenizers of both languages and how often each type stands in the training rows."""

    source: "PreTrainedTokenizerFast"
    target: "PreTrainedTokenizerFast"
    """The very same object as `source` where the vocabulary is shared."""
    source_counts: dict[str, int]
    """Every type of the vocabulary, in the order of ids; 0 where it does not occur on this side.
    <s> and </s> count once a row, as the model meets them."""
    target_counts: dict[str, int]

    @property
    def shared(self) -> bool:
        """Whether both languages have one vocabulary."""
        return self.source is self.target

    def save(self, folder: str | Path) -> None:
        """Writes the tokenizers, as transformers reads them, and `token_counts.json`, atomically.

        A shared tokenizer goes to the folder itself, separate ones to `source_tokenizer` and
        `target_tokenizer` in it.

        Raises:
            AttnlabError: the disk is full or the folder cannot be written.
        """
        folder = Path(folder)
        if self.shared:
            write_tokenizer(self.source, folder)
        else:
            write_tokenizer(self.source, folder / "source_tokenizer")
            write_tokenizer(self.target, folder / "target_tokenizer")
        counts = {"source": self.source_counts, "target": self.target_counts}
        write_json(folder / COUNTS_FILE, {"shared": self.shared, **counts})


def write_tokenizer(tokenizer: "PreTrainedTokenizerFast", folder: str | Path) -> None:
    """Writes `tokenizer.json` and `tokenizer_config.json`, each atomically.

    Raises:
        AttnlabError: the disk is full or the folder cannot be written.
    """
    folder = Path(folder)
    try:
        with tempfile.TemporaryDirectory(prefix="attnlab-") as scratch:
            tokenizer.save_pretrained(scratch)
            texts = {path.name: path.read_text("utf-8") for path in Path(scratch).iterdir()}
    except OSError as error:
        msg = f"Could not write the tokenizer for {folder}: {error.strerror or error}."
        raise AttnlabError(msg) from error
    for name, text in texts.items():
        write_text(folder / name, text)


def load_tokenizers(folder: str | Path) -> Tokenizers:
    """The tokenizers that `Tokenizers.save` wrote to a folder.

    Raises:
        InputError: a file is missing or damaged.
    """
    folder = Path(folder)
    if not (folder / COUNTS_FILE).is_file():
        msg = f"{folder} holds no tokenizers: {COUNTS_FILE} is missing; {_ADVICE}."
        raise InputError(msg)
    counts = read_json(folder / COUNTS_FILE, _Counts, advice=_ADVICE)
    folders = [folder] if counts.shared else [folder / f"{side}_tokenizer" for side in SIDES]
    loaded = [_load_tokenizer(path) for path in folders]
    both = Tokenizers(loaded[0], loaded[-1], dict(counts.source), dict(counts.target))
    for side in SIDES:
        types = getattr(both, side).convert_ids_to_tokens(range(len(getattr(both, side))))
        if types != list(getattr(counts, side)):
            msg = (
                f"{folder / COUNTS_FILE} counts other types of the {side} than the {len(types)} of its "
                f"tokenizer; {_ADVICE}."
            )
            raise InputError(msg)
    return both


@dataclass(frozen=True)
class _Counts:
    """The content of `token_counts.json`."""

    shared: bool
    source: Mapping[str, Annotated[int, Field(ge=0)]]
    target: Mapping[str, Annotated[int, Field(ge=0)]]


@dataclass(frozen=True)
class _Model:
    type: str
    vocab: Mapping[str, Annotated[int, Field(ge=0)]]


@dataclass(frozen=True)
class _Tokenizer:
    """The part of `tokenizer.json` that is told where it is damaged; the library reads the whole."""

    model: _Model
    added_tokens: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class _Configuration:
    """The part of `tokenizer_config.json` that batches rely on."""

    model_input_names: tuple[Literal["input_ids"], Literal["attention_mask"]] = (
        "input_ids", "attention_mask"
    )  # fmt: skip
    padding_side: Literal["right"] = "right"
    split_special_tokens: bool = True


def _load_tokenizer(folder: Path) -> "PreTrainedTokenizerFast":
    """The tokenizer whose files are in `folder`.

    Raises:
        InputError: a file is missing or damaged.
    """
    from transformers import PreTrainedTokenizerFast

    path = folder / "tokenizer.json"
    read_json(path, _Tokenizer, advice=_ADVICE)
    read_json(folder / "tokenizer_config.json", _Configuration, advice=_ADVICE, finite=False)
    try:
        return read_tokenizer(PreTrainedTokenizerFast, folder, padding=True)
    except Exception as error:
        msg = f"{path} or tokenizer_config.json beside it is damaged ({reason(error)}); {_ADVICE}."
        raise InputError(msg) from error


def read_tokenizer(kind: Any, source: str | Path, *, padding: bool = False) -> Any:
    """A tokenizer of transformers that was tried, since what is wrong with some values shows in use alone.

    Args:
        kind: its class.
        source: as in `read_pretrained`.
        padding: whether it must be able to pad.

    Raises:
        InputError: it makes texts too long, see `check_growth`.
        Exception: of any class, as libraries of tokenizers raise for much of what files can have wrong.
    """
    from attnlab.core import read_pretrained

    try:
        # Before the library reads the files, since it normalizes added tokens at once.
        for path in sorted(Path(source).glob("tokenizer*.json")):
            check_growth(_stages_in(path))
        tokenizer = read_pretrained(kind, source)
        # From the hub, or made of other files.
        check_growth(_stages_of(getattr(tokenizer, "backend_tokenizer", None)))
        encoded = tokenizer(["a b", "c"], padding=padding)
        tokenizer.decode(encoded["input_ids"][0], skip_special_tokens=True)
        tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
        # One that is not in the vocabulary is looked for without end.
        _ = tokenizer.unk_token_id
    except panics() as error:
        raise ValueError(reason(error)) from error
    return tokenizer


MOST_GROWTH = 100
"""Letters that a tokenizer may make of one; a few ligatures become 18, and later stages double them."""
# What matches between letters, and what `re` reads otherwise than the library.
_BETWEEN_LETTERS = re.compile(r"\(\?(?!:)|\\[bBAzZGKyYkg]|(?<!\[)\^|\$|\[\[|\[:|&&|--|~~|\|\|")
_PROPERTY = re.compile(r"\\[pP]\{\^?\w+\}")
# What a stage is tried on that does not declare what it writes; few letters beyond are written as several.
_LETTERS = [chr(code) for code in range(0x10000) if not 0xD800 <= code < 0xE000]


def _stages_in(path: Path) -> Mapping[str, Any]:
    """The content of a `tokenizer.json`; empty where it is none, which the library tells."""
    try:
        with open_regular(path, most_bytes=MOST_FILE_BYTES) as file:
            stages = json.load(file)
    except (OSError, ValueError, RecursionError):
        return {}
    return stages if isinstance(stages, dict) else {}


def _stages_of(backend: Any) -> Mapping[str, Any]:
    """Normalizer and decoder of a tokenizer of the library, as a `tokenizer.json` has them."""
    parts = {name: getattr(backend, name, None) for name in ("normalizer", "decoder")}
    return {
        name: json.loads(part.__getstate__()) for name, part in parts.items() if part is not None
    }


def check_growth(stages: Mapping[str, Any]) -> None:
    """Refuses a normalizer or decoder that can make a text more than `MOST_GROWTH` times as long.

    Each stage may write several letters for one, so that a few in a row fill any memory. With g(c) the most
    letters that the stages behind one make of a letter c, a stage that replaces p by t has::

        g'(c) = max(g(c), sum_{x in t} g(x) / |p|) for c in p, and g(c) for others

    Where p is a regular expression that matches no empty text, |p| is 1 and c is any letter. One that may
    match between letters, or writes t in front, may write at every letter::

        g'(c) = g(c) + sum_{x in t} g(x)

    Other stages of a normalizer are tried on every letter c, and g'(c) is the sum of g over what they write.

    Raises:
        InputError: see above.
        Exception: what stands there is no normalizer or no decoder.
    """
    for name in ("normalizer", "decoder"):
        if stages.get(name):
            most = _growth(name, json.dumps(stages[name], sort_keys=True))
            if most > MOST_GROWTH:
                msg = (
                    f"its {name} can make {most:,.0f} letters of one, and {MOST_GROWTH} is the limit; remove "
                    "replacements in tokenizer.json"
                )
                raise InputError(msg)


@cache
def _growth(name: str, stages: str) -> float:
    """The most letters that are made of one, or a number beyond `MOST_GROWTH`."""
    growth = dict.fromkeys(_LETTERS, 1.0)
    for stage in reversed(list(_single_stages(json.loads(stages)))):
        if stage["type"] in ("Replace", "Prepend"):
            growth = _replaced(growth, stage)
        elif name == "normalizer":
            growth = _tried(growth, stage)
        most = max(growth.values())
        if most > MOST_GROWTH:
            return most
        # A decoder joins and strips tokens; it writes no new letters, but which ones it leaves is not told.
        if name == "decoder":
            growth = dict.fromkeys(growth, most)
    return max(growth.values())


def _single_stages(stage: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if stage["type"] != "Sequence":
        yield stage
    for inner in (*stage.get("normalizers", ()), *stage.get("decoders", ())):
        yield from _single_stages(inner)


def _letters_of(text: str, growth: Mapping[str, float]) -> float:
    return sum((growth.get(letter, 1.0) for letter in text), 0.0)


def _replaced(growth: Mapping[str, float], stage: Mapping[str, Any]) -> dict[str, float]:
    pattern = stage.get("pattern", {})
    literal, expression = pattern.get("String", ""), pattern.get("Regex", "")
    made = _letters_of(stage.get("content", stage.get("prepend", "")), growth)
    if literal:
        replaced = {char: max(growth.get(char, 1.0), made / len(literal)) for char in set(literal)}
        return {**growth, **replaced}
    if _may_match_nothing(expression):
        return {char: most + made for char, most in growth.items()}
    return {char: max(most, made) for char, most in growth.items()}


def _may_match_nothing(expression: str) -> bool:
    """Whether a regular expression may match an empty text; True where that is not seen."""
    if _BETWEEN_LETTERS.search(expression):
        return True
    try:
        return re.fullmatch(_PROPERTY.sub("\\\\w", expression), "") is not None
    except (re.error, OverflowError, RecursionError):
        return True


def _tried(growth: Mapping[str, float], stage: Mapping[str, Any]) -> dict[str, float]:
    from tokenizers import Tokenizer, models

    blank = json.loads(Tokenizer(models.WordLevel({}, unk_token="")).to_str())
    write = Tokenizer.from_str(json.dumps({**blank, "normalizer": stage})).normalizer.normalize_str
    made: dict[str, float] = {}
    for letter in _LETTERS:
        made[letter] = _letters_of(write(letter), growth)
        if made[letter] > MOST_GROWTH:
            break
    return made


def checksum(tokenizer: "PreTrainedTokenizerFast") -> str:
    """A hash of which type each token id stands for."""
    types = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    return hashlib.sha256(json.dumps(types).encode()).hexdigest()


def check_tokenizer(kind: str, vocabulary: int) -> None:
    """Raises InputError for a kind that is unknown or a vocabulary that holds only special tokens."""
    if kind not in BLANK_TOKENIZERS:
        msg = f'"{kind}" is no kind of tokenizer; choose {" or ".join(BLANK_TOKENIZERS)}.'
        raise InputError(msg)
    if vocabulary <= len(SPECIAL_TOKENS):
        msg = (
            f"A vocabulary of {vocabulary} has no room beside the {len(SPECIAL_TOKENS)} special "
            "tokens; choose some thousands."
        )
        raise InputError(msg)


def train_tokenizers(
    corpus: ParallelCorpus,
    *,
    kind: str = "bpe",
    vocabulary: int = 8000,
    shared: bool = True,
    predicted: Side = "target",
    counted: bool = True,
) -> Tokenizers:
    """Tokenizers trained on the training rows of the corpus, and the frequencies of their types.

    Every sentence becomes `<s> tokens </s>`; <pad>, <unk>, <s>, </s> have the ids 0 to 3.

    kind: `bpe` for subwords, of which decoding gives the text back exactly (in Unicode normal form
        C) if its characters occur in the training rows; `word` for words and punctuation marks.
    vocabulary: the most types that a tokenizer has, special tokens among them.
    shared: one vocabulary for both languages, or one of that size for each.
    predicted: `source` for a model of that side alone, which has one tokenizer.
    counted: False for no frequencies; where the corpus is encoded anyway,
        `attnlab.models.training_batches.with_counts` takes them from the ids.

    Raises:
        InputError: an unknown kind, or a vocabulary with no room beside the special tokens.
    """
    check_tokenizer(kind, vocabulary)
    if shared or predicted == "source":
        sides = dict.fromkeys(("source", predicted))
        read = (text for side in sides for text in texts_of(corpus.train, side))
        source = target = train_tokenizer(read, kind, vocabulary)
    else:
        source, target = (
            train_tokenizer(texts_of(corpus.train, side), kind, vocabulary) for side in SIDES
        )
    if not counted:
        return Tokenizers(source, target, {}, {})
    counts = (
        count_types(source, texts_of(corpus.train, "source")),
        count_types(target, texts_of(corpus.train, predicted)),
    )
    return Tokenizers(source, target, *counts)


def train_tokenizer(texts: Iterable[str], kind: str, vocabulary: int) -> "PreTrainedTokenizerFast":
    """One tokenizer, trained on these texts, as transformers wants it."""
    from tokenizers import processors, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = BLANK_TOKENIZERS[kind]()
    special = list(SPECIAL_TOKENS)
    trainer: trainers.BpeTrainer | trainers.WordLevelTrainer
    if kind == "bpe":
        trainer = trainers.BpeTrainer(
            vocab_size=vocabulary,
            special_tokens=special,
            limit_alphabet=vocabulary - len(special),
            show_progress=False,
        )
    else:
        trainer = trainers.WordLevelTrainer(
            vocab_size=vocabulary, special_tokens=special, show_progress=False
        )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", START), ("</s>", END)]
    )
    pad, unknown, start, end = SPECIAL_TOKENS
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=pad,
        unk_token=unknown,
        bos_token=start,
        eos_token=end,
        padding_side="right",
        clean_up_tokenization_spaces=False,
        # Text that holds "</s>" is text: it must not become the token.
        split_special_tokens=True,
        model_input_names=["input_ids", "attention_mask"],
    )


def blank_subwords() -> "Tokenizer":
    """Byte-pair encoding of words that carry the space before them; punctuation marks stand alone."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))  # noqa: S106 - no password
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)]
    )
    mark_or_word = rf"{SPACE}?\p{{P}}|{SPACE}?[^{SPACE}\p{{P}}]+"
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(mark_or_word), "isolated")
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace(SPACE, " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return tokenizer


def blank_words() -> "Tokenizer":
    """Words and punctuation marks; decoding sets marks back to where they usually stand."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))  # noqa: S106 - no password
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("isolated")]
    )
    no_prefix = (
        "\N{NULL}"  # the decoder for word pieces puts spaces between all that lack its prefix
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.WordPiece(prefix=no_prefix, cleanup=False),
            decoders.Fuse(),
            decoders.Replace(Regex(r" (?=[.,;:!?…%)\]}»])|(?<=[(\[{«¿¡]) "), ""),
            *(decoders.Replace(f" {mark} ", mark) for mark in JOINING_MARKS),
        ]
    )
    return tokenizer


BLANK_TOKENIZERS = {"bpe": blank_subwords, "word": blank_words}
