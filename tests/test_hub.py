"""A name on the hub is not waited for where there is no network, and a path never goes there."""

import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub import constants
from huggingface_hub.errors import LocalEntryNotFoundError

from attnlab.attention.bridge.saved import load_with_plan
from attnlab.core import hub
from attnlab.core.errors import InputError
from attnlab.evaluation import check_source_exists
from attnlab.evaluation.sources import model_and_texts

# Every way to give the name of a model.
READERS: dict[str, Callable[[str], object]] = {
    "study": lambda name: model_and_texts(name, sentences=["the cat runs ."]),
    "command line": check_source_exists,
    "plan": load_with_plan,
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Questions to a hub that does not answer, and to a cache without models."""
    questions: list[str] = []

    def unanswered() -> bool:
        questions.append("hub")
        return False

    def absent(name: str, *, revision: str | None, local_files_only: bool) -> str:
        assert local_files_only
        assert revision is None
        questions.append(name)
        msg = "not there"
        raise LocalEntryNotFoundError(msg)

    monkeypatch.setattr(hub, "hub_answers", unanswered)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", absent)
    return questions


def test_a_folder_is_itself(tmp_path: Path, asked: list[str]) -> None:
    assert hub.model_source(tmp_path) == hub.model_source(str(tmp_path)) == str(tmp_path)
    assert asked == []


@pytest.mark.parametrize(
    "name",
    ["./absent", "/absent/folder", "../absent", "a/b/c", "~/absent", "absent/", "two words", "",
     ".hidden", "-x/y", r"C:\models"],
)  # fmt: skip
@pytest.mark.parametrize("reader", READERS)
def test_a_path_that_does_not_exist_is_not_asked_for(
    reader: str, name: str, asked: list[str]
) -> None:
    with pytest.raises(InputError, match="is no name of a model on the hub; give a folder"):
        READERS[reader](name)
    assert asked == []


def test_a_file_is_no_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    for name in ("file", tmp_path / "file"):
        with pytest.raises(InputError, match="is a file and is no name of a model"):
            hub.model_source(name)
    assert asked == []


@pytest.mark.parametrize("name", ["gpt2", "google-t5/t5-small", "owner/model_v1.5", "x"])
@pytest.mark.parametrize("reader", READERS)
def test_a_name_is_refused_at_once_without_a_network(
    reader: str, name: str, asked: list[str]
) -> None:
    with pytest.raises(InputError, match="cannot be reached .*; check the path, or the network"):
        READERS[reader](name)
    assert asked == ["hub", name]


def test_what_was_downloaded_is_used_without_a_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[str]
) -> None:
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: str(tmp_path))
    assert hub.model_source("owner/model") == str(tmp_path)
    monkeypatch.setattr(hub, "hub_answers", lambda: True)
    assert hub.model_source("owner/model") == "owner/model"


@pytest.mark.parametrize("online", [True, False])
def test_a_revision_is_the_folder_that_it_is_downloaded_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, online: bool
) -> None:
    told = []

    def downloaded(name: str, *, revision: str, **options: object) -> str:
        told.append((name, revision, options.get("local_files_only", False)))
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", downloaded)
    monkeypatch.setattr(hub, "hub_answers", lambda: online)
    assert hub.model_source("owner/model@step-1.0") == str(tmp_path)
    assert told == [("owner/model", "step-1.0", not online)]
    assert hub.model_source("owner/model@refs/pr/1") == str(tmp_path)
    for name in ("owner/model@", "owner/model@a b", "@main", "a@b@c"):
        with pytest.raises(InputError, match="is no name of a model on the hub"):
            hub.model_source(name)


def test_a_revision_that_the_hub_lacks_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_: object, **__: object) -> str:
        msg = "no such revision"
        raise OSError(msg)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", absent)
    monkeypatch.setattr(hub, "hub_answers", lambda: True)
    with pytest.raises(InputError, match="cannot be downloaded from the hub"):
        hub.model_source("owner/model@nothing")


@pytest.mark.parametrize("reader", READERS)
def test_a_damaged_cache_and_a_name_that_the_hub_forbids_are_told(
    reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "hub_answers", lambda: False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    newest = tmp_path / "models--owner--name" / "refs" / "main"
    newest.parent.mkdir(parents=True)
    newest.write_bytes(b"\xff")
    for name in ("owner/name", "owner/two..dots"):
        with pytest.raises(InputError, match=f"'{name}' cannot be looked up in the cache"):
            READERS[reader](name)


@pytest.mark.parametrize("answer", ["refused", "silent", "no name"])
def test_an_unreachable_hub_is_found_out_in_a_moment(
    monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        if answer == "silent":
            listening.listen()
        over = threading.Event()

        def looked_up(*_: object, **__: object) -> None:
            over.wait()
            raise socket.gaierror

        if answer == "no name":
            monkeypatch.setattr(socket, "getaddrinfo", looked_up)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{port}")
        monkeypatch.setattr(hub, "HUB_ANSWER_SECONDS", 0.2)
        began = time.monotonic()
        with pytest.raises(InputError, match="the hub cannot be reached for a model of that name"):
            hub.model_source("owner/absent-model")
        assert time.monotonic() - began < 20
        over.set()


def test_the_hub_has_less_than_five_seconds_to_answer() -> None:
    assert hub.HUB_ANSWER_SECONDS < 5
