"""The columns of a change of a measure; nothing heavy is imported.

`attnlab.studies.differences` fills them.
"""

from attnlab.core.columns import Column


def declared_changes(
    stem: str,
    title: str,
    meaning: str,
    *,
    digits: int,
    unit: str = "",
    heading: str | None = None,
    short: str = "",
) -> tuple[Column, ...]:
    """Columns of a change and its interval."""
    return (
        Column(f"{stem}_change{unit}", heading or f"{title}, change", meaning, digits, short),
        Column(f"{stem}_low", f"{title}, low", "Lower end of its 95 % interval.", digits),
        Column(f"{stem}_high", f"{title}, high", "Upper end of its 95 % interval.", digits),
    )


def declared_tests(stem: str, title: str, *, together: str) -> tuple[Column, ...]:
    """Columns of the test of a change; `together` are the tests that Holm corrects."""
    return (
        Column(
            f"{stem}_p_value",
            f"{title}, p",
            "Its p-value by a paired bootstrap over sentences, not corrected.",
            3,
        ),
        Column(
            f"{stem}_significant",
            f"{title}, significant",
            f"Whether that is below 5 % after Holm's correction for {together}.",
        ),
    )
