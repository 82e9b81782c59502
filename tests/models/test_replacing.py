"""Whatever stops `train`, at whatever step: the old run or the new one is whole, and a command goes on.

A child process runs the command and meets one fault at the n-th step that changes a file, for every n.
"""

import dataclasses
import errno
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from faults import BROKEN, MEMORY, in_child
from planted_links import assert_nothing_gets_outside
from small_run import small_settings

from attnlab.core.errors import AttnlabError, InputError
from attnlab.core.files import write_json, write_text
from attnlab.corpora.corpus import ParallelCorpus
from attnlab.models import checkpoints, training
from attnlab.models import run_replacement as replacing
from attnlab.models.run import corpus_of, new_record
from attnlab.models.run_folder import (
    DELETED,
    MOVING,
    REPLACED,
    delete_older_checkpoints,
    is_trained,
    new_checkpoint,
    read_record,
    remove_run,
)
from attnlab.models.run_replacement import recover
from attnlab.models.tokenizer import Tokenizers, train_tokenizers
from attnlab.models.training import Trained, resume, train
from attnlab.models.training_batches import encode_corpus

# Of a process with threads: the child leaves them alone.
pytestmark = pytest.mark.filterwarnings("ignore:This process")
VERBS: dict[str, Callable[[Path], Trained]] = {
    "train": lambda folder: train(folder, small_settings(), command="new"),
    "--resume": resume,
    "--overwrite": lambda folder: train(folder, small_settings(), overwrite=True, command="new"),
}


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """In memory where that is possible: tens of thousands of files are written, synchronised and deleted."""
    if not os.access(MEMORY, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="replacing-", dir=MEMORY) as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def corpus() -> ParallelCorpus:
    return corpus_of(small_settings())


@pytest.fixture(scope="module")
def prepared(corpus: ParallelCorpus) -> dict[str, Any]:
    """What training makes before it writes, by the function that makes it."""
    settings = small_settings()
    tokenizers = train_tokenizers(corpus, kind="bpe", vocabulary=200)
    encoded = encode_corpus(corpus, tokenizers, max_tokens=40)
    return {
        "corpus_of": corpus,
        "recorded_corpus": corpus,
        "train_tokenizers": tokenizers,
        "encoded_corpus": encoded,
        "prepare": training.prepare(Path("unused"), settings, corpus, tokenizers, encoded),
    }


@pytest.fixture(autouse=True)
def quick(prepared: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of a training without the training."""
    for name, value in prepared.items():
        monkeypatch.setattr(training, name, lambda *_, value=value, **__: value)
    monkeypatch.setattr("attnlab.models.run.versions", lambda: {"torch": "2.8.0"})
    monkeypatch.setattr(training, "_fit", write_trained)
    monkeypatch.setattr(checkpoints, "damage", lambda *_: None)

    def load_written(folder: Path) -> Tokenizers:
        if not (folder / "token_counts.json").exists():
            msg = f"{folder} holds no tokenizers"
            raise InputError(msg)
        return prepared["train_tokenizers"]

    monkeypatch.setattr(training, "load_tokenizers", load_written)


def write_trained(folder: Path, *_: object, record: dict[str, Any], **__: object) -> Trained:
    """What training leaves: a checkpoint, its state last, and the model."""
    try:
        write_checkpoint(folder)
    except OSError as error:
        msg = "Could not write a checkpoint."
        raise AttnlabError(msg) from error
    return Trained(folder, [], record, interrupted=False, parameters=1, kept_step=5)


def write_checkpoint(folder: Path) -> None:
    checkpoint = folder / "checkpoints" / "checkpoint-5"
    checkpoint.mkdir(parents=True, exist_ok=True)
    for name in ("model.safetensors", "optimizer.pt", "scheduler.pt"):
        (checkpoint / name).write_bytes(b"new")
    write_json(
        checkpoint / "trainer_state.json",
        {"global_step": 5, "log_history": [], "best_global_step": 5, "epoch": 1.0},
    )
    (folder / ".model-x").mkdir(exist_ok=True)
    (folder / ".model-x" / "model.safetensors").write_bytes(b"new")
    (folder / ".model-x" / "model.safetensors").replace(folder / "model.safetensors")
    (folder / ".model-x").rmdir()


@pytest.fixture
def run(tmp_path: Path, corpus: ParallelCorpus, prepared: dict[str, Any]) -> Path:
    """A finished run, part of it behind links, with a file of the user's."""
    for name in ("store", "pages"):
        (tmp_path / "outside" / name).mkdir(parents=True)
        (tmp_path / "outside" / name / "precious").write_bytes(name.encode())
    folder = tmp_path / "run"
    write_json(folder / "settings.json", new_record(small_settings(), corpus, {}, "old"))
    prepared["train_tokenizers"].save(folder)
    for name in ("config.json", "model.safetensors", ".config.json.killed"):
        (folder / name).write_bytes(b"old " + name.encode())
    for name in ("model.safetensors", "optimizer.pt", "scheduler.pt"):
        path = folder / "checkpoints" / "checkpoint-3" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"old")
    write_json(
        path.with_name("trainer_state.json"),
        {"global_step": 3, "log_history": [], "best_global_step": 3, "epoch": 1.0},
    )
    (path.parent / "link").symlink_to(tmp_path / "outside" / "store")
    (folder / "analysis").symlink_to(tmp_path / "outside" / "pages")
    (folder / "target_tokenizer").symlink_to("nowhere")
    (folder / "notes.txt").write_bytes(b"mine")
    return folder


