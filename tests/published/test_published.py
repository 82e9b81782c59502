"""What is published says nothing of the machine that it was made on."""

import re

from experiments.shared.readme import BENCHMARKS, RESULTS

ABSOLUTE = re.compile(rb"(?<![\w.:/])/(?:home|root|tmp|work|mnt|Users|private)/[\w.]")
TEXTS = {".csv", ".html", ".json", ".jsonl", ".md", ".svg", ".toml"}


def test_no_absolute_path_stands_in_a_published_result() -> None:
    paths = [
        path
        for folder in (RESULTS, BENCHMARKS)
        for path in folder.rglob("*")
        if path.suffix in TEXTS
    ]
    assert len(paths) > 50
    assert [path for path in paths if ABSOLUTE.search(path.read_bytes())] == []
