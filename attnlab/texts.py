"""Text from outside and to the reader: one way to read lines, one way to show strings."""

import codecs
import gzip
import re
import unicodedata
import zlib
from pathlib import Path

from attnlab.errors import InputError

_OTHER_ENCODINGS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
# A carriage return before a line feed, or at the very end, belongs to the end of the line.
_LINE_END = re.compile(r"\r+(\n|\Z)")
# Categories of characters that are not seen, or change how others are seen: control, format (zero
# width, direction), surrogate, private, unassigned, line and paragraph separators.
_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def read_lines(path: str | Path) -> list[str]:
    """The lines of a UTF-8 text file, plain or .gz, without their ends.

    A line ends at a line feed, with or without a carriage return before it, and nowhere else; in a
    file without line feeds, at a carriage return. A byte-order mark at the start is no text. The last
    line need not end; blank lines are lines.

    Raises:
        InputError: the file cannot be read, is no whole gzip file, or is not UTF-8 (with the line).
    """
    return lines_of(read_bytes(path), str(path))


def read_text(path: str | Path) -> str:
    """The lines of `read_lines` joined by line feeds.

    Raises:
        InputError: see `read_lines`.
    """
    return "\n".join(read_lines(path))


def read_bytes(path: str | Path) -> bytes:
    """The content of a file, unpacked where its name ends in .gz.

    Raises:
        InputError: the file cannot be read, or is no whole gzip file.
    """
    path = Path(path)
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if path.suffix == ".gz" else content
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        msg = f"{path} is not a whole gzip file ({error}); copy or compress it again."
        raise InputError(msg) from error
    except OSError as error:
        reason = error.strerror or error
        msg = f"{path} cannot be read: {reason}; check the name and your rights to it."
        raise InputError(msg) from error


def lines_of(content: bytes, where: str) -> list[str]:
    """The lines of UTF-8 text, see `read_lines`; `where` names it in errors.

    Raises:
        InputError: not UTF-8, with the line; other encodings are named where they can be told.
    """
    for mark, name in _OTHER_ENCODINGS.items():
        if content.startswith(mark):
            msg = f"{where} is {name} text, not UTF-8; convert it, for example with iconv."
            raise InputError(msg)
    try:
        text = content.decode("utf-8").lstrip("\ufeff")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        msg = f"{where}, line {line}, is not valid UTF-8; convert it, for example with iconv."
        raise InputError(msg) from error
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        msg = (
            f"{where}, line {line}, holds a zero character, as UTF-16 text does; "
            "convert it to UTF-8, for example with iconv."
        )
        raise InputError(msg)
    text = _LINE_END.sub(r"\1", text)
    if "\n" not in text:
        text = text.replace("\r", "\n")
    return text.removesuffix("\n").split("\n")


def check_characters(text: str, where: str) -> None:
    """Refuses half characters, which no UTF-8 text can hold and no tokenizer takes.

    Raises:
        InputError: a lone surrogate, as from a JSON escape or an argument that is not UTF-8.
    """
    half = next((letter for letter in text if "\ud800" <= letter <= "\udfff"), None)
    if half is not None:
        msg = (
            f"{where} has {shown(half)}, half a character that is no valid text; write it in UTF-8."
        )
        raise InputError(msg)


def shown(text: str) -> str:
    r"""A string as figures, tables and messages show it: every character can be seen and is one line.

    What cannot be seen, or would change how the rest is seen, is written as its escape; a blank string
    stands in quotes; a mark that combines with a letter before it gets a circle where there is none.

    >>> print(shown("a\u200bb"), shown("\x07"), shown(" "), shown("été"))
    a\u200bb \x07 ' ' été
    """
    if text and not text.strip(" "):
        return f"'{text}'"
    seen = "".join(_escaped(letter) for letter in text)
    return f"\u25cc{seen}" if seen and unicodedata.combining(seen[0]) else seen


def _escaped(letter: str) -> str:
    kind = unicodedata.category(letter)
    if kind in _UNSEEN or (kind == "Zs" and letter != " "):
        return letter.encode("unicode_escape", "surrogatepass").decode("ascii")
    return letter