def content(folder: Path) -> dict[str, bytes]:
    """Every file and link below the folder, links by what they lead to."""
    return {
        str(path.relative_to(folder)): os.fsencode(path.readlink())
        if path.is_symlink()
        else path.read_bytes()
        for parent, folders, files in os.walk(folder)
        for path in (Path(parent) / name for name in (*folders, *files))
        if path.is_symlink() or path.is_file()
    }


def gathered(folder: Path) -> dict[str, bytes]:
    """The older run's files wherever they are: those set aside before those of the same name."""
    found = content(folder)
    for name in (MOVING, REPLACED):
        inside = {
            path: value for path, value in found.items() if path.startswith(f"{name}{os.sep}")
        }
        found |= {path.partition(os.sep)[2]: value for path, value in inside.items()}
    return found


def copy_of(folder: Path) -> Path:
    copy = folder.with_name("copy")
    shutil.rmtree(copy, ignore_errors=True)
    return Path(shutil.copytree(folder, copy, symlinks=True))


def is_new(folder: Path) -> bool:
    """Whether the new run stands, whole."""
    return read_record(folder)["command"] == "new" and is_trained(folder)


def state(folder: Path) -> frozenset[tuple[str, bytes]]:
    """All that a command could find: files, links and folders."""
    folders = {str(path.relative_to(folder)): b"" for path in folder.rglob("*") if path.is_dir()}
    return frozenset((folders | content(folder)).items())


def assert_each_command_goes_on(
    folder: Path, old: dict[str, bytes] | None, passed: set[frozenset[tuple[str, bytes]]]
) -> None:
    """Whatever command comes next ends with a whole run, or names the one that does.

    It depends on what is there alone, so that each state is tried once.
    """
    if state(folder) in passed:
        return
    passed.add(state(folder))
    for verb, command in VERBS.items():
        copy = copy_of(folder)
        told = refusal(command, copy)
        if told is not None:
            assert re.search(r"attnlab train|--resume|--overwrite", told), told
            assert old is None or is_new_or_begun(copy) or content(copy) == old, verb
            # What the message names works.
            VERBS["--resume" if "--resume" in told else "train"](copy)
        assert is_trained(copy), verb
        if old is None or is_new(copy):
            assert not {MOVING, REPLACED, DELETED} & {path.name for path in copy.iterdir()}, verb


def refusal(command: Callable[[Path], Trained], folder: Path) -> str | None:
    """What the command refuses with; None where it ends well."""
    try:
        command(folder)
    except AttnlabError as error:
        return str(error)
    return None


def is_new_or_begun(folder: Path) -> bool:
    return read_record(folder)["command"] == "new"


