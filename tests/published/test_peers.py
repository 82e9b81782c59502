"""What other tools compute of the same models and inputs is what attnlab computes, where they are installed.

The variable ATTNLAB_PEERS names the folder that `experiments/peers/environments.py` made.
"""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from attnlab.alignment import gold_links
from attnlab.models import load
from experiments.peers.inputs import LENGTHS
from experiments.peers.making import write_models, write_translation
from experiments.peers.run import HERE, Comparison, Side, compared, differences, error_rate

LAYERS, SENTENCES = 2, 3
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


@pytest.fixture
def peers() -> Path:
    """The folder of environments."""
    if "ATTNLAB_PEERS" not in os.environ:
        pytest.skip("ATTNLAB_PEERS names no folder of environments")
    return Path(os.environ["ATTNLAB_PEERS"])


def outputs(side: str, case: str, inputs: Path, peers: Path) -> dict[str, np.ndarray]:
    if side not in HERE and not (peers / side / "bin" / "python").exists():
        pytest.skip(f"there is no environment of {side}")
    file = inputs / f"{side}_{case}.npz"
    with Side(side, inputs, peers) as process:
        process.run(case, file)
    return dict(np.load(file))


def assert_equal(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, **CLOSE)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["one_by_one", "batch"])
@pytest.mark.parametrize("side", ["pytorch", "nnsight", "transformer_lens"])
def test_weights_of_all_heads(side: str, case: str, tmp_path: Path, peers: Path) -> None:
    write_models(tmp_path, layers=LAYERS, dim=48, sentences=SENTENCES)
    ours = outputs("attnlab", "matrices", tmp_path, peers)
    assert len(ours) == SENTENCES
    assert ours["0"].shape[0] == LAYERS
    assert_equal(outputs(side, case, tmp_path, peers), ours)


@pytest.mark.slow
def test_what_transformer_lens_detects_heads_by(tmp_path: Path, peers: Path) -> None:
    write_models(tmp_path, layers=LAYERS, dim=48, sentences=SENTENCES)
    ours = outputs("attnlab", "detect", tmp_path, peers)
    assert all(scores.shape[0] == LAYERS and (scores > 0).all() for scores in ours.values())
    assert_equal(ours, outputs("transformer_lens", "detect", tmp_path, peers))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("side", "case"), [("pytorch", "mask"), ("pytorch", "flex"), ("local_attention", "band")]
)
def test_bands(side: str, case: str, tmp_path: Path, peers: Path) -> None:
    ours = outputs("attnlab", f"band_{LENGTHS[0]}", tmp_path, peers)
    assert_equal(outputs(side, f"{case}_{LENGTHS[0]}", tmp_path, peers), ours)


@pytest.mark.slow
def test_losses_and_translations_with_the_same_weights(
    small_run: Path, tmp_path: Path, peers: Path
) -> None:
    run = load(small_run)
    write_translation(tmp_path, run, test=20)
    ours = outputs("attnlab", "losses", tmp_path, peers)
    assert_equal(outputs("joeynmt", "losses", tmp_path, peers), ours)
    texts = {
        side: run.tokenizers.target.batch_decode([*greedy.values()], skip_special_tokens=True)
        for side in ("attnlab", "joeynmt")
        for greedy in [dict(sorted(outputs(side, "greedy", tmp_path, peers).items()))]
    }
    assert texts["attnlab"] == texts["joeynmt"]


COMPARISON = Comparison("topic", "words", "ours", "side", "theirs", "peer", "reason")


def test_ratios_are_of_a_round_and_for_each_token() -> None:
    rows = pd.DataFrame([
        {"side": side, "case": case, "round": number, "cpu_seconds": cpu, "seconds": 1.0, "units": units}
        for side, case, units, of_rounds in (
            ("attnlab", "ours", 10, (1, 2, 4)), ("side", "theirs", 5, (1, 4, 4)),
        )
        for number, cpu in enumerate(of_rounds)
    ])  # fmt: skip
    (row,) = compared(rows, [COMPARISON], {"side": "1"}).to_dict("records")
    # Twice the time a token in the first and last round, four times in the second.
    assert (row["cpu_ratio"], row["ratio"]) == (2, 2)
    assert (row["attnlab_cpu_seconds"], row["peer_cpu_seconds"]) == (2, 4)


def test_the_largest_difference_is_that_of_any_array(tmp_path: Path) -> None:
    one, other = tmp_path / "attnlab_band_1.npz", tmp_path / "peer_theirs.npz"
    np.savez(one, a=np.zeros(3), b=np.ones((2, 2)))
    np.savez(other, a=np.array([0, 0, -0.25]), b=np.full((2, 2), 1.125))
    bands = [COMPARISON._replace(topic="band", case="band_1", side="peer", peer_case="theirs")]
    assert differences(bands, tmp_path, tmp_path) == {"peer, output of a band": 0.25}
    assert differences([COMPARISON], tmp_path, tmp_path) == {}
    np.savez(other, a=np.zeros(3))
    with pytest.raises(RuntimeError, match="do not hold the same arrays"):
        differences(bands, tmp_path, tmp_path)


def test_error_rate_of_links_of_two_directions(tmp_path: Path) -> None:
    gold = [gold_links([(0, 0), (1, 1)]), gold_links([(0, 1)])]
    right = np.array([(0, 0, 0), (0, 1, 1), (1, 0, 1)])
    np.savez(tmp_path / "both.npz", forward=right, backward=right)
    assert error_rate(tmp_path / "both.npz", gold) == 0
    np.savez(tmp_path / "one.npz", links=right[:2])
    # Two of two found links, two of three sure ones.
    assert error_rate(tmp_path / "one.npz", gold) == pytest.approx(1 - 4 / 5)
    np.savez(tmp_path / "both.npz", links=right[:2], forward=right)
    assert error_rate(tmp_path / "both.npz", gold, "forward") == 0
