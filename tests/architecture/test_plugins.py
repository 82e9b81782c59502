"""What other distributions register through entry points is used from the command line."""

import io
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from distributions import Distribution
from forks import Forks
from zoo import random_models
from zoo.random_models import SENTENCES, tokenizer


@pytest.fixture
def distribution(tmp_path: Path, forks: Forks) -> Distribution:
    return Distribution(tmp_path, forks)


READER = """
from attnlab.corpora.readers import Reader, read_sentences

def read(path, languages):
    lines = read_sentences(path)
    yield from zip(lines, lines, strict=True)

READER = Reader("a line, its translation", read)
"""


@pytest.mark.slow
def test_a_corpus_reader(distribution: Distribution) -> None:
    distribution.register("attnlab.corpora", "toy", READER, "READER")
    lines = [f"{word} {n}\n" for n in range(50) for word in ("a cat sees dog", "gatto vede")]
    (distribution.folder / "pairs.toy").write_text("".join(lines))
    known = distribution.attnlab("corpora")
    assert "PATH.toy" in known.stdout, known.stderr
    assert "a line, its translation" in known.stdout
    found = distribution.attnlab("corpora", "pairs.toy")
    assert "46" in found.stdout, found.stderr
    sizes = ["--dim", "8", "--heads", "2", "--feed-forward", "8", "--vocabulary", "60"]
    words = [
        "train",
        "run",
        "--corpus",
        "pairs.toy",
        "--epochs",
        "1",
        "--batch-tokens",
        "400",
        *sizes,
    ]
    trained = distribution.attnlab(*words)
    assert trained.returncode == 0, trained.stderr
    assert (distribution.folder / "run" / "model.safetensors").exists()


def test_what_is_no_reader_is_named(distribution: Distribution) -> None:
    distribution.register("attnlab.corpora", "toy", READER, "read")
    refused = distribution.attnlab("corpora")
    assert refused.returncode == 2
    assert "'toy', registered under attnlab.corpora, must be an" in refused.stderr


def test_a_reader_for_an_ending_that_attnlab_reads_is_refused(distribution: Distribution) -> None:
    distribution.register("attnlab.corpora", "tsv", READER, "READER")
    refused = distribution.attnlab("corpora")
    assert refused.returncode == 2
    assert "is called 'tsv', which exists already" in refused.stderr


DISTANCE = """
def largest(H, X):
    return (H - X).abs().amax((-2, -1))

def short(H, X):
    return H.sum()
"""


@pytest.mark.slow
def test_a_distance(distribution: Distribution) -> None:
    distribution.register("attnlab.distances", "largest", DISTANCE, "largest")
    H = np.array([[0.75, 0.25], [0.5, 0.5]])
    np.save(distribution.folder / "H.npy", H)
    found = distribution.attnlab("approximate", "H.npy", "--format", "csv")
    assert found.returncode == 0, found.stderr
    table = pd.read_csv(io.StringIO(found.stdout)).set_index("family")
    assert table.loc["zero", "largest"] == 0.75
    assert table.loc["uniform", "largest"] == 0.25
    assert "largest" in distribution.attnlab("approximate", "H.npy").stdout


def test_a_distance_that_is_no_number_per_matrix_is_named(distribution: Distribution) -> None:
    distribution.register("attnlab.distances", "short", DISTANCE, "short")
    np.save(distribution.folder / "H.npy", np.eye(2))
    refused = distribution.attnlab("approximate", "H.npy")
    assert refused.returncode == 2
    assert "The distance 'short' gives [] numbers for 1 matrices" in refused.stderr


MECHANISM = '''"""A toy mechanism: each query attends to the keys at most `reach` away."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from attnlab.attention.mechanism import visible_or_all
from attnlab.attention.mechanisms.softmax import MaskedSoftmax
from attnlab.attention.specification import Specification
from attnlab.matrices.supports import offsets


@dataclass(frozen=True)
class Near(Specification):
    """The keys at most `reach` away, scored."""

    name: ClassVar[str] = "toy_near"
    reach: Any = 1

    def __post_init__(self) -> None:
        self.check_integer("reach", 0)


class NearAttention(MaskedSoftmax):
    """Softmax over the keys at most `reach` away."""

    specification = Near
    name = Near.name
    source = "a test"

    @classmethod
    def at_budget(cls, keys, *, causal):
        return Near(keys - 1 if causal else keys // 2)

    def pairs(self, query, key, context):
        shape = query.shape[-2], key.shape[-2]
        offset = offsets(*shape, first_query=context.first_query, device=query.device)
        near = offset.abs() <= self.spec.reach
        return (near & (offset <= 0) if self.causal else near)[None, None]
'''