OTHERS = ("disk full", "refused once", "read-only", "interrupted")
# Every step of a kill; of other faults one in four, and all with `make torture`.
FAULTS = (
    ("killed", 1),
    *(pytest.param(fault, 4, marks=pytest.mark.slow) for fault in OTHERS),
    *(pytest.param(fault, 1, marks=pytest.mark.torture) for fault in OTHERS),
)


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:This process"
)  # that it has threads, which the child leaves alone
@pytest.mark.parametrize(("fault", "stride"), FAULTS)
def test_overwriting_that_is_stopped_at_any_step(run: Path, fault: str, stride: int) -> None:
    old, outside = content(run), content(run.parent / "outside")
    at, met, passed = 1 - stride, True, set()
    while met:
        at += stride
        folder = Path(shutil.copytree(run, run.with_name(f"at-{at}"), symlinks=True))
        status, met = in_child(lambda folder=folder: VERBS["--overwrite"](folder), fault, at)
        assert status != BROKEN, f"step {at} raises what is no sentence"
        stands = (folder / "settings.json").exists() and is_new(folder)
        assert stands or gathered(folder).items() >= old.items(), f"step {at} loses files"
        if fault in {"disk full", "refused once", "interrupted"} and not stands:
            assert content(folder) == old, f"step {at} leaves a run half moved"
        assert_each_command_goes_on(folder, old, passed)
        assert content(run.parent / "outside") == outside, f"step {at} followed a link"
        shutil.rmtree(folder)
    assert status == 0
    assert at > 30, "every step is met"


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "stride"), FAULTS)
def test_a_first_training_that_is_stopped_at_any_step(
    tmp_path: Path, fault: str, stride: int
) -> None:
    at, met, passed = 1 - stride, True, set()
    while met:
        at += stride
        folder = tmp_path / f"at-{at}"
        status, met = in_child(lambda folder=folder: VERBS["train"](folder), fault, at)
        assert status != BROKEN, f"step {at} raises what is no sentence"
        folder.mkdir(exist_ok=True)
        assert_each_command_goes_on(folder, None, passed)
    assert status == 0
    assert at > 10, "every step is met"


