"""Kills, full disks, two processes at once: a folder holds the old result or the new; the next run ends well.

`make torture` runs this, `make test` does not. ATTNLAB_TORTURE_KILLS is the number of kills for each command.
"""

import dataclasses
import os
import random
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from browser.planted_page import planted_analysis
from faults import BROKEN, FAILED, in_child, started, steps_of

import attnlab
from attnlab.core.errors import AttnlabError
from attnlab.core.folders import UNFINISHED
from attnlab.figures import canvas
from attnlab.models.embedding_settings import SkipGramSettings
from attnlab.models.embeddings import TENSORS
from attnlab.models.first_embeddings import embed
from attnlab.models.training import resume
from attnlab.models.training_settings import CorpusSettings, TokenizerSettings
from attnlab.reading.keeping import KeptMatrices
from attnlab.results import Result
from attnlab.results.report import write_report
from attnlab.results.result_files import PAGE

# Of a process with threads: the child leaves them alone.
pytestmark = [pytest.mark.torture, pytest.mark.filterwarnings("ignore:This process")]
KILLS = int(os.environ.get("ATTNLAB_TORTURE_KILLS", "20"))
# One kill of a training costs as much as many of a command that only writes.
TRAININGS = max(1, KILLS // 10)
ENOUGH_BYTES = 64 << 20
Write = Callable[[Path, str], object]


def _saved(found: Result) -> Write:
    return lambda folder, title: dataclasses.replace(found, title=title).save(
        folder, overwrite=True
    )


def _across(run: Path) -> Write:
    found = attnlab.across(run, [run], sentences=4)
    return _saved(found)


def _approximate(run: Path) -> Write:
    found = attnlab.approximate(torch.eye(5, dtype=torch.float64), families=("diagonal",))
    return _saved(found)


def _compare(run: Path) -> Write:
    found = attnlab.compare(
        run, [5], sentences=4, calibration=4, validation=4, mechanisms=["band"], quick=True
    )
    return _saved(found)


def _importance(run: Path) -> Write:
    found = attnlab.importance(run, sentences=8, calibration=4, replacements=["zero"], bleu=[])
    return _saved(found)


def _claim(run: Path) -> Write:
    found = attnlab.claim(run, ["encoder.0.0: offset -1"], sentences=8)
    return _saved(found)


def _prune(run: Path) -> Write:
    found = attnlab.prune(
        run, [0.1], sentences=4, steps=2, random=False, keep_models=True, batch_tokens=200
    )

    def write(folder: Path, title: str) -> None:
        models = {
            name: partial(one.func, *one.args[:-1], {**one.args[-1], "seed": title})
            for name, one in found.extra.items()
        }
        dataclasses.replace(found, title=title, extra=models).save(folder, overwrite=True)

    return write


def _plan(run: Path) -> Write:
    found = attnlab.plan(run, [5], sentences=4, calibration=4, validation=4)
    return _saved(found)


def _align(run: Path) -> Write:
    pairs = [("Maria sleeps.", "Maria dorme."), ("The cat sees Maria.", "Il gatto vede Maria.")] * 3
    found = attnlab.align(run, pairs, quick=True)
    return _saved(found)


def _rollout(run: Path) -> Write:
    found = attnlab.rollout(run, "Maria sleeps.")
    return _saved(found)


def _embed(run: Path) -> Write:
    pytest.importorskip("gensim")
    corpus, tokenizer = CorpusSettings(size=60), TokenizerSettings(vocabulary=120)

    def write(folder: Path, title: str) -> None:
        chosen = SkipGramSettings(dim=4, epochs=1, seed=len(title))
        embed(folder, chosen, corpus=corpus, tokenizer=tokenizer, overwrite=True)

    return write


def _report(run: Path) -> Write:
    analyze = _analyze(run)

    def write(folder: Path, title: str) -> None:
        if not (folder / PAGE).exists():
            analyze(folder, "old")
        write_report(folder)

    return write


def _analyze(run: Path) -> Write:
    # Drawing whole matrices takes most of the time, and writes no other kind of file.
    found = dataclasses.replace(planted_analysis(), matrices=KeptMatrices())

    return _saved(found)


# What each command writes, computed once, and the file that it writes last.
COMMANDS: dict[str, tuple[Callable[[Path], Write], str]] = {
    "across": (_across, PAGE),
    "align": (_align, PAGE),
    "analyze": (_analyze, PAGE),
    "approximate": (_approximate, PAGE),
    "claim": (_claim, PAGE),
    "compare": (_compare, PAGE),
    "embed": (_embed, TENSORS),
    "importance": (_importance, PAGE),
    "plan": (_plan, PAGE),
    "prune": (_prune, PAGE),
    "report": (_report, PAGE),
    "rollout": (_rollout, PAGE),
}


@dataclasses.dataclass(frozen=True)
class Command:
    """A command, the file that it writes last, and a folder with each of its two results."""

    name: str
    write: Write
    last: str
    old: Path
    new: Path

    def copied(self, folder: Path) -> Path:
        shutil.rmtree(folder, ignore_errors=True)
        return Path(shutil.copytree(self.old, folder))

    def stands(self, folder: Path) -> bool:
        """Whether the folder holds one whole result, or says that it holds none."""
        found = content(folder)
        return self.last not in found or found in (content(self.old), content(self.new))


@pytest.fixture(scope="module", params=COMMANDS)
def command(
    request: pytest.FixtureRequest,
    small_run: Path,
    tmp_path_factory: pytest.TempPathFactory,
    pictures: Callable[[Any, Any, str], object],
) -> Command:
    make, last = COMMANDS[request.param]
    write, folder = make(small_run), tmp_path_factory.mktemp(request.param)
    with pytest.MonkeyPatch.context() as patch:
        # As in each test, where `whole_pictures` sees to it.
        patch.setitem(canvas.WRITERS, ".png", pictures)
        for title in ("old", "newer"):
            write(folder / title, title)
    return Command(request.param, write, last, folder / "old", folder / "newer")


def content(folder: Path) -> dict[str, bytes]:
    """Every file that a reader looks at, with its bytes: what is being written has a hidden name."""
    return {name: found for name, found in everything(folder).items() if "/." not in f"/{name}"}


def everything(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def refusal(action: Callable[[], object]) -> str | None:
    """What the action refuses with; None where it ends well."""
    try:
        action()
    except AttnlabError as error:
        return str(error)
    return None


def lost_unless(stands: bool, tried: Counter[str], told: str) -> None:
    tried["lost"] += not stands
    assert stands, told


def test_a_kill_at_any_step(command: Command, tmp_path: Path, tried: Counter[str]) -> None:
    folder = command.copied(tmp_path / "result")
    steps = steps_of(lambda: command.write(folder, "newer"))
    assert everything(folder) == everything(command.new)
    drawn = random.Random(command.name).sample(range(1, steps + 1), min(KILLS, steps))
    for at in drawn:
        command.copied(folder)
        status, met = in_child(lambda: command.write(folder, "newer"), "killed", at)
        assert (status, met) == (-signal.SIGKILL, True)
        tried["kills"] += 1
        lost_unless(command.stands(folder), tried, f"{command.name}, step {at} of {steps}")
        command.write(folder, "newer")
        assert everything(folder) == everything(command.new), f"step {at} left something behind"
        assert not (folder / UNFINISHED).exists()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Makes a file system of so many bytes, or gives the one that there is another size."""
    disk = tmp_path / "disk"
    disk.mkdir()

    def sized(size: int) -> Path:
        again = ["-o", f"remount,size={size}"] if disk.is_mount() else ["-o", f"size={size}"]
        done = subprocess.run(
            ["mount", "-t", "tmpfs", *again, "tmpfs", str(disk)], check=False, capture_output=True
        )
        if done.returncode:
            pytest.skip("no file system can be mounted here, which takes the rights of root")
        return disk

    yield sized
    if disk.is_mount():
        subprocess.run(["umount", str(disk)], check=True)


def test_a_disk_that_fills_up_at_any_point(
    command: Command, small_disk: Callable[[int], Path], tried: Counter[str]
) -> None:
    page = os.sysconf("SC_PAGE_SIZE")
    blocks = [-(-len(found) // page) + 1 for found in everything(command.new).values()]
    draw = random.Random(command.name)
    for _ in range(max(2, KILLS // 4)):
        folder = command.copied(small_disk(ENOUGH_BYTES) / "result")
        used = shutil.disk_usage(folder).used
        small_disk(used + page * draw.randrange(1, sum(blocks)))
        told = refusal(lambda folder=folder: command.write(folder, "newer"))
        tried["full disks"] += told is not None
        if told is not None and ("nothing in it is changed" in told or "is unchanged" in told):
            assert content(folder) == content(command.old), told
        lost_unless(command.stands(folder), tried, command.name)
        small_disk(ENOUGH_BYTES)
        command.write(folder, "newer")
        assert everything(folder) == everything(command.new)


def test_two_processes_in_one_folder(command: Command, tmp_path: Path, tried: Counter[str]) -> None:
    for _ in range(max(1, KILLS // 10)):
        folder = command.copied(tmp_path / "result")
        children = [started(partial(command.write, folder, title)) for title in ("old", "newer")]
        ends = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        tried["pairs of processes"] += 1
        assert BROKEN not in ends
        assert 0 in ends
        assert set(ends) <= {0, FAILED}
        lost_unless(command.last in content(folder) and command.stands(folder), tried, command.name)
        assert everything(folder) in (everything(command.old), everything(command.new))


def test_a_training_that_is_killed_goes_on_to_the_same_model(
    small_run: Path, tmp_path: Path, tried: Counter[str]
) -> None:
    whole = Path(shutil.copytree(small_run, tmp_path / "whole"))
    steps = steps_of(lambda: resume(whole, epochs=3))
    wanted = everything(whole)["model.safetensors"]
    for at in random.Random(0).sample(range(1, steps + 1), min(TRAININGS, steps)):
        folder = Path(shutil.copytree(small_run, tmp_path / f"at-{at}"))
        status, met = in_child(lambda folder=folder: resume(folder, epochs=3), "killed", at)
        assert (status, met) == (-signal.SIGKILL, True)
        tried["kills"] += 1
        attnlab.load(folder)
        resume(folder, epochs=3)
        lost_unless(
            everything(folder)["model.safetensors"] == wanted, tried, f"step {at} of {steps}"
        )
        left = [name for name in everything(folder) if "/." in f"/{name}"]
        assert left == [], left
        shutil.rmtree(folder)
