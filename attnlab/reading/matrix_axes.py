"""Names of the axes of arrays of attention matrices; nothing heavy is imported."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from attnlab.core import InputError, Note, Option, counted

# In the order in which they are kept.
AXES = ("layers", "texts", "heads", "query", "key")
# By the number of axes; four are what stacking the weights gives that a model returns for one text.
_OF_ARRAY = {2: AXES[3:], 3: AXES[2:], 4: ("layers", "heads", "query", "key"), 5: AXES}
# Of an array that is one of several layers, as a model returns it of a batch of texts.
_OF_LAYER = {2: AXES[3:], 3: AXES[2:], 4: AXES[1:]}
# `arr_0` is what `numpy.savez(path, *arrays)` calls the first.
_LAYER = re.compile(r"(layers?[._-]?|arr_|(?:encoder|decoder|cross)\.)([0-9]{1,9})")
AXES_OPTION = Option(
    f"Axes of a file's array in its order, of {', '.join(AXES)}; commas between.",
    shown="heads,query,key of three, layers before them of four, layers,texts of five",
    read=lambda text: tuple(word.strip() for word in text.split(",")),
)


@dataclass(frozen=True)
class AxesTaken(Note):
    """The names that the axes of a file's array were taken for.

    Attributes:
        axes: their names, in the order of the file.
        shape: their sizes.
        arrays: names of the arrays that are its layers; none where one array is all.
    """

    axes: tuple[str, ...]
    shape: tuple[int, ...]
    arrays: tuple[str, ...] = ()

    @property
    def batch(self) -> tuple[str, ...]:
        """Names of the axes before query and key, in the order in which they are kept."""
        return tuple(name for name in AXES[:3] if name in self.axes)

    def __str__(self) -> str:
        axes = f"axes, {' x '.join(map(str, self.shape))},"
        names = f"{', '.join(self.axes)} (option axes)"
        if not self.arrays:
            return f"The array's {axes} are taken for {names}."
        if len(self.arrays) == 1:
            return f"The array {self.arrays[0]} is taken for this layer, its {axes} for {names}."
        which = f"{self.arrays[0]} to {self.arrays[-1]}"
        return (
            f"The {len(self.arrays)} arrays {which} are taken for layers, their {axes} for {names}."
        )


def check_axes(axes: Sequence[str] | None) -> None:
    """Raises InputError for axes that are no axes of matrices; None is for those of the rule."""
    if axes is None:
        return
    unknown = next((name for name in axes if name not in AXES), None)
    if unknown is not None or len(set(axes)) < len(axes) or not {"query", "key"} <= set(axes):
        why = "one is named twice, or query or key is missing"
        msg = (
            f"'{','.join(axes)}' names no axes of matrices: "
            f"{why if unknown is None else f'there is no axis {unknown!r}'}; name each axis of the array "
            f"once, in its order, from: {', '.join(AXES)}."
        )
        raise InputError(msg)


def axes_of(
    dimensions: int,
    axes: Sequence[str] | None = None,
    *,
    of_layer: bool = False,
    array: str = "The array",
) -> tuple[str, ...]:
    """Names of the axes of an array with so many.

    Two are (query, key), three (heads, query, key), four (layers, heads, query, key), five (layers, texts,
    heads, query, key); where each layer has an array of its own, four are (texts, heads, query, key).

    Args:
        dimensions: how many it has.
        axes: their names, where the user says them.
        of_layer: whether the array is that of a layer.
        array: which one it is, for messages.

    Raises:
        InputError: there are as many names as axes neither by the rule nor in `axes`.

    >>> axes_of(4), axes_of(4, of_layer=True)
    (('layers', 'heads', 'query', 'key'), ('texts', 'heads', 'query', 'key'))
    """
    check_axes(axes)
    taken = (_OF_LAYER if of_layer else _OF_ARRAY).get(dimensions) if axes is None else tuple(axes)
    if taken is not None and of_layer and "layers" in taken:
        msg = f"{array} is that of a layer, so none of its axes is layers; leave it out."
        raise InputError(msg)
    if taken is None or len(taken) != dimensions:
        most = max(_OF_LAYER if of_layer else _OF_ARRAY)
        what = f"what can be read has 2 to {most}" if taken is None else f"{len(taken)} are named"
        msg = f"{array} has {counted(dimensions, 'dimension')}, and {what}; axes are: {', '.join(AXES)}."
        raise InputError(msg)
    return taken


def layers_among(names: Sequence[str]) -> dict[str, int] | None:
    """Numbers of layers by the name of their array, in ascending order; None where these are no layers.

    >>> layers_among(["layer10", "layer9"]), layers_among(["decoder.3"]), layers_among(["heads"])
    ({'layer9': 9, 'layer10': 10}, {'decoder.3': 3}, None)
    """
    parts = {name: _LAYER.fullmatch(name) for name in names}
    prefixes = {None if part is None else part[1] for part in parts.values()}
    if len(prefixes) != 1 or None in prefixes or (len(names) == 1 and prefixes == {"arr_"}):
        return None
    numbers = {name: int(part[2]) for name, part in parts.items() if part is not None}
    if len(set(numbers.values())) < len(numbers):
        return None
    return dict(sorted(numbers.items(), key=lambda item: item[1]))
