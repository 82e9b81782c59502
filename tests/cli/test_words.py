"""`attnlab embed`, `neighbours` and `inspect` as a user types them."""

import json
from pathlib import Path

import pytest
from zoo import random_models


def test_embed_and_neighbours(attnlab, tmp_path: Path) -> None:
    pytest.importorskip("gensim")
    folder, near = tmp_path / "vectors", tmp_path / "near"
    words = ("--size", 300, "--dim", 8, "--epochs", 1, "--window", 2, "--tokenizer", "word")
    status, _, err = attnlab("embed", folder, *words)
    assert status == 0, err
    assert "8 dimensions" in err
    status, out, err = attnlab("neighbours", folder, "the", "a", "--count", 2, "--out", near)
    assert status == 0, err
    assert out.startswith("Nearest to the: ")
    assert [line.split()[0] for line in out.splitlines()[4:]] == ["the", "a"]
    assert (near / "figures" / "map.svg").read_text("utf-8").endswith("</svg>\n")
    status, out, _ = attnlab("neighbours", folder, "the", "--count", 2, "--json")
    assert {row["word"] for row in json.loads(out)["neighbours"]} == {"the"}
    assert attnlab("neighbours", folder, "the", "--out", near)[0] == 2
    assert attnlab("neighbours", folder / "embeddings.txt", "the")[0] == 0
    assert attnlab("neighbours", folder / "nothing", "the")[0] == 2
    status, _, err = attnlab("neighbours", folder, "zyx")
    assert (status, err.count("\n")) == (2, 1)
    assert "'zyx' is not among" in err
    assert attnlab("embed", folder, *words)[0] == 2
    assert attnlab("embed", folder, *words, "--overwrite")[0] == 0


def test_inspect(attnlab, tmp_path: Path) -> None:
    random_models.distilbert().save_pretrained(tmp_path)
    status, _, err = attnlab("inspect", tmp_path, "the cat runs")
    assert status == 2
    assert "no tokenizer" in err.splitlines()[-1]
    random_models.tokenizer().save_pretrained(tmp_path)
    status, out, err = attnlab("inspect", tmp_path, "the cat runs", "the old cat")
    assert status == 0, err
    for title in ("Tokens", "Shapes", "Words in two contexts", "Heads, by layer"):
        assert title in out
    status, out, _ = attnlab("inspect", tmp_path, "the cat runs", "the old cat", "--json")
    parts = json.loads(out)
    assert set(parts) == {"tokens", "shapes", "moves", "heads", "notes"}
    assert len(parts["heads"]) == 6
    folder = tmp_path / "inspection"
    status, _, err = attnlab("inspect", tmp_path, "the cat runs", "the old cat", "--out", folder)
    assert (status, err.splitlines()[-1]) == (0, f"Wrote {folder}.")
    assert {path.name for path in folder.iterdir()} == {
        "tokens.csv", "shapes.csv", "moves.csv", "heads.csv", "arrays.safetensors", "result.json",
        "tables.md", "report.html", "figures",
    }  # fmt: skip
    status, out, err = attnlab("inspect", tmp_path, "the cat", "a dog")
    assert (status, err) == (0, "Note: No word is in both texts.\n")
    assert "Words in two contexts" not in out
    for texts in (["cat " * 142], ["the " * 101, "the " * 100]):
        status, _, err = attnlab("inspect", tmp_path, *texts)
        assert (status, err.count("\n")) == (2, 1)
        assert "pairs of the same word, beyond the limit of 10,000; shorten" in err
    status, _, err = attnlab("inspect", tmp_path, " ")
    assert (status, err) == (2, "Error: Text 1 is empty; give a sentence.\n")
