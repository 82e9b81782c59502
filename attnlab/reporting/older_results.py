"""Which results are of an older state of the run that they lie in; nothing heavy is imported."""

from pathlib import Path
from typing import Any

from attnlab.core.documents import read_json
from attnlab.core.errors import InputError, Note
from attnlab.core.files import file_checksum
from attnlab.core.texts import path_label
from attnlab.evaluation.shared_settings import OlderWeights, UnknownWeights
from attnlab.models.run_folder import WEIGHTS, is_run
from attnlab.reporting.result_folder import RECORD


def results_with(note: type[Note], run: str | Path) -> list[Path]:
    """The results in a run of which `notes_on_weights` gives such a note."""
    folders = (path.parent for path in sorted(Path(run).glob(f"*/{RECORD}")))
    return [
        folder
        for folder in folders
        if any(isinstance(one, note) for one in notes_on_weights(folder))
    ]


def notes_on_weights(folder: str | Path) -> list[Note]:
    """A note where the result in `folder` is not known to be of the weights that its run has now."""
    # A folder given as `.` has a parent too.
    run = Path(folder).resolve().parent
    name = path_label(Path(folder).parent)
    try:
        record = read_json(Path(folder) / RECORD, dict[str, Any], finite=False)
        weights = file_checksum(run / WEIGHTS)
    except (OSError, InputError):  # no result, none of this version, or no run
        return []
    if "weights" not in record:
        return [UnknownWeights(name)] if is_run(run) else []
    # What is of no run has none.
    return [] if record["weights"] in (None, weights) else [OlderWeights(name)]
