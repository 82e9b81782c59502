"""What a notebook shows of a result: small, self-contained, and safe whatever the data says."""

import re
from html.parser import HTMLParser

import pandas as pd

from attnlab.evaluation.shared_settings import FewForMeans
from attnlab.labels.label_columns import LABELS
from attnlab.questions.analyze.summary import summarise_heads
from attnlab.reading.weights import ALL
from attnlab.results.export import declared_columns
from attnlab.results.notebook import MOST_ROWS, frame_html
from attnlab.results.result import Result

NASTY = '<script>alert("x")</script>'


class Reader(HTMLParser):
    """Tags that are open, and names of all."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        self.names.add(tag)
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        self.names.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def analysis() -> Result:
    heads = pd.DataFrame({"site": ["encoder"] * 2, "layer": [0, 0], "head": [0, 1]})
    labels = heads.assign(
        keys=ALL, labels=["sink", NASTY], standing=["sink", NASTY], function=["sink", NASTY],
        detail=["token <", ""], statistic="share", value=0.9, strength=1.0, status="confirmed",
        significance="confirmed", significant_labels=["sink", NASTY],
    )  # fmt: skip
    none, counted = pd.DataFrame(), heads.assign(rows=9, empty_rows=0)
    summary = summarise_heads(counted, structure=none, labels=labels, controls=none)
    tables = {"summary": summary, "heads": counted, "labels": labels}
    return Result("analyze", "Heads", tables, notes=(FewForMeans(3),), details={"views": [ALL]})


def test_an_analysis_is_a_map_of_its_heads_and_their_table() -> None:
    html = analysis()._repr_html_()
    reader = Reader()
    reader.feed(html)
    assert reader.open == []
    assert {"svg", "table"} <= reader.names
    assert "script" not in reader.names
    assert "&lt;script&gt;" in html
    assert "Only 3 sentences" in html
    assert not re.search(r'(?:src|href)="(?!#|data:)', html), "nothing is fetched"
    assert len(html) < 2**15


def test_a_long_table_shows_its_first_rows() -> None:
    frame = pd.DataFrame({"head": range(99), LABELS["value"].name: [0.126] * 99})
    html = frame_html(frame, declared_columns(frame, declared=[LABELS]))
    assert html.count("<tr>") == 1 + MOST_ROWS
    assert f"and {99 - MOST_ROWS} more rows" in html
    assert "0.13" in html
    whole = frame_html(frame.head(MOST_ROWS), declared_columns(frame, declared=[LABELS]))
    assert whole.count("<tr>") == 1 + MOST_ROWS
    assert "more rows" not in whole
