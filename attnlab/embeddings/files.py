"""Embeddings as files: safetensors, and the text of word2vec."""

import json
import math
import re
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from attnlab.core.documents import fitting, parse_json
from attnlab.core.errors import InputError, reason
from attnlab.core.files import check_regular, write_tensors, write_text
from attnlab.core.texts import read_text
from attnlab.embeddings.vectors import Embeddings

TENSORS, TEXT = "embeddings.safetensors", "embeddings.txt"
_FIRST_LINE = re.compile(r"\s*([0-9]{1,12})\s+([1-9][0-9]{0,6})\s*")
SUFFIXES = (".safetensors", ".txt", ".vec")


def write_embeddings(folder: str | Path, embeddings: Embeddings) -> None:
    """Writes `embeddings.txt` (word2vec) and `embeddings.safetensors`, each atomically.

    Raises:
        AttnlabError: the disk is full or the folder cannot be written.
    """
    folder = Path(folder)
    lines = [f"{len(embeddings.words)} {embeddings.dim}"]
    lines += [
        " ".join([word, *(f"{number:.7g}" for number in vector)])
        for word, vector in zip(embeddings.words, embeddings.vectors.tolist(), strict=True)
    ]
    write_text(folder / TEXT, "\n".join(lines) + "\n")
    words = json.dumps(embeddings.words, ensure_ascii=False)
    write_tensors(folder / TENSORS, {"vectors": embeddings.vectors}, {"words": words})


def holds_embeddings(path: str | Path) -> bool:
    """Whether `path` is a file that can hold embeddings, or a folder that `attnlab embed` wrote."""
    path = Path(path)
    return (path.is_file() and path.suffix in SUFFIXES) or (path / TENSORS).is_file()


def load_embeddings(path: str | Path) -> Embeddings:
    """The embeddings in a file, or in a folder that `attnlab embed` wrote.

    Raises:
        InputError: there is no such file, or it holds something else.
    """
    path = Path(path)
    if path.is_dir():
        path /= TENSORS
    check_regular(path)
    if not path.is_file():
        msg = f"There is no file of embeddings {path}; make one with: attnlab embed FOLDER"
        raise InputError(msg)
    if path.suffix == ".safetensors":
        return _from_tensors(path)
    return _from_text(path)


def _from_tensors(path: Path) -> Embeddings:
    try:
        with safe_open(path, framework="pt") as file:
            text = (file.metadata() or {}).get("words", "null")
            words = fitting(tuple[str, ...], parse_json(text))
            vectors = file.get_tensor("vectors")
            if vectors.ndim != 2 or not vectors.is_floating_point():
                msg = (
                    f"its vectors are {vectors.dtype} of shape {tuple(vectors.shape)}, not a matrix"
                )
                raise InputError(msg)
            return Embeddings(words, vectors.float())
    except (SafetensorError, InputError, OSError) as error:
        msg = f"{path} holds no embeddings of attnlab ({reason(error)}); make them with: attnlab embed"
        raise InputError(msg) from error


def _from_text(path: Path) -> Embeddings:
    """Word2vec text: a line with the number of words and their dimension, then a line per word."""
    lines = read_text(path).rstrip("\n").split("\n")
    first = _FIRST_LINE.fullmatch(lines[0])
    if first is None:
        msg = (
            f"{path} is no word2vec text: its first line must hold the number of words and their "
            f"dimension, not {lines[0][:40]!r}."
        )
        raise InputError(msg)
    count, dim = map(int, first.groups())
    if len(lines) - 1 != count:
        msg = f"{path} says that it holds {count} words and has {len(lines) - 1}; restore it."
        raise InputError(msg)
    words, vectors = [], []
    for number, line in enumerate(lines[1:], start=2):
        word, *numbers = line.rstrip(" ").rsplit(" ", dim)
        vector = [_number(text) for text in numbers]
        if len(vector) != dim or not all(map(math.isfinite, vector)):
            msg = f"Line {number} of {path} is no word with {dim} numbers; restore the file."
            raise InputError(msg)
        words.append(word)
        vectors.append(vector)
    return Embeddings(tuple(words), torch.tensor(vectors).reshape(count, dim))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
