"""A corpus that is aligned by heads that were chosen before."""

import gzip
import json
from pathlib import Path

import pytest
from gold_pairs import QUICK, chosen_heads, gold_file, jsonl_file, marian
from typer.testing import CliRunner
from zoo.random_models import PAIRS, tokenizer

from attnlab.alignment.heads_file import read_heads
from attnlab.cli.app import app
from attnlab.core.errors import InputError
from attnlab.questions.align import (
    corpus_links,
)
from attnlab.questions.align.aligning import align
from attnlab.questions.align.question import (
    PairsNotAligned,
)

pytestmark = pytest.mark.usefixtures("no_page")


def test_chosen_heads_align_a_corpus_line_by_line(tmp_path: Path) -> None:
    model = marian(), tokenizer()
    found = align(model, gold=gold_file(tmp_path, PAIRS), **QUICK)
    found.save(tmp_path / "out")
    heads = tmp_path / "out" / "heads.json"
    assert [list(one) for one in read_heads(heads).heads] == found.details["chosen"]
    long = ("cat " * 99).strip()
    pairs = tmp_path / "pairs.tsv"
    rows = [*PAIRS, (long, "il gatto"), PAIRS[0]]
    pairs.write_text("".join(f"{one}\t{other}\n" for one, other in rows), encoding="utf-8")
    again = align(model, pairs, heads=heads, links=tmp_path / "links", batch_size=2)
    lines = (tmp_path / "links").read_text(encoding="utf-8").split("\n")
    written = (tmp_path / "out" / "links.pharaoh").read_text(encoding="utf-8").splitlines()
    assert lines == [*written, "", written[0], ""]
    (note,) = (one for one in again.notes if isinstance(one, PairsNotAligned))
    assert (note.count, note.total, note.first) == (1, len(rows), len(PAIRS) + 1)
    for number, shown in enumerate(found.details["pairs"]):
        own = {tuple(map(int, link.split("-"))) for link in lines[2 * number + 1].split()}
        assert own == {tuple(link) for link in shown["links"]["chosen"]}


def test_links_that_are_there_are_not_replaced_unasked(tmp_path: Path) -> None:
    model, heads = chosen_heads(tmp_path)
    for one in model:
        one.save_pretrained(tmp_path / "model")
    links = tmp_path / "links"
    links.write_text("precious\n")
    words = [
        "align",
        str(tmp_path / "model"),
        "--gold",
        str(tmp_path / "gold.tsv"),
        "--heads",
        str(heads),
    ]
    words += ["--links", str(links), "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, InputError) or done.exit_code == 2
    assert links.read_text() == "precious\n"
    assert CliRunner().invoke(app, [*words, "--overwrite"]).exit_code == 0
    assert links.read_text() != "precious\n"


@pytest.mark.parametrize("size", [1, 3])
def test_parts_of_a_corpus_are_aligned_as_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    model, heads = chosen_heads(tmp_path)
    # One pair has no token of a word on the target side, in a part of its own where that is of one pair.
    pairs = [*PAIRS[:3], ("the cat", "\u00ad"), *PAIRS[3:]]
    told: list[tuple[int, int]] = []
    for name, most in (("whole", 99), ("parts", size)):
        monkeypatch.setattr(corpus_links, "PART", most)
        found = align(
            model, pairs, heads=heads, links=tmp_path / name,
            progress=lambda what, done, total: told.append((done, total)),
        )  # fmt: skip
        row = found.systems.iloc[0]
        lines = (tmp_path / name).read_text().splitlines()
        assert len(lines) == len(pairs)
        assert row["links_given"] == sum(len(line.split()) for line in lines)
        assert row["pairs"] == sum(map(bool, lines))
    assert (tmp_path / "parts").read_bytes() == (tmp_path / "whole").read_bytes()
    assert all(total == len(pairs) for _, total in told)


def test_links_with_words_and_weights(tmp_path: Path) -> None:
    model, heads = chosen_heads(tmp_path)
    for ending in ("jsonl", "pharaoh"):
        align(model, PAIRS, heads=heads, links=tmp_path / f"links.{ending}")
    lines = (tmp_path / "links.pharaoh").read_text().splitlines()
    objects = map(json.loads, (tmp_path / "links.jsonl").read_text().splitlines())
    for one, line, (source, target) in zip(objects, lines, PAIRS, strict=True):
        assert " ".join(f"{s}-{t}" for s, t in one["links"]) == line
        assert (one["source"], one["target"]) == (source.split(), target.split())
        assert len(one["weights"]) == len(one["links"])
        assert all(0 < weight <= 1 for weight in one["weights"])


def test_a_bad_last_line_is_told_before_anything_is_written(tmp_path: Path) -> None:
    model, heads = chosen_heads(tmp_path)
    pairs, links = tmp_path / "pairs.tsv", tmp_path / "links.pharaoh"
    links.write_text("kept\n")
    pairs.write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS) + "no tab\n")
    told: list[object] = []
    with pytest.raises(InputError, match=rf"pairs.tsv, line {len(PAIRS) + 1}, has no tab"):
        align(
            model, pairs, heads=heads, links=links, overwrite=True,
            progress=lambda *done: told.append(done),
        )  # fmt: skip
    assert not told
    assert links.read_text() == "kept\n"


