"""Text from outside and to the reader: one way to read lines, one way to show strings."""

import codecs
import gzip
import re
import reprlib
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from operator import index
from pathlib import Path, PureWindowsPath
from typing import Any, SupportsIndex

from attnlab.core.errors import InputError
from attnlab.core.files import check_regular, open_regular
from attnlab.core.limits import BLANK, FILE, LINE

_OTHER_ENCODINGS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
# What an address begins with, of which `Path` leaves one slash, and the user and password in it.
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+:/{1,2})(?:[^/\s]*@)?([^?#]*)")
SENTENCES = "give one with a sentence on each line"
TREEBANK = "name a CoNLL-U file (.conllu or .conllu.gz)"
# A carriage return before a line feed, or at the very end, belongs to the end of the line.
_LINE_END = re.compile(r"\r+(\n|\Z)")
# Bytes that are read at once, and letters up to which a line that is too long is counted.
_PART, _COUNTED = 2**20, 10**9
_FURTHER_BYTES = bytes(range(0x80, 0xC0))
_HALF = re.compile("[\ud800-\udfff]")
_BRIEF = reprlib.Repr()
_BRIEF.maxlevel, _BRIEF.maxstring, _BRIEF.maxother = 3, 42, 60
# Categories of characters that are not seen, or change how others are seen: control, format (zero
# width, direction), surrogate, private, unassigned, line and paragraph separators.
_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
# What a terminal obeys instead of showing it, or cannot be given: control characters but tab and line feed,
# half characters, and marks that turn the direction of what follows.
_OBEYED = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")


def check_file_exists(path: str | Path, advice: str) -> None:
    """Raises InputError where there is no such regular file; `advice` says what to give, see `SENTENCES`."""
    try:
        exists = Path(path).exists()
    except (OSError, ValueError) as error:  # a name that no file can have
        reason = getattr(error, "strerror", None) or error
        msg = f"There can be no file {briefly(str(path))} ({reason}); {advice}."
        raise InputError(msg) from error
    if not exists:
        msg = f"There is no file {path}; {advice}."
        raise InputError(msg)
    check_regular(path)


def check_has_lines(path: str | Path) -> None:
    """Raises InputError where there is no file of sentences, or one of empty lines alone."""
    # A name with spaces is more often a sentence than a file.
    texts = " (in Python, sentences=[...] takes sentences themselves)" if " " in str(path) else ""
    check_file_exists(path, f"{SENTENCES}{texts}")
    if not any(line.strip(" ") for line in iterate_lines(path)):
        msg = f"{path} is empty; give a file with a sentence on each line."
        raise InputError(msg)


def read_lines(path: str | Path) -> list[str]:
    """The lines of a UTF-8 text file, see `iterate_lines`.

    Raises:
        InputError: see `iterate_lines`.
    """
    return list(iterate_lines(path))


def read_text(path: str | Path, *, most_bytes: int | None = None) -> str:
    """The lines of `iterate_lines` joined by line feeds; `most_bytes` as there.

    Raises:
        InputError: see `iterate_lines`.
    """
    return "\n".join(iterate_lines(path, most_bytes=most_bytes))


def iterate_lines(path: str | Path, *, most_bytes: int | None = None) -> Iterator[str]:
    """The lines of a UTF-8 text file, plain or .gz, without their ends, read part by part.

    A line ends at a line feed, with or without a carriage return before it, and nowhere else; in a
    file without line feeds, at a carriage return. A byte-order mark at the start is no text. The last
    line need not end; blank lines are lines. Memory does not depend on the size of the file.

    Args:
        path: of the file.
        most_bytes: its largest size on the disk; None: any below the limit of text files.

    Raises:
        InputError: the file cannot be read, is no regular file, is no whole gzip file, is not UTF-8 (with
            the line), or a line or the file is beyond its limit, see `attnlab.core.limits`.
    """
    path = Path(path)
    try:
        with open_regular(path, most_bytes=most_bytes) as file:
            read = gzip.GzipFile(fileobj=file).read if path.suffix == ".gz" else file.read
            yield from lines_in(read, str(path))
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        msg = f"{path} is not a whole gzip file ({error}); copy or compress it again."
        raise InputError(msg) from error
    except OSError as error:
        reason = error.strerror or error
        msg = f"{path} cannot be read: {reason}; check the name and your rights to it."
        raise InputError(msg) from error


def lines_in(read: Callable[[int], bytes], where: str) -> Iterator[str]:
    """The lines of the UTF-8 text that `read` gives, so many bytes at a time, see `iterate_lines`.

    `where` names it in errors.

    Raises:
        InputError: not UTF-8, with the line, or beyond a limit; other encodings are named where they
            can be told.
    """
    number, blank = 0, 0
    limit, most_blank = LINE.value(), BLANK.value()
    for block in _blocks(read, where):
        for line in _decoded(block, where, number):
            number += 1
            blank = 0 if line.strip() else blank + 1
            if blank > most_blank:
                msg = (
                    f"{where} has more than {most_blank:,} blank lines in a row, to line {number}; remove "
                    f"them, or raise {BLANK.variable}."
                )
                raise InputError(msg)
            if len(line) > limit:
                LINE.refuse(len(line), f"{where}, line {number},")
            yield line
    if not number:
        yield ""


def _blocks(read: Callable[[int], bytes], where: str) -> Iterator[bytes]:
    """Whole lines with line feeds between them, many at once."""
    # No letter has more than four bytes, so that this is more than a line may have.
    part = read(max(_PART, 4 * LINE.value() + 1))
    for mark, name in _OTHER_ENCODINGS.items():
        if part.startswith(mark):
            msg = f"{where} is {name} text, not UTF-8; convert it, for example with iconv."
            raise InputError(msg)
    while part.startswith(codecs.BOM_UTF8):
        part = part.removeprefix(codecs.BOM_UTF8)
    returns = b"\r" in part and b"\n" not in part
    rest, lines, size = b"", 0, 0
    while part:
        size += len(part)
        FILE.refuse(size, where)
        if returns:
            if b"\n" in part:
                LINE.refuse(size, f"{where}, line 1,")
            # What ends the file is told from blank lines when it goes on.
            kept = (rest + part).rstrip(b"\r")
            after = (rest + part)[len(kept) :]
            block, feed, rest = kept.replace(b"\r", b"\n").rpartition(b"\n")
            rest += after
        else:
            block, feed, rest = (rest + part).rpartition(b"\n")
        if feed:
            lines += block.count(b"\n") + 1
            yield block
        _check_line_length(read, rest, b"\r" if returns else b"\n", f"{where}, line {lines + 1},")
        part = read(_PART)
    last = rest.rstrip(b"\r")
    if last:
        yield last.replace(b"\r", b"\n") if returns else last


def _check_line_length(read: Callable[[int], bytes], begun: bytes, end: bytes, where: str) -> None:
    """Raises InputError for a line that begins in `begun` and is beyond the limit, with its length."""
    letters = _letters(begun)
    if letters <= LINE.value():
        return
    ended = b""
    while letters < _COUNTED and not ended and (part := read(_PART)):
        line, ended, _ = part.partition(end)
        letters += _letters(line)
    LINE.refuse(letters, where)


def _letters(text: bytes) -> int:
    """How many letters these bytes of UTF-8 begin."""
    return len(text.translate(None, _FURTHER_BYTES))


def _decoded(block: bytes, where: str, before: int) -> list[str]:
    """The lines of a block of UTF-8 text that comes after `before` others."""
    try:
        text = block.decode("utf-8")
    except UnicodeDecodeError as error:
        line = before + block[: error.start].count(b"\n") + 1
        msg = f"{where}, line {line}, is not valid UTF-8; convert it, for example with iconv."
        raise InputError(msg) from error
    if "\0" in text:
        line = before + text[: text.index("\0")].count("\n") + 1
        msg = (
            f"{where}, line {line}, holds a zero character, as UTF-16 text does; "
            "convert it to UTF-8, for example with iconv."
        )
        raise InputError(msg)
    return (_LINE_END.sub(r"\1", text) if "\r" in text else text).split("\n")


def check_characters(text: str, where: str) -> None:
    """Refuses half characters, which no UTF-8 text can hold and no tokenizer takes.

    Raises:
        InputError: a lone surrogate, as from a JSON escape or an argument that is not UTF-8.
    """
    half = _HALF.search(text)
    if half is not None:
        msg = (
            f"{where} has {shown(half[0])}, half a character that is no valid text; write it in "
            "UTF-8."
        )
        raise InputError(msg)


def texts_of(given: Any, name: str = "sentences") -> list[str | tuple[str, str]]:
    """Sentences, or pairs (source, target), as a list.

    Args:
        given: any sequence or iterator of them.
        name: of the argument, for errors.

    Raises:
        InputError: a single text, something else than texts (token ids, lists of words, bytes), pairs beside
            sentences without a translation, half characters, or nothing at all.

    >>> texts_of(("a dog", "a cat"))
    ['a dog', 'a cat']
    """
    if isinstance(given, str):
        text = briefly(given)
        msg = f"{name} must be a list of texts, not the text {text}; write {name}=[{text}]."
        raise InputError(msg)
    if not isinstance(given, Iterable) or isinstance(given, bytes | Mapping):
        msg = f"{name} must be a list of texts or of pairs (source, target), not {briefly(given)}."
        raise InputError(msg)
    texts = list(given)
    for number, text in enumerate(texts, start=1):
        sides = text if isinstance(text, tuple) and len(text) == 2 else (text,)
        if not all(isinstance(side, str) for side in sides):
            advice = "hand in the text itself, since the model's tokenizer makes the tokens"
            if isinstance(text, list) and [*map(type, text)] == [str, str]:
                advice = "make a pair a tuple, and of words a text"
            msg = (
                f"Sentence {number} is {briefly(text)}, and sentences are texts or pairs (source, target) of "
                f"texts; {advice}."
            )
            raise InputError(msg)
        for side in sides:
            check_characters(side, f"The sentence {briefly(side)}")
    if not texts:
        msg = "There are no sentences to read; hand in at least one."
        raise InputError(msg)
    if len({isinstance(text, tuple) for text in texts}) > 1:
        msg = "Either every sentence has a translation or none has; hand in one kind at a time."
        raise InputError(msg)
    return texts


def has_half_character(text: str) -> bool:
    """Whether a text holds a lone surrogate, which no file in UTF-8 can hold."""
    return _HALF.search(text) is not None


def briefly(value: Any) -> str:
    """A value as Python writes it, shortened where it is long or nested.

    >>> briefly("a" * 100), briefly([[[[]]]])
    ("'aaaaaaaaaaaaaaaaaa...aaaaaaaaaaaaaaaaaaa'", '[[[...]]]')
    """
    return _BRIEF.repr(value)


def shown(text: str) -> str:
    r"""A string as figures, tables and messages show it: every character can be seen and is one line.

    What cannot be seen, or would change how the rest is seen, is written as its escape; a blank string
    stands in quotes; a mark that combines with a letter before it gets a circle where there is none.

    >>> print(shown("a\u200bb"), shown("\x07"), shown(" "), shown("été"))
    a\u200bb \x07 ' ' été
    """
    if text and not text.strip(" "):
        return f"'{text}'"
    # A page holds millions of characters of base64.
    if text.isascii() and text.isprintable():
        return text
    seen = "".join(_escaped(letter) for letter in text)
    return f"\u25cc{seen}" if seen and unicodedata.combining(seen[0]) else seen


def printable(text: str) -> str:
    r"""A text of any number of lines without characters that a terminal obeys; they become escapes.

    >>> print(printable("a\x1b[31mb"))
    a\x1b[31mb
    """
    return _OBEYED.sub(lambda match: _escape(match[0]), text)


def _escape(letter: str) -> str:
    return letter.encode("unicode_escape", "surrogatepass").decode("ascii")


def _escaped(letter: str) -> str:
    kind = unicodedata.category(letter)
    if kind in _UNSEEN or (kind == "Zs" and letter != " "):
        return _escape(letter)
    return letter


def spelled_alike(name: str, names: Iterable[str]) -> str | None:
    """The one of some names that has the same letters and digits as another; None where none has.

    >>> spelled_alike("Top_K", ["band", "top-k"]), spelled_alike("top", ["top-k"])
    ('top-k', None)
    """
    names = list(names)
    if name in names:
        return name
    return next(
        (other for other in names if _letters_alone(other) == _letters_alone(name)),
        None,
    )


def _letters_alone(name: str) -> str:
    return "".join(filter(str.isalnum, name)).casefold()


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The one of some names that is most like another; None where none is near.

    >>> nearest("bend", ["band", "topk"]), nearest("x", ["band"])
    ('band', None)
    """
    return next(iter(get_close_matches(name, list(names), n=1)), None)


def nearest_in_words(name: str, names: Iterable[str]) -> str:
    """The nearest of some names as a question in brackets; nothing where none is near.

    >>> nearest_in_words("bend", ["band", "topk"]), nearest_in_words("x", ["band"])
    (" (did you mean 'band'?)", '')
    """
    near = nearest(name, names)
    return f" (did you mean '{near}'?)" if near else ""


def path_label(path: str | Path) -> str:
    """A path as results name it: as it was typed, of one that says where it lies the last part alone.

    So nobody who is given a result reads where on which machine it was made, and by whom. Of an address
    in the net the user, the password and what is asked of it are left out.

    >>> path_label("runs/demo"), path_label("/home/me/runs/demo"), path_label("../../me/runs/demo")
    ('runs/demo', 'demo', 'demo')
    >>> path_label("https://me:secret@host/demo?token=abc"), path_label("file:///home/me/demo")
    ('https://host/demo', 'demo')
    """
    text = str(path).removeprefix("file://")
    address = _ADDRESS.match(text)
    if address:
        return address[1] + address[2]
    windows = PureWindowsPath(text)
    if windows.is_absolute() and windows.drive:
        return windows.name
    tells = Path(text).is_absolute() or text.startswith("~") or ".." in Path(text).parts
    return Path(text).name if tells else text


def word_label(word: str) -> str:
    """A word of a command line as results name it: of `--name=value` the value, see `path_label`.

    >>> word_label("--corpus=/home/me/pairs.tsv")
    '--corpus=pairs.tsv'
    """
    name, equals, value = word.partition("=")
    return f"{name}={path_label(value)}" if equals and "://" not in name else path_label(word)


def counted(count: SupportsIndex, noun: str) -> str:
    """A whole number, of numpy too, with its noun, in the plural where it is not one.

    >>> counted(1, "head"), counted(1200, "row"), counted(0, "batch"), counted(2, "epoch")
    ('1 head', '1,200 rows', '0 batches', '2 epochs')
    """
    hisses = noun.endswith(("s", "x", "ch", "sh")) and not noun.endswith("epoch")
    ending = "es" if hisses else "s"
    number = index(count)
    return f"{number:,} {noun}{'' if number == 1 else ending}"


def duration(seconds: float) -> str:
    """A time in words.

    >>> duration(3.2), duration(80.0), duration(7300.0)
    ('3 s', '1 min 20 s', '2 h 1 min')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
