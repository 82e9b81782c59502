"""Corpora that the library datasets keeps: folders it saved, and the hub with its cache."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnlab.core import (
    HUB_NAME,
    AttnlabError,
    InputError,
    check_files_in,
    hub_answers,
    nearest,
    reason,
)
from attnlab.corpora.readers import SPLIT_NAMES, check_present, checked_pair
from attnlab.corpora.rows import ROWS_AT_ONCE, Pair, Splits

if TYPE_CHECKING:
    import datasets

EMBEDDED_NAME = "embedded"
HUB_NAMES = {"opus_books": "Helsinki-NLP/opus_books"}
OFFLINE_CHOICES = (
    'without a network use the corpus "embedded" or the path of a file or folder on this machine'
)


def is_saved_folder(path: Path) -> bool:
    """Whether `datasets` saved this folder with `save_to_disk`."""
    return (path / "dataset_dict.json").is_file() or (path / "state.json").is_file()


def read_saved(path: Path, languages: tuple[str, str]) -> Splits:
    """The rows of every split in a folder that `save_to_disk` wrote.

    Raises:
        InputError: the folder is damaged, has no training part, or not these languages.
    """
    import datasets

    for folder in (path, *(part for part in path.iterdir() if part.is_dir())):
        check_files_in(folder)
    try:
        saved = datasets.load_from_disk(path)
    except (OSError, ValueError, KeyError) as error:
        msg = f"{path} cannot be read as a folder saved by datasets ({error}); save it again."
        raise InputError(msg) from error
    return read_parts(saved, languages, str(path))


def read_parts(
    parts: "datasets.Dataset | datasets.DatasetDict",
    languages: tuple[str, str],
    where: str,
    *,
    empty_sides: bool = False,
) -> Splits:
    """The rows of every split of known name; a dataset without splits is all training rows.

    With `empty_sides` rows with an empty side are left out, otherwise they are refused.

    Raises:
        InputError: there is no training part, or a row has not both languages.
    """
    named = dict(parts) if isinstance(parts, dict) else {"train": parts}
    splits: Splits = {
        SPLIT_NAMES[name]: read_rows(part, languages, f"{where}, {name}", empty_sides=empty_sides)
        for name, part in named.items()
        if name in SPLIT_NAMES
    }
    if not any(SPLIT_NAMES.get(name) == "train" and len(part) for name, part in named.items()):
        msg = f"{where} has no training rows; its parts are {', '.join(named) or 'none'}."
        raise InputError(msg)
    return splits


def read_rows(
    part: "datasets.Dataset", languages: tuple[str, str], where: str, *, empty_sides: bool = False
) -> Iterator[Pair]:
    """The rows of one dataset: columns source and target, a column a language, or `translation`.

    Raises:
        InputError: none of these columns, not these languages, or an empty sentence.
    """
    columns = part.column_names
    if "translation" in columns:
        table = part.flatten()
        prefix = "translation."
        present = [name.removeprefix(prefix) for name in table.column_names if prefix in name]
        names = tuple(prefix + language for language in languages)
    elif {"source", "target"} <= set(columns):
        table, present, names = part, list(languages), ("source", "target")
    else:
        table, present, names = part, columns, languages
    check_present(languages, sorted(present), where)
    some = table.select_columns(list(names)).iter(ROWS_AT_ONCE)
    sides = chain.from_iterable(zip(rows[names[0]], rows[names[1]], strict=True) for rows in some)
    return (
        checked_pair(source, target, f"{where}, row {row},")
        for row, (source, target) in enumerate(sides)
        if not (empty_sides and (_is_empty(source) or _is_empty(target)))
    )


def _is_empty(side: Any) -> bool:
    return side is None or (isinstance(side, str) and not side.strip())


def read_hub(name: str, languages: tuple[str, str]) -> Splits:
    """The rows of every split of a corpus on the hub or, without a network, of its earlier download.

    The hub is asked first whether it is there, with a limit of time: the library itself would go on
    trying for half a minute without a network. Rows with an empty side, which a user of a hub
    corpus cannot mend, are left out.

    Raises:
        InputError: no such corpus, no copy of it where the hub does not answer, or not in these languages.
        AttnlabError: it could not be loaded.
    """
    import datasets

    if not HUB_NAME.fullmatch(name):
        msg = f'There is no corpus "{name}", neither by that name nor as a path; try: attnlab corpora.'
        raise InputError(msg)
    hub_name = HUB_NAMES.get(name, name)
    try:
        if hub_answers():
            present = datasets.get_dataset_config_names(hub_name)
            loaded = datasets.load_dataset(hub_name, pick_configuration(present, languages, name))
        else:
            loaded = load_downloaded(hub_name, languages, name)
    except datasets.exceptions.DatasetNotFoundError as error:
        msg = (
            f'There is no corpus "{name}", neither as a path on this machine nor open to you on the '
            f"hub; {_meant(name) or 'see: attnlab corpora.'}"
        )
        raise InputError(msg) from error
    except (OSError, ValueError, RuntimeError) as error:
        msg = f'The corpus "{name}" could not be loaded ({reason(error)}); {OFFLINE_CHOICES}.'
        raise AttnlabError(msg) from error
    return read_parts(loaded, languages, f'The corpus "{name}"', empty_sides=True)


def _meant(name: str) -> str:
    """The known corpus whose name is near, as a question; empty where none is.

    >>> _meant("embeded")
    'did you mean "embedded"?'
    """
    names = (EMBEDDED_NAME, *HUB_NAMES)
    near = None if name in names else nearest(name, names)
    return f'did you mean "{near}"?' if near else ""


def load_downloaded(hub_name: str, languages: tuple[str, str], name: str) -> "datasets.DatasetDict":
    """The corpus that an earlier download left in the cache of datasets, read without asking the hub.

    Raises:
        InputError: nothing is there, or what is there is not in these languages.
    """
    import datasets
    from datasets.packaged_modules.cache.cache import Cache

    folder = Path(datasets.config.HF_DATASETS_CACHE) / hub_name.replace("/", "___")
    present = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
    if not present:
        msg = (
            f'"{name}" is no path on this machine, and the hub, where it may be, cannot be reached; '
            f"{_meant(name) or OFFLINE_CHOICES + '.'}"
        )
        raise InputError(msg)
    configuration = pick_configuration(present, languages, name)
    copy = Cache(
        repo_id=hub_name,
        dataset_name=hub_name.rsplit("/", maxsplit=1)[-1],
        config_name=configuration,
        version="auto",
        hash="auto",
    )
    return copy.as_dataset()


def pick_configuration(present: list[str], languages: tuple[str, str], name: str) -> str:
    """The configuration of a hub corpus for two languages, in either order: `en-it`, `de-en`.

    Raises:
        InputError: none of the configurations is for these languages.
    """
    source, target = languages
    for pair in (f"{source}-{target}", f"{target}-{source}"):
        for configuration in present:
            if configuration == pair or configuration.endswith(f"-{pair}"):
                return configuration
    if len(present) == 1:
        return present[0]
    msg = (
        f'The corpus "{name}" has no pair {source}-{target}; '
        f"it has {', '.join(sorted(present))}: choose with pair."
    )
    raise InputError(msg)
