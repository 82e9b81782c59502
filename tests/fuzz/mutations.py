"""Ways to damage a file, drawn by a seed: its bytes, its lines, and the values of its JSON."""

import json
import shutil
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

HALF = "\\ud800"
WRONG: tuple[str, ...] = (
    "null", "true", "-1", "0", "1", "2.5", "99999999", "2147483648", "1" + "0" * 30, "1" + "0" * 5000,
    "1e308", "1e999", "NaN", "-Infinity", '""', '"x"', f'"{HALF}"', '"\\u0000"', '"\\u001b[31m"',
    '"' + "x" * 5000 + '"', '"../../x"', "[]", "{}", '{"a": 1}', '[1, "a", null]',
    "[" * 30 + "]" * 30, "[" * 3000 + "]" * 3000, '{"a":' * 3000 + "1" + "}" * 3000,
)  # fmt: skip
CELLS = (
    "", "x", "-1", "0", "1", "99999", "1" + "0" * 30, "9" * 5000, "1e999", "nan", "1.5", "True", '"', "\x00",
    "\ufeff", "\u2028", "\x1b[31m", "x" * 5000, "1-2", "1.1", "_",
)  # fmt: skip
_MARK = "\u241fwrong\u241f"


def damage(path: Path, random: Random) -> str:
    """Damages a file and returns in which way."""
    content = path.read_bytes()
    ways: list[Callable[[bytes, Random], bytes]] = [*BYTES]
    if path.suffix in {".json", ".jsonl"}:
        ways = [*BYTES, *[json_value] * len(BYTES) * 2, json_keys]
    elif path.suffix == ".safetensors":
        ways = [*BYTES, *[header_value] * len(BYTES)]
    elif path.suffix == ".npy":
        ways = [*BYTES, *[numpy_header] * len(BYTES)]
    elif path.suffix not in {".npz", ".gz", ".pt", ".pth", ".wav"}:
        ways = [*BYTES, *[cell] * len(BYTES), blank_lines]
    if random.random() < 0.05:
        return random.choice([removed, a_folder, a_link])(path)
    way = random.choice(ways)
    path.write_bytes(way(content, random))
    return way.__name__


def removed(path: Path) -> str:
    path.unlink()
    return "removed"


def a_folder(path: Path) -> str:
    path.unlink()
    path.mkdir()
    return "a folder"


def a_link(path: Path) -> str:
    path.unlink()
    path.symlink_to(path)
    return "a link to itself"


def truncated(content: bytes, random: Random) -> bytes:
    return content[: random.randrange(len(content) + 1)]


def flipped(content: bytes, random: Random) -> bytes:
    changed = bytearray(content)
    for _ in range(random.choice([1, 3, 30])):
        if changed:
            changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def emptied(_: bytes, __: Random) -> bytes:
    return b""


def doubled(content: bytes, _: Random) -> bytes:
    return content + content


def with_others(content: bytes, random: Random) -> bytes:
    at = random.randrange(len(content) + 1)
    return content[:at] + random.randbytes(random.choice([1, 8, 100])) + content[at:]


def without_a_part(content: bytes, random: Random) -> bytes:
    start = random.randrange(len(content) + 1)
    return content[:start] + content[start + random.choice([1, 8, 100]) :]


def of_zeros(content: bytes, _: Random) -> bytes:
    return bytes(len(content))


def of_another_kind(_: bytes, random: Random) -> bytes:
    others = (
        b"{}",
        b"[]",
        b"null",
        b"x",
        b"\x89PNG\r\n",
        b"PK\x03\x04",
        b"\x1f\x8b\x08",
        b"[" * 100_000,
    )
    return random.choice(others)


def shuffled(content: bytes, random: Random) -> bytes:
    lines = content.split(b"\n")
    one, other = random.randrange(len(lines)), random.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]
    return b"\n".join(lines)


def repeated(content: bytes, random: Random) -> bytes:
    lines = content.split(b"\n")
    lines.insert(random.randrange(len(lines) + 1), random.choice(lines))
    return b"\n".join(lines)


