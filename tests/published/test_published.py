"""What is published says nothing of the machine that it was made on."""

import json
import re

import pytest

from experiments.real_text.run import published_record
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


@pytest.mark.parametrize("name", ["multi30k", "tatoeba"])
def test_the_published_settings_are_those_of_the_run_without_its_paths(name: str) -> None:
    found = json.loads((RESULTS / f"real_text_{name}" / "settings.json").read_text("utf-8"))
    assert published_record(found) == found
    private = json.loads(json.dumps(found))
    private["command"] = f"attnlab train /home/me/{found['command'].split()[2]} " + " ".join(
        found["command"].split()[3:]
    )
    private["settings"]["corpus"]["name"] = f"/home/me/{name}"
    private["corpus"] |= {"name": f"/home/me/{name}", "path": f"/home/me/{name}"}
    assert "/home/me" not in json.dumps(published_record(private))
    assert published_record(private) | {"command": found["command"]} == found
