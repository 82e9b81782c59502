"""What other installed distributions add to attnlab, through Python entry points."""

from functools import cache
from importlib.metadata import entry_points

from attnlab.errors import InputError


@cache
def plugins(group: str) -> dict[str, object]:
    """Objects that installed distributions register under `group`, by the name of their entry point.

    An entry point stands in the `pyproject.toml` of the other distribution::

        [project.entry-points."attnlab.mechanisms"]
        nearest = "my_module:NearestAttention"

    Raises:
        InputError: one of them cannot be imported, or two distributions register one name.
    """
    found: dict[str, object] = {}
    for point in entry_points(group=group):
        origin = "an unnamed distribution" if point.dist is None else point.dist.name
        if point.name in found:
            msg = f"'{point.name}' is registered twice under {group}; uninstall one, such as {origin}."
            raise InputError(msg)
        try:
            found[point.name] = point.load()
        except Exception as error:
            msg = f"'{point.name}' of {origin} cannot be imported from {point.value}: {error}"
            raise InputError(msg) from error
    return found
