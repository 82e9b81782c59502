"""What the README of the benchmark of a GPU says follows from its table."""

import pandas as pd

from experiments.scaling_gpu.run import BOTH, FORWARD, by_direction


def test_where_a_band_is_slower_and_faster_and_how_both_grow() -> None:
    rows = {"tokens": [4, 2, 1], "band_seconds": [4.0, 2.0, 1.0], "flash_seconds": [16.0, 4.0, 0.5]}
    rows |= {"band_peak_bytes": [2, 1, 1], "flash_peak_bytes": [8, 1, 1]}
    table = pd.DataFrame(rows).assign(direction=FORWARD)
    table["times_faster"] = table["flash_seconds"] / table["band_seconds"]
    quick = table.assign(direction=BOTH, times_faster=[9.0, 8.0, 7.0])
    found = by_direction(pd.concat([table, quick]))
    assert found[FORWARD] == {
        "slower": 1, "faster": 2, "least": 0.5, "most": 4.0, "memory": 0.25, "band": 4.0, "flash": 32.0,
    }  # fmt: skip
    assert (found[BOTH]["slower"], found[BOTH]["faster"]) == (None, 1)
