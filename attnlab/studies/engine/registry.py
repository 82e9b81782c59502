"""The one table of studies, by name."""

from collections.abc import Mapping
from functools import cache

from attnlab.errors import InputError
from attnlab.plugins import with_plugins
from attnlab.studies.engine.study import CellKind, Study
from attnlab.studies.planning.study import PLAN_SEARCH
from attnlab.studies.random_search.study import RANDOM_SEARCH
from attnlab.studies.substitution.study import SUBSTITUTION

STUDIES = {study.name: study for study in (RANDOM_SEARCH, SUBSTITUTION, PLAN_SEARCH)}


@cache
def studies() -> Mapping[str, Study]:
    """All studies by name: attnlab's own, then those of other distributions.

    Another distribution registers a `Study` as an entry point of the group `attnlab.studies`; it must be
    installed wherever cells are computed.

    Raises:
        InputError: what is registered is no study, or has the name of another.
    """
    return with_plugins(
        "attnlab.studies",
        STUDIES,
        "an attnlab.studies.engine.study.Study",
        lambda study: isinstance(study, Study),
        lambda study: study.name,
    )


def study_named(name: str) -> Study:
    """The study of that name.

    Raises:
        InputError: there is none.
    """
    if name not in studies():
        msg = f"There is no study '{name}'; choose from: {', '.join(studies())}."
        raise InputError(msg)
    return studies()[name]


def kind_named(name: str) -> CellKind:
    """The kind of cells of that name.

    Raises:
        InputError: no study here has such cells.
    """
    for study in studies().values():
        if study.kind.name == name:
            return study.kind
    msg = f"No study installed here has cells of the kind '{name}'; install what registers it."
    raise InputError(msg)
