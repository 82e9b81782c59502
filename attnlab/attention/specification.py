"""How a mechanism is written down: `"band(window=3)"` is read into a frozen value and printed back.

One dataclass a mechanism; its fields are the options, checked here. Nothing is evaluated, and no
tensor library is imported. Annotations that a user's text may break are wide on purpose: the
sentence that refuses a value is worth more than a type error.
"""

import ast
import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from attnlab.errors import InputError

Window = tuple[int, int]


@dataclass(frozen=True)
class Specification:
    """A mechanism's name and options; `str()` prints what `parse` reads.

    Attributes:
        choices: the values of options that take one of a few words.
    """

    name: ClassVar[str]
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    def __str__(self) -> str:
        options = ", ".join(
            f"{field.name}={getattr(self, field.name)!r}"
            for field in dataclasses.fields(self)
            if field.default is dataclasses.MISSING or getattr(self, field.name) != field.default
        )
        return f"{self.name}({options})" if options else self.name

    def _whole(self, option: str, least: int) -> None:
        """Refuses an option that is no whole number from `least` up."""
        value = getattr(self, option)
        if type(value) is not int or value < least:
            msg = (
                f"The option '{option}' of '{self.name}' is a whole number from {least} up, "
                f"not {value!r}."
            )
            raise InputError(msg)

    def _chosen(self) -> None:
        """Refuses an option that is none of its choices."""
        for option, choices in self.choices.items():
            value = getattr(self, option)
            if value not in choices:
                listed = ", ".join(repr(choice) for choice in choices)
                msg = f"The option '{option}' of '{self.name}' is one of {listed}, not {value!r}."
                raise InputError(msg)

    def _window(self) -> None:
        """Replaces the option `window` by its shortest form; one number stands for both sides."""
        left, right = sides(self.name, getattr(self, "window"))  # noqa: B009 - not every kind has one
        object.__setattr__(self, "window", left if left == right else (left, right))


@dataclass(frozen=True)
class Full(Specification):
    """Every query sees every key."""

    name: ClassVar[str] = "full"


@dataclass(frozen=True)
class Band(Specification):
    """A query sees the keys at offsets -left..right; one number stands for both sides."""

    name: ClassVar[str] = "band"
    window: Any

    def __post_init__(self) -> None:
        self._window()


@dataclass(frozen=True)
class Longformer(Specification):
    """A dilated window, and global tokens that see all and are seen by all.

    `global_tokens` are positions in the sentence, negative ones counted from its end.
    """

    name: ClassVar[str] = "longformer"
    window: Any
    dilation: Any = 1
    global_tokens: Any = (0,)

    def __post_init__(self) -> None:
        self._window()
        self._whole("dilation", 1)
        positions = self.global_tokens
        if not isinstance(positions, list | tuple) or any(type(at) is not int for at in positions):
            msg = (
                f"The option 'global_tokens' of '{self.name}' is a list of positions such as "
                f"[0, -1], not {positions!r}."
            )
            raise InputError(msg)
        object.__setattr__(self, "global_tokens", tuple(dict.fromkeys(positions)))


@dataclass(frozen=True)
class BigBird(Specification):
    """Blocks of keys: the three nearest, `global_blocks` at the ends, `random` ones drawn once."""

    name: ClassVar[str] = "bigbird"
    block: Any = 64
    random: Any = 3
    global_blocks: Any = 2
    seed: Any = 0

    def __post_init__(self) -> None:
        self._whole("block", 1)
        for option in ("random", "global_blocks", "seed"):
            self._whole(option, 0)


@dataclass(frozen=True)
class Sigma(Specification):
    """A band, `num_pos` columns chosen before scoring, and `extra` entries in each row."""

    name: ClassVar[str] = "sigma"
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "columns": ("salience", "frequency", "first", "random"),
        "entries": ("random", "offsets"),
    }
    window: Any
    num_pos: Any = 2
    columns: Any = "salience"
    extra: Any = 0
    entries: Any = "random"
    seed: Any = 0

    def __post_init__(self) -> None:
        self._window()
        for option in ("num_pos", "extra", "seed"):
            self._whole(option, 0)
        self._chosen()


@dataclass(frozen=True)
class Linear(Specification):
    """A kernel of feature vectors in place of the softmax."""

    name: ClassVar[str] = "linear"
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"feature": ("elu", "taylor", "favor")}
    feature: Any = "elu"
    features: Any = 64
    seed: Any = 0

    def __post_init__(self) -> None:
        self._chosen()
        self._whole("features", 1)
        self._whole("seed", 0)