@pytest.mark.parametrize("fault", ["killed", pytest.param("read-only", marks=pytest.mark.slow)])
def test_putting_a_run_back_that_is_stopped_at_any_step(
    run: Path, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a new run without a checkpoint, beside the one that it replaces."""
    old = content(run)
    status, _ = in_child(lambda: begin_and_die(run, monkeypatch), "none", 0)
    assert status == -signal.SIGKILL
    assert (run / REPLACED / "settings.json").exists()
    assert (run / "checkpoints").is_dir()
    at, met = 0, True
    while met:
        at += 1
        folder = Path(shutil.copytree(run, run.with_name(f"at-{at}"), symlinks=True))
        status, met = in_child(lambda folder=folder: recover(folder, overwrite=True), fault, at)
        assert status != BROKEN
        assert gathered(folder).items() >= old.items(), f"step {at} loses files"
        recover(folder, overwrite=True)
        assert content(folder) == old
        shutil.rmtree(folder)
    assert status == 0
    assert at > 15


def begin_and_die(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*_: object, **__: object) -> None:
        (folder / "checkpoints" / "checkpoint-5").mkdir(parents=True)
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(training, "_fit", die)
    VERBS["--overwrite"](folder)


def interrupted(*arguments: Any, **options: Any) -> Trained:
    return dataclasses.replace(write_trained(*arguments, **options), interrupted=True)


def test_ctrl_c_keeps_both_runs_until_the_new_one_is_trained(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = content(run)
    monkeypatch.setattr(training, "_fit", interrupted)
    assert VERBS["--overwrite"](run).replaced == run / REPLACED
    assert is_new(run)
    assert content(run / REPLACED) | {"notes.txt": b"mine"} == old
    for verb in ("train", "--overwrite"):
        told = refusal(VERBS[verb], run)
        assert told is not None
        assert "--resume" in told
    back = copy_of(run)
    (back / "settings.json").unlink()
    with pytest.raises(InputError, match="cut short; put it back with: attnlab train"):
        read_record(back)
    told = refusal(VERBS["train"], back)
    assert told is not None
    assert "the old run is back" in told
    assert content(back) == old
    dropped = copy_of(run)
    shutil.rmtree(dropped / REPLACED)
    monkeypatch.setattr(training, "_fit", write_trained)
    monkeypatch.setattr(checkpoints, "damage", lambda *_: None)
    assert VERBS["--overwrite"](dropped).replaced is None
    assert VERBS["--resume"](run).replaced is None
    assert not (run / REPLACED).exists()


@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize(
    "error", [AttnlabError("The loss became nan."), OSError(28, "No space"), RuntimeError("broken")]
)
def test_a_failure_before_the_first_checkpoint_brings_the_run_back(
    run: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, trained: bool
) -> None:
    old = content(run)

    def fail(*arguments: Any, **options: Any) -> Trained:
        if trained:
            write_trained(*arguments, **options)
        (run / "metrics.jsonl").write_text("new")
        raise error

    monkeypatch.setattr(training, "_fit", fail)
    told = refusal(VERBS["--overwrite"], run)
    assert told is not None
    assert str(error).removesuffix(".") in told
    if trained:
        assert is_new(run)
        assert f"kept in {run / REPLACED}" in told
    else:
        assert "is not replaced and is as it was" in told
        assert content(run) == old


def test_a_replaced_run_that_cannot_be_deleted_is_named(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(replacing, "delete", refuse)
    trained = VERBS["--overwrite"](run)
    assert trained.replaced == run / DELETED
    assert is_new(run)
    monkeypatch.undo()
    recover(run)
    assert not (run / DELETED).exists()


def test_a_run_behind_a_link_is_replaced_there(run: Path) -> None:
    link = run.with_name("link")
    link.symlink_to(run)
    VERBS["--overwrite"](link)
    assert link.is_symlink()
    assert is_new(run)
    assert (run / "notes.txt").read_bytes() == b"mine"


def test_a_run_is_removed_without_following_links(run: Path) -> None:
    outside = content(run.parent / "outside")
    remove_run(run)
    assert [path.name for path in run.iterdir()] == ["notes.txt"]
    assert content(run.parent / "outside") == outside


def write_next_checkpoint(
    folder: Path, *_: object, record: dict[str, Any], **__: object
) -> Trained:
    """As the trainer writes: a checkpoint beside the others, of which the oldest goes, figures, the model."""
    with new_checkpoint(folder, 9) as unfinished:
        write_checkpoint(unfinished)
        (unfinished / "checkpoints" / "checkpoint-5").rename(unfinished / "checkpoint-9")
    delete_older_checkpoints(folder, ())
    for name in ("metrics.jsonl", "model.safetensors"):
        write_text(folder / name, "{}")
    return Trained(folder, [], record, interrupted=False, parameters=1, kept_step=9)


@pytest.fixture
def states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """A trained run, and what is left of one where its replacement is cut short."""
    monkeypatch.setattr(training, "_fit", write_next_checkpoint)
    run = tmp_path / "one" / "run"
    VERBS["train"](run)
    for step in (2, 3, 5):
        shutil.copytree(run / "checkpoints" / "checkpoint-9", run / "checkpoints" / f"checkpoint-{step}",
                        dirs_exist_ok=True)  # fmt: skip
    (run / "analysis").mkdir()
    (run / "analysis" / "report.html").write_text("old")
    (run / ".model-x").mkdir()
    found = {"trained": run}
    for name in (MOVING, REPLACED, DELETED):
        folder = tmp_path / name / "run"
        shutil.copytree(run, folder / name)
        found[name] = folder
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("state", "verb", "fewest"),
    [
        ("trained", "--resume", 12),
        ("trained", "--overwrite", 25),
        (MOVING, "train", 15),
        (REPLACED, "train", 15),
        (DELETED, "train", 15),
    ],
)
def test_no_link_in_a_run_is_followed(
    states: dict[str, Path], state: str, verb: str, fewest: int
) -> None:
    def command(folder: Path) -> None:
        told = refusal(VERBS[verb], folder)
        if told is not None and "the old run is back" not in told:
            raise AttnlabError(told)

    assert_nothing_gets_outside(states[state], command, fewest=fewest)
