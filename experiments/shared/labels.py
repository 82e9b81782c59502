"""The labels of an analysis that was made with labels."""

from dataclasses import replace

from attnlab.reading import ALL, rows_of_view
from attnlab.results import Result

_OF_VIEWS = ("labels", "controls", "structure")


def with_all_keys(analysis: Result) -> Result:
    """The analysis with what each head does and looks like, with every key counted.

    Raises:
        ValueError: the analysis has no labels.
    """
    if "labels" not in analysis.tables:
        msg = "the analysis was made without labels"
        raise ValueError(msg)
    there = [name for name in _OF_VIEWS if name in analysis.tables]
    some = {name: rows_of_view(analysis.tables[name], ALL) for name in there}
    return replace(analysis, tables={**analysis.tables, **some})