@dataclass(frozen=True)
class Linformer(Specification):
    """Keys and values projected to `k` of them; `max_length` is the longest sentence there may be."""

    name: ClassVar[str] = "linformer"
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"share": ("none", "heads", "kv", "layers")}
    k: Any
    max_length: Any = 512
    share: Any = "none"

    def __post_init__(self) -> None:
        self._whole("k", 1)
        self._whole("max_length", 1)
        self._chosen()


@dataclass(frozen=True)
class Scatterbrain(Specification):
    """Random features everywhere, exact scores inside the window."""

    name: ClassVar[str] = "scatterbrain"
    window: Any
    features: Any = 64
    seed: Any = 0

    def __post_init__(self) -> None:
        self._window()
        self._whole("features", 1)
        self._whole("seed", 0)


@dataclass(frozen=True)
class Fixed(Specification):
    """Weights that follow from positions alone."""

    name: ClassVar[str] = "fixed"
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "pattern": ("self", "previous", "next", "left", "right", "start", "end")
    }
    pattern: Any

    def __post_init__(self) -> None:
        self._chosen()


@dataclass(frozen=True)
class TopK(Specification):
    """Each query keeps the `k` keys it scores highest."""

    name: ClassVar[str] = "topk"
    k: Any

    def __post_init__(self) -> None:
        self._whole("k", 1)


KINDS = (
    Full,
    Band,
    Longformer,
    BigBird,
    Sigma,
    Linear,
    Linformer,
    Scatterbrain,
    Fixed,
    TopK,
)
SPECIFICATIONS: dict[str, type[Specification]] = {kind.name: kind for kind in KINDS}


def parse(text: str) -> Specification:
    """The specification that `text` writes down.

    Raises:
        InputError: unknown mechanism, unknown or missing option, or a value out of range.

    >>> parse("band(window=3)")
    Band(window=3)
    >>> str(parse("band(window=(3, 0))"))
    'band(window=(3, 0))'
    >>> str(parse("fixed(pattern=next)"))
    "fixed(pattern='next')"
    """
    name, options = _name_and_options(text)
    if name not in SPECIFICATIONS:
        msg = f"There is no mechanism '{name}'; choose from: {', '.join(SPECIFICATIONS)}."
        raise InputError(msg)
    kind = SPECIFICATIONS[name]
    fields = {field.name: field for field in dataclasses.fields(kind)}
    choices = f"its options are: {', '.join(fields) or 'none'}"
    for option in options:
        if option not in fields:
            msg = f"The mechanism '{name}' has no option '{option}'; {choices}."
            raise InputError(msg)
    for option, field in fields.items():
        if option not in options and field.default is dataclasses.MISSING:
            msg = f"The mechanism '{name}' needs the option '{option}'; {choices}."
            raise InputError(msg)
    return kind(**options)


def _name_and_options(text: str) -> tuple[str, dict[str, Any]]:
    bad = f"'{text}' does not read as a mechanism; write it like: band(window=3)."
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise InputError(bad) from error
    if isinstance(tree, ast.Name):
        return tree.id, {}
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name) or tree.args:
        raise InputError(bad)
    try:
        options = {word.arg: _value(word.value) for word in tree.keywords}
    except ValueError as error:
        raise InputError(bad) from error
    if None in options:
        raise InputError(bad)
    return tree.func.id, {str(name): value for name, value in options.items()}


def _value(written: ast.expr) -> Any:
    """A literal; a word may stand without the quotes, which shells take away."""
    return written.id if isinstance(written, ast.Name) else ast.literal_eval(written)


def sides(name: str, window: Any) -> Window:
    """The window as (left, right); one number stands for both sides.

    Raises:
        InputError: the window is no number or pair from 0 up; the message names the mechanism.
    """
    pair = (window, window) if isinstance(window, int) else window
    whole = isinstance(pair, tuple) and all(type(side) is int and side >= 0 for side in pair)
    if isinstance(window, bool) or not whole or len(pair) != 2:
        msg = (
            f"The window of '{name}' is a number or a pair (left, right) from 0 up, not {window!r}."
        )
        raise InputError(msg)
    return (pair[0], pair[1])
