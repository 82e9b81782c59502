"""Several processes with a share of the sentences each find what one finds."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner
from zoo import random_models
from zoo.random_models import PAIRS, SENTENCES, tokenizer

from attnlab.cli.app import app
from attnlab.core.processes import Processes, unwrapped, wrapped
from attnlab.questions.analyze.analysis import analyze
from attnlab.results.result import Result

ROOT = Path(__file__).resolve().parents[3]
TABLES = ("heads", "head_distances", "fits", "labels", "controls", "structure")
CLOSE = {"rtol": 1e-9, "atol": 1e-9}


@dataclass
class Table:
    """Where threads put down what they gather; between two gathers only one of them runs.

    Models are built from the global random state, which threads would mix up.
    """

    barrier: threading.Barrier
    running: threading.Lock = field(default_factory=threading.Lock)
    parcels: dict[int, bytes] = field(default_factory=dict)

    def meet(self) -> None:
        self.running.release()
        self.barrier.wait(60)
        self.running.acquire()


@dataclass(frozen=True)
class Thread(Processes):
    """A process that is a thread of this one."""

    table: Table | None = None

    def gather(self, value: object) -> list[object]:
        self.table.parcels[self.index] = wrapped(value)
        self.table.meet()
        found = [unwrapped(self.table.parcels[i]) for i in range(self.count)]
        self.table.meet()
        return found


def analyzed_by(count: int, name: str, sentences: int, **options: int) -> list[Result]:
    table = Table(threading.Barrier(count))
    texts = (PAIRS if name == "small_marian" else SENTENCES)[:sentences]

    def one(index: int) -> Result:
        with table.running:
            model = getattr(random_models, name)().double()
            processes = Thread(index, count, index, table=table)
            return analyze(
                (model, tokenizer()),
                sentences=texts,
                labels=True,
                batch_size=2,
                processes=processes,
                **options,
            )

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(one, range(count)))


@pytest.mark.slow
def test_shares_give_the_same_tables_in_every_process() -> None:
    (alone,) = analyzed_by(1, "small_marian", 7, fit_sentences=3)
    for found in analyzed_by(2, "small_marian", 7, fit_sentences=3):
        for table in ("heads", "head_distances", "fits"):
            pd.testing.assert_frame_equal(getattr(found, table), getattr(alone, table), **CLOSE)
        for table in ("labels", "controls", "structure"):
            pd.testing.assert_frame_equal(getattr(found, table), getattr(alone, table), **CLOSE)
        assert list(found.matrices.matrices) == list(alone.matrices.matrices)
        assert found.matrices.tokens == alone.matrices.tokens
        assert found.about == alone.about
        assert found.notes == alone.notes


def test_a_process_without_a_sentence_has_the_whole_result_too() -> None:
    few = {"fit_sentences": 0, "structure_sentences": 0}
    (alone,) = analyzed_by(1, "bert", 4, **few)
    for found in analyzed_by(3, "bert", 4, **few):
        pd.testing.assert_frame_equal(found.heads, alone.heads, **CLOSE)
        pd.testing.assert_frame_equal(found.labels, alone.labels, **CLOSE)


LAUNCHERS = {
    "torchrun": "torch.distributed.run --standalone --nproc-per-node 2",
    "accelerate launch": "accelerate.commands.launch --multi_gpu --num_processes 2 --num_machines 1 "
    "--mixed_precision no --dynamo_backend no --main_process_port 0",
}


@pytest.mark.slow
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_launched_processes_write_what_one_writes(launcher: str, tmp_path: Path) -> None:
    random_models.bert().save_pretrained(tmp_path / "model")
    tokenizer().save_pretrained(tmp_path / "model")
    (tmp_path / "text").write_text("\n".join(SENTENCES), encoding="utf-8")
    words = [
        "analyze", str(tmp_path / "model"), "--text", str(tmp_path / "text"), "--labels",
        "--batch-size", "2", "--keep-matrices", "0", "--fit-sentences", "3", "--out",
    ]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", *LAUNCHERS[launcher].split(), "-m", "attnlab", *words, str(tmp_path / "two")],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("have a role that is confirmed") == 1, "one process speaks"
    assert CliRunner().invoke(app, [*words, str(tmp_path / "one")]).exit_code == 0
    for name in TABLES:
        one, two = (pd.read_csv(tmp_path / run / f"{name}.csv") for run in ("one", "two"))
        pd.testing.assert_frame_equal(two, one, **CLOSE)