def test_nothing_is_written_where_no_pair_can_be_aligned(tmp_path: Path) -> None:
    model, heads = chosen_heads(tmp_path)
    links = tmp_path / "links.pharaoh"
    links.write_text("precious\n")
    long = " ".join(["the cat"] * 40)
    with pytest.raises(InputError, match="None of the 3 pairs can be aligned"):
        align(model, [(long, long)] * 3, heads=heads, links=links, overwrite=True)
    assert links.read_text() == "precious\n"


def test_too_little_memory_is_told_and_is_no_reason_to_leave_pairs_out(tmp_path: Path) -> None:
    model, heads = chosen_heads(tmp_path)
    with pytest.raises(InputError, match="GB"):
        align(model, PAIRS, heads=heads, links=tmp_path / "links", memory=1e-7)
    assert not (tmp_path / "links").exists()


def test_pairs_of_a_json_corpus(tmp_path: Path) -> None:
    """The same links as of the same pairs with tabs, whatever the order of the languages in a line."""
    model, heads = chosen_heads(tmp_path)
    align(model, PAIRS, heads=heads, links=tmp_path / "own")
    turned = [(target, source) for source, target in PAIRS]
    files = {
        jsonl_file(tmp_path / "own.jsonl", PAIRS, ("en", "it")): None,
        jsonl_file(tmp_path / "turned.jsonl", turned, ("it", "en")): "en-it",
        jsonl_file(tmp_path / "others.jsonl", turned, ("de", "fr")): "fr-de",
        jsonl_file(tmp_path / "packed.jsonl.gz", PAIRS, ("en", "it")): None,
    }
    for path, pair in files.items():
        if path.suffix == ".gz":
            path.write_bytes(gzip.compress(path.read_bytes()))
        align(model, path, pair=pair, heads=heads, links=tmp_path / "again", overwrite=True)
        assert (tmp_path / "again").read_bytes() == (tmp_path / "own").read_bytes()
    with pytest.raises(InputError, match="others.jsonl, line 1, has no pair en-it; .*de, fr"):
        align(model, tmp_path / "others.jsonl", heads=heads, links=tmp_path / "other")
    path = tmp_path / "own.jsonl"
    path.write_text(path.read_text(encoding="utf-8") + "[]\n", encoding="utf-8")
    with pytest.raises(InputError, match=rf"own.jsonl, line {len(PAIRS) + 1}, has no object"):
        align(model, path, heads=heads, links=tmp_path / "other")


def test_what_is_written_is_said(tmp_path: Path) -> None:
    model, heads = chosen_heads(tmp_path)
    for one in model:
        one.save_pretrained(tmp_path / "model")
    links, out = tmp_path / "own.pharaoh", tmp_path / "out"
    gold = gold_file(tmp_path, PAIRS)
    for given in ([], ["--heads", str(heads)]):
        words = [
            "align",
            str(tmp_path / "model"),
            "--gold",
            str(gold),
            "--quick",
            "--links",
            str(links),
        ]
        done = CliRunner().invoke(app, [*words, *given, "--out", str(out), "--overwrite"])
        assert done.exit_code == 0, done.output
        written = [line for line in done.output.splitlines() if line.startswith("Wrote ")]
        assert f"Wrote {links}." in written
        assert len(written) == len(set(written)) == (4 if not given else 3)
