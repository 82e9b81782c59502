"""Sources of transformers models: a folder, the hub, or an earlier download."""

import re
import threading
import urllib.error
import urllib.request
from pathlib import Path

from attnlab.core.errors import InputError, reason
from attnlab.core.folders import similar_folder

HUB_ANSWER_SECONDS = 4.0
# The owner's name and that of the model or corpus, or of a few old ones the name alone.
HUB_NAME = re.compile(r"[A-Za-z0-9][\w.\-]*(/[A-Za-z0-9][\w.\-]*)?")
# A branch, a tag, a commit or refs/pr/1, behind the @ of a name.
_REVISION = re.compile(r"[\w.\-]+(/[\w.\-]+)*")
# Weights of other libraries.
_OF_OTHERS = ["*.h5", "*.msgpack", "*.onnx", "*.ot", "*.gguf", "*.tflite"]


def model_source(name: str | Path) -> str:
    """The source that transformers can load `name` from without waiting for an absent network.

    That is `name` itself where it is a folder or the hub answers, or else the folder in the cache
    that holds the model from an earlier download; of a revision, `name@revision`, always that
    folder, to which it is downloaded where the hub answers. The hub is asked once, see `hub_answers`;
    transformers itself would try for half a minute.

    Raises:
        InputError: `name` is neither a folder nor can it be a name on the hub, or the hub does not
            answer and the model was never downloaded, or cannot be read in the cache.
    """
    text = str(name)
    if text and Path(text).is_dir():
        return text
    bare, at, revision = text.partition("@")
    named = HUB_NAME.fullmatch(bare) and (not at or _REVISION.fullmatch(revision))
    if not named or Path(text).exists():
        state = "is a file" if Path(text).is_file() else "does not exist"
        msg = f"{text!r} {state} and is no name of a model on the hub; give a folder with a model."
        raise InputError(msg)
    online = hub_answers()
    if online and not at:
        return text
    downloaded = downloaded_folder(text, online=online)
    if downloaded is None:
        msg = (
            f"There is no folder {text!r}, and the hub cannot be reached for a model of that name; "
            f"check the path, or the network.{similar_folder(text)}"
        )
        raise InputError(msg)
    return downloaded


def hub_answers() -> bool:
    """Whether the hub can be reached, found out in `HUB_ANSWER_SECONDS`, whatever the network does."""
    from huggingface_hub import constants

    if constants.is_offline_mode():
        return False
    answers: list[bool] = []
    # The time limit of a connection does not hold for looking up its name.
    asking = threading.Thread(
        target=lambda: answers.append(_answers(constants.ENDPOINT)), daemon=True
    )
    asking.start()
    asking.join(HUB_ANSWER_SECONDS)
    return answers == [True]


def _answers(endpoint: str) -> bool:
    question = urllib.request.Request(endpoint, method="HEAD")  # noqa: S310 - the hub
    try:
        with urllib.request.urlopen(question, timeout=HUB_ANSWER_SECONDS):  # noqa: S310 - the hub
            return True
    except urllib.error.HTTPError:
        return True  # an answer, if an unkind one
    except OSError:
        return False


def downloaded_folder(name: str, *, online: bool = False) -> str | None:
    """The folder in the cache with the files of a model; None where there is none.

    Args:
        name: of the model, with `@` and a revision where that is not the newest.
        online: whether what is not there is downloaded; of a revision alone.

    Raises:
        InputError: the cache is damaged, or the name is none that the hub has or allows.
    """
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        bare, _, revision = name.partition("@")
        if online:
            return snapshot_download(bare, revision=revision, ignore_patterns=_OF_OTHERS)
        return snapshot_download(bare, revision=revision or None, local_files_only=True)
    except LocalEntryNotFoundError:
        return None
    except (OSError, ValueError) as error:
        if online:
            msg = f"{name!r} cannot be downloaded from the hub ({reason(error)}); correct the name."
            raise InputError(msg) from error
        msg = (
            f"{name!r} cannot be looked up in the cache of the hub, {constants.HF_HUB_CACHE} "
            f"({reason(error)}); correct the name, or delete the model there and download it again."
        )
        raise InputError(msg) from error
