"""Writing files so that what existed is never damaged: a temporary file beside the target, then a rename."""

import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnlab.errors import AttnlabError

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yields a temporary path beside `path`; when the block ends well the temporary file takes its place.

    If the block raises, `path` is as it was and the temporary file is gone.

    Raises:
        AttnlabError: the disk is full or the folder cannot be written.
    """
    path = Path(path)
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        os.close(handle)
        temporary = Path(name)
        yield temporary
        # Afterwards, because a writer may have put a new file in this one's place.
        temporary.chmod(0o644)
        temporary.replace(path)
    except Exception as error:
        if not isinstance(error, OSError | _safetensors_error()):
            raise
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        msg = f"Could not write {path}: {reason}; what was there before is unchanged."
        raise AttnlabError(msg) from error
    finally:
        # Where it cannot be deleted either, the first error is the one to tell.
        with suppress(OSError):
            if temporary is not None:
                temporary.unlink(missing_ok=True)


def _safetensors_error() -> type[Exception]:
    """What safetensors raises instead of an OSError; nobody raises it before the library is loaded."""
    loaded = sys.modules.get("safetensors")
    return OSError if loaded is None else loaded.SafetensorError


def write_text(path: str | Path, text: str) -> None:
    """Writes `text` as UTF-8 with line feeds as line ends, atomically."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_json(path: str | Path, value: Any) -> None:
    """Writes `value` as indented JSON, atomically."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def write_table(path: str | Path, table: "pd.DataFrame") -> None:
    """Writes a tidy table as CSV without its index, atomically."""
    with replacing(path) as temporary:
        table.to_csv(temporary, index=False, lineterminator="\n")


def write_tensors(
    path: str | Path, tensors: "Mapping[str, Tensor]", metadata: Mapping[str, str] | None = None
) -> None:
    """Writes named tensors as safetensors, atomically; `metadata` holds strings only."""
    from safetensors.torch import save_file

    with replacing(path) as temporary:
        save_file(
            {name: tensor.contiguous() for name, tensor in tensors.items()},
            temporary,
            # An empty mapping would make a file without tensors unreadable.
            metadata=dict(metadata) if metadata else None,
        )