BYTES = (
    truncated, flipped, emptied, doubled, with_others, without_a_part, of_zeros, of_another_kind, shuffled,
    repeated,
)  # fmt: skip


def cell(content: bytes, random: Random) -> bytes:
    """Another text in one cell of a table or in one word of a line."""
    lines = content.decode("utf-8").split("\n")
    number = random.randrange(len(lines))
    between = next((mark for mark in ("\t", ",", " = ", " ") if mark in lines[number]), " ")
    cells = lines[number].split(between)
    cells[random.randrange(len(cells))] = random.choice(CELLS)
    lines[number] = between.join(cells)
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def json_value(content: bytes, random: Random) -> bytes:
    """Another value somewhere in JSON, or in one line of it."""
    lines = content.decode().splitlines() if b"}\n{" in content else [content.decode()]
    number = random.randrange(len(lines))
    lines[number] = _with_wrong_value(json.loads(lines[number]), random)
    return "\n".join(lines).encode()


def json_keys(content: bytes, random: Random) -> bytes:
    """A key that is gone, twice there, or called otherwise."""
    text = content.decode()
    if b"}\n{" in content:
        text = text.splitlines()[0]
    value = json.loads(text)
    tables = [one for one in _containers(value) if isinstance(one, dict) and one]
    if not tables:
        return b"{}"
    table = random.choice(tables)
    name = random.choice(list(table))
    match random.randrange(3):
        case 0:
            del table[name]
        case 1:
            table[random.choice(["x", "", "\x1b[31m", "0"])] = table.pop(name)
        case _:
            return text.replace(f'"{name}"', f'"{name}": 1, "{name}"', 1).encode()
    return json.dumps(value).encode()


def header_value(content: bytes, random: Random) -> bytes:
    """Another value in the header of safetensors, or in the JSON that stands in its metadata."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    metadata = header.get("__metadata__", {})
    if metadata and random.random() < 0.7:
        name = random.choice(list(metadata))
        try:
            metadata[name] = _with_wrong_value(json.loads(metadata[name]), random)
        except ValueError:
            metadata[name] = random.choice(["", "x", "[]", "1"])
        text = json.dumps(header)
    else:
        text = _with_wrong_value(header, random)
    return len(text.encode()).to_bytes(8, "little") + text.encode() + content[8 + length :]


def numpy_header(_: bytes, random: Random) -> bytes:
    """A header of numpy that declares other numbers than there are, or none."""
    kind = random.choice(["<f8", "<f2", "|S1000000000", "<U100000000", "|O", "<c16", "|V9", "?"])
    shape = random.choice(
        [(), (0,), (3, 3), (2, 3, 3), (100_000, 10_000_000), (2**62, 2**62), (1,) * 40]
    )
    file = BytesIO()
    header = {"descr": kind, "fortran_order": random.random() < 0.5, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue() + bytes(random.choice([0, 72]))


def blank_lines(content: bytes, random: Random) -> bytes:
    """More blank lines somewhere than are read."""
    lines = content.split(b"\n")
    lines[random.randrange(len(lines) + 1) : 0] = [random.choice([b"", b" ", b"\t"])] * 100_001
    return b"\n".join(lines)


def _with_wrong_value(value: Any, random: Random) -> str:
    """The value as JSON, with something wrong somewhere in it."""
    containers = [one for one in _containers(value) if one]
    if not containers:
        return random.choice(WRONG)
    chosen = random.choice(containers)
    chosen[random.choice(list(chosen) if isinstance(chosen, dict) else range(len(chosen)))] = _MARK
    return json.dumps(value).replace(json.dumps(_MARK), random.choice(WRONG))


def _containers(value: Any) -> list[Any]:
    found, left = [], [value]
    while left:
        one = left.pop()
        if isinstance(one, dict | list):
            found.append(one)
            left += one.values() if isinstance(one, dict) else one
    return found


def copy_of(folder: Path, to: Path) -> Path:
    """A copy of a folder, in place of what is there."""
    if to.exists():
        shutil.rmtree(to)
    return Path(shutil.copytree(folder, to))