@pytest.mark.slow
def test_a_mechanism(distribution: Distribution) -> None:
    distribution.register("attnlab.mechanisms", "near", MECHANISM, "NearAttention")
    listed = distribution.attnlab("mechanisms")
    assert listed.returncode == 0, listed.stderr
    (row,) = [line.split() for line in listed.stdout.splitlines() if line.startswith("toy_near ")]
    assert row == ["toy_near", "yes", "yes", "no", "yes", "no"], "linear cost is not assumed"
    assert "toy_near(reach=1)" in listed.stdout
    assert "The keys at most `reach` away, scored. [a test]" in listed.stdout
    costed = distribution.attnlab("mechanisms", "toy_near(reach=2)")
    assert "toy_near(reach=2), one head of 64" in costed.stdout
    wrong = distribution.attnlab("mechanisms", "toy_near(reach=x)")
    assert wrong.returncode == 2
    assert "whole number from 0 up, not 'x'" in wrong.stderr


@pytest.mark.slow
def test_a_mechanism_to_train_with_and_to_compare(distribution: Distribution) -> None:
    distribution.register("attnlab.mechanisms", "near", MECHANISM, "NearAttention")
    sizes = ["--size", "60", "--dim", "8", "--heads", "2", "--vocabulary", "200", "--epochs", "1"]
    trained = distribution.attnlab("train", "run", *sizes, "--attention", "encoder=toy_near")
    assert trained.returncode == 0, trained.stderr
    assert '"toy_near"' in (distribution.folder / "run" / "config.json").read_text()
    trained = distribution.attnlab("train", "full", *sizes)
    words = ["compare", "full", "--budget", "5", "-n", "4", "--calibration", "8", "--quick"]
    words += ["--out", "table"]
    compared = distribution.attnlab(*words)
    assert compared.returncode == 0, compared.stderr
    tables = [path.read_text() for path in (distribution.folder / "table").glob("*.csv")]
    assert any("toy_near(reach=2)" in table for table in tables)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("class Odd: pass\n", "must be a subclass of attnlab.attention.Mechanism"),
        ("import not_there\n", "'odd' of toy_odd cannot be imported from toy_odd:Odd"),
        (
            "from attnlab.attention.mechanisms.full import FullAttention as Odd\n",
            "is called 'full', which exists already",
        ),
    ],
)
def test_what_is_no_mechanism_is_named(distribution: Distribution, code: str, message: str) -> None:
    distribution.register("attnlab.mechanisms", "odd", code, "Odd")
    refused = distribution.attnlab("mechanisms")
    assert refused.returncode == 2
    assert message in " ".join(refused.stderr.split())
    assert "Traceback" not in refused.stderr


LABEL = '''"""A toy label: heads with most of their weight on the first token."""

from attnlab.labels.verdict import ratio_condition
from attnlab.labels.counts import REPORTED
from attnlab.labels.counts import count_ratio
from attnlab.labels.label import HeadLabel
from attnlab.labels.label_columns import Rule
from attnlab.labels.verdict import verdicts_of

RULE = Rule(0.01, 2, "sentences")


def count(view):
    rows = view.facts.scope.rows
    mass = (view.layer.wide[..., 0] * rows[:, None]).sum(-1).double()
    return count_ratio(mass, rows.sum(-1)[:, None].expand_as(mass).double(), view.facts.scope.groups)


def decide(counts, seed):
    found = ratio_condition("mean_mass_on_first", counts, RULE.threshold, seed=seed)
    of_half = counts.by_half()
    rows, counted = of_half.denominator[REPORTED].long(), of_half.sentences[REPORTED]
    return verdicts_of(
        "toy first", RULE, [""] * len(rows), [found], denominator=rows, counted=counted
    )


FIRST = HeadLabel(name="toy first", count=count, decide=decide)
'''


def analyzed(distribution: Distribution, code: str) -> subprocess.CompletedProcess[str]:
    """`attnlab analyze --labels` of a small model beside a label in `code`."""
    distribution.register("attnlab.labels", "first", code, "FIRST")
    folder = distribution.folder
    random_models.bert().save_pretrained(folder / "bert")
    tokenizer().save_pretrained(folder / "bert")
    (folder / "text").write_text("\n".join(10 * SENTENCES), encoding="utf-8")
    return distribution.attnlab(
        "analyze", "bert", "--text", "text", "--labels", "--keep-matrices", "0",
        "--fit-sentences", "0", "--structure-sentences", "0", "--out", "out",
    )  # fmt: skip


@pytest.mark.slow
def test_a_label(distribution: Distribution) -> None:
    done = analyzed(distribution, LABEL)
    assert done.returncode == 0, done.stderr
    out = distribution.folder / "out"
    controls = pd.read_csv(out / "controls.csv")
    mine = controls[(controls["label"] == "toy first") & (controls["keys"] == "all")]
    assert len(mine) == 6
    assert "confirmed" in set(mine["status"])
    assert mine[["untrained_value", "shuffled_value"]].notna().all(axis=None)
    assert "toy first" in set(pd.read_csv(out / "labels.csv")["label"])


def test_what_is_no_label_is_named(distribution: Distribution) -> None:
    done = analyzed(distribution, "FIRST = 1\n")
    assert done.returncode == 2
    assert "'first', registered under attnlab.labels, must be an attnlab.labels" in done.stderr


def test_help_loads_no_plugin(distribution: Distribution) -> None:
    distribution.register("attnlab.mechanisms", "odd", "raise SystemExit('loaded')\n", "Odd")
    assert distribution.attnlab("--help").returncode == 0
