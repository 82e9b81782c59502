"""Embeddings as files, neighbours and the map of two components, against plain loops."""

import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from attnlab.core.errors import InputError
from attnlab.models.embeddings import Embeddings, load_embeddings, map_of, nearest, write_embeddings

WORDS = ("\u2581cat", "dog", "\N{NO-BREAK SPACE}x", "il", "\u0120red")


def embeddings(dim: int = 4) -> Embeddings:
    generator = torch.Generator().manual_seed(1)
    return Embeddings(WORDS, torch.randn(len(WORDS), dim, generator=generator))


def test_both_files_give_the_embeddings_back(tmp_path: Path) -> None:
    before = embeddings()
    write_embeddings(tmp_path, before)
    for path in (tmp_path, tmp_path / "embeddings.safetensors", str(tmp_path / "embeddings.txt")):
        after = load_embeddings(path)
        assert after.words == WORDS
        torch.testing.assert_close(after.vectors, before.vectors, rtol=1e-6, atol=1e-6)
    assert (tmp_path / "embeddings.txt").read_text("utf-8").startswith("5 4\n\u2581cat ")


def test_gensim_reads_the_text(tmp_path: Path) -> None:
    pytest.importorskip("gensim")
    from gensim.models import KeyedVectors

    write_embeddings(tmp_path, embeddings())
    read = KeyedVectors.load_word2vec_format(str(tmp_path / "embeddings.txt"))
    assert read.index_to_key[1] == "dog"
    torch.testing.assert_close(
        torch.tensor(read["dog"]), embeddings().vectors[1], rtol=1e-6, atol=1e-6
    )


DAMAGED = {
    "no_header": ("dog 0.1 0.2\n", "first line must hold the number of words"),
    "short": ("2 2\ndog 1 2\n", "says that it holds 2 words and has 1"),
    "width": ("1 3\ndog 1 2\n", "Line 2 of .* is no word with 3 numbers"),
    "letters": ("1 2\ndog 1 b\n", "Line 2 of .* is no word with 2 numbers"),
    "infinite": ("1 2\ndog 1 inf\n", "Line 2"),
    "twice": ("2 1\ndog 1\ndog 2\n", "'dog' has two vectors"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_texts_are_refused(tmp_path: Path, name: str) -> None:
    text, message = DAMAGED[name]
    (tmp_path / "e.txt").write_text(text)
    with pytest.raises(InputError, match=message):
        load_embeddings(tmp_path / "e.txt")


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="There is no file of embeddings"):
        load_embeddings(tmp_path / "absent.txt")
    save_file({"weight": torch.zeros(2, 2)}, tmp_path / "e.safetensors")
    with pytest.raises(InputError, match="holds no embeddings of attnlab"):
        load_embeddings(tmp_path / "e.safetensors")


def test_neighbours_equal_a_loop_over_cosines() -> None:
    found = embeddings()
    table = nearest(found, ["cat", "dog"], 3)
    assert table["word"].tolist() == ["\u2581cat"] * 3 + ["dog"] * 3
    assert table["rank"].tolist() == [1, 2, 3] * 2
    rows = found.vectors.double().tolist()
    for word, row in (("\u2581cat", 0), ("dog", 1)):
        cosines = {
            WORDS[other]: sum(a * b for a, b in zip(rows[row], vector, strict=True))
            / math.hypot(*rows[row])
            / math.hypot(*vector)
            for other, vector in enumerate(rows)
            if other != row
        }
        best = sorted(cosines, key=cosines.__getitem__, reverse=True)[:3]
        own = table[table["word"] == word]
        assert own["neighbour"].tolist() == best
        assert own["cosine"].tolist() == pytest.approx([cosines[other] for other in best])


def test_there_are_no_more_neighbours_than_words() -> None:
    assert len(nearest(embeddings(), ["dog"], 50)) == len(WORDS) - 1


def test_a_piece_that_begins_words_goes_before_one_inside_of_words() -> None:
    both = Embeddings(("book", "\u2581book", "Tom"), torch.eye(3))
    assert [both.find(word) for word in ("book", "\u2581book", "Tom")] == [1, 1, 2]


def test_words_are_found_without_the_mark_of_their_beginning() -> None:
    found = embeddings()
    assert [found.find(word) for word in ("cat", "\u2581cat", "red", "il")] == [0, 0, 4, 3]
    with pytest.raises(
        InputError, match="'dogs' is not among the 5 words of the vocabulary; near it are dog"
    ):
        found.find("dogs")
    with pytest.raises(InputError, match="number of neighbours must be at least 1"):
        nearest(found, ["dog"], 0)


def test_words_and_vectors_must_fit() -> None:
    with pytest.raises(InputError, match="2 words and 3 vectors"):
        Embeddings(("a", "b"), torch.zeros(3, 2))
    with pytest.raises(InputError, match="not finite"):
        Embeddings(("a",), torch.tensor([[math.nan]]))


def test_map_is_the_best_plane() -> None:
    """Points of a plane in many dimensions keep their distances; nothing is left for other components."""
    generator = torch.Generator().manual_seed(3)
    plane = torch.linalg.qr(torch.randn(6, 2, generator=generator)).Q.T
    flat = torch.randn(8, 2, generator=generator) @ torch.diag(torch.tensor([5.0, 1.0]))
    words = tuple(f"w{number}" for number in range(8))
    table = map_of(Embeddings(words, flat @ plane + 3), words, ["a"] * 4 + ["b"] * 4)
    assert table["word"].tolist() == list(words)
    assert table["group"].tolist() == ["a"] * 4 + ["b"] * 4
    assert float(table["first_share"][0] + table["second_share"][0]) == pytest.approx(1, abs=1e-6)
    assert table["first_share"][0] > table["second_share"][0]
    found = torch.tensor(table[["first_component", "second_component"]].to_numpy())
    torch.testing.assert_close(
        torch.cdist(found, found), torch.cdist(flat, flat).double(), rtol=0, atol=1e-4
    )


def test_map_is_not_mirrored_and_counts_a_word_once() -> None:
    found = embeddings()
    words = ["dog", "cat", "il", "dog"]
    table = map_of(found, words, ["first", "x", "x", "second"])
    assert table["word"].tolist() == ["dog", "\u2581cat", "il"]
    assert table["group"].tolist() == ["first", "x", "x"]
    mirrored = map_of(Embeddings(WORDS, -found.vectors), words)
    assert not torch.allclose(
        torch.tensor(mirrored["first_component"].to_numpy()),
        torch.tensor(table["first_component"].to_numpy()),
    )
    with pytest.raises(InputError, match="at least 3 words"):
        map_of(found, ["dog", "il"])
