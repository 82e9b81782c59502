"""The thesis from end to end: its figures against loops, and the whole on a small model."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from attnlab.models.run import load
from experiments.shared.readme import put_rows
from experiments.thesis import run as thesis
from experiments.thesis.models import LONG, SHORT, settings_of
from experiments.thesis.shapes import (
    HELD,
    SHAPE,
    distance_between_heads,
    distance_between_sentences,
    shape_of,
)


def matrices(*sizes: tuple[int, int]) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    drawn = [torch.randn(3, *size, dtype=torch.float64, generator=generator) for size in sizes]
    return [(2 * H).softmax(-1) for H in drawn]


@pytest.mark.parametrize("size", [(5, 5), (7, 4), (3, 6)])
def test_shapes_are_those_of_loops(size: tuple[int, int]) -> None:
    (H,) = matrices(size)
    found = shape_of(H)
    assert list(found) == list(SHAPE)
    for head, own in enumerate(H.numpy()):
        queries, keys = own.shape
        near = sum(own[i, j] for i in range(queries) for j in range(keys) if abs(j - i) <= 1)
        values = np.linalg.svd(own, compute_uv=False)
        shares = values / values.sum()
        few = next(r for r in range(1, len(values) + 1) if shares[:r].sum() >= HELD)
        expected = {
            "neighbours": near / queries,
            "neighbours_if_uniform": sum(
                abs(j - i) <= 1 for i in range(queries) for j in range(keys)
            )
            / own.size,
            "column": max(own[:, j].mean() for j in range(keys)),
            "rank": np.linalg.matrix_rank(own) / min(size),
            "effective_rank": math.exp(-sum(s * math.log(s) for s in shares)) / min(size),
            "values_for_90": few / min(size),
            "norm": math.sqrt((own**2).sum() / queries),
        }
        assert {name: values[head].item() for name, values in found.items()} == pytest.approx(
            expected
        )


def test_a_shift_has_full_effective_rank_and_a_uniform_matrix_none() -> None:
    n = 6
    both = torch.stack(
        [torch.eye(n, dtype=torch.float64), torch.full((n, n), 1 / n, dtype=torch.float64)]
    )
    found = shape_of(both)
    assert found["effective_rank"].tolist() == pytest.approx([1, 1 / n])
    assert found["rank"].tolist() == pytest.approx([1, 1 / n])
    assert found["norm"].tolist() == pytest.approx([1, n**-0.5])


def test_distances_between_sentences_are_those_of_loops() -> None:
    own = matrices((4, 4), (5, 4), (4, 4), (4, 4), (5, 4), (6, 6))
    for head in range(3):
        apart = [
            float((own[a][head] - own[b][head]).abs().sum()) / (2 * len(own[a][head]))
            for a in range(len(own))
            for b in range(a + 1, len(own))
            if own[a].shape == own[b].shape
        ]
        assert len(apart) == 4
        found = distance_between_sentences(own)[head].item()
        assert found == pytest.approx(sum(apart) / len(apart))
    assert distance_between_sentences(own[-1:]).isnan().all()


def test_distances_between_heads_are_those_of_loops() -> None:
    own = matrices((4, 4), (5, 3))
    found = distance_between_heads(own)
    for head in range(3):
        apart = [
            float((H[head] - H[other]).abs().sum()) / (2 * len(H[head]))
            for H in own
            for other in range(3)
            if other != head
        ]
        assert found[head].item() == pytest.approx(sum(apart) / len(apart))
    assert distance_between_heads([H[:1] for H in own]).isnan().all()


def test_fits_are_no_nearer_than_their_bound_and_nearer_than_the_search() -> None:
    H = matrices((9, 9))[0]
    found = thesis.fitted([H], search=True)
    assert found[["w", "num_pos"]].drop_duplicates().to_numpy().tolist() == [[3, 2], [10, 1]]
    for row in found.to_dict("records"):
        own = H[row["head"]]
        uniform = sum(abs(float(h) - 1 / 9) for h in own.flatten()) / 9
        assert row["uniform"] == pytest.approx(uniform)
        assert row["one_key"] == pytest.approx(2 * (1 - float(own.max(-1).values.mean())))
        assert row["one_key"] <= row["sigma_n_entries"] + 1e-9
        assert row["sigma_free"] <= row["sigma_stochastic"] <= row["search"]


def test_every_kind_of_model_has_settings(shared_data: Path) -> None:
    for corpus, heads, init in [("tatoeba", 1, "default"), ("bible", 8, "identity")]:
        settings = settings_of(shared_data / corpus, heads, init, 2)
        assert (settings.model.heads, settings.model.init) == (heads, init)
        assert settings.optimizer.seed == 2


@pytest.mark.slow
def test_the_whole_comes_out_of_a_small_model(small_run: Path, tmp_path: Path) -> None:
    texts = replace(LONG, least=4, searched=7)
    tables, example = thesis.measured(load(small_run), texts, sentences=9)
    assert example.shape[1] == example.shape[2] >= 4
    heads = tables["heads"]
    count = len(example)
    assert len(heads) == 2 * 3 * count
    # Of so few sentences no two may be of one length.
    heads["between_sentences"] = heads["between_sentences"].fillna(0.25)
    assert heads.loc[heads["trained"], "norm"].between(0, 1 + 1e-6).all()
    folders = [tmp_path / texts.result for texts in (SHORT, LONG)]
    for number, init in enumerate(thesis.STARTS):
        for own in (1, 8):
            model = {"heads": own, "init": init, "seed": number}
            for name, rows in tables.items():
                for folder in folders:
                    put_rows(folder, name, model, rows)
    for folder in folders:
        thesis.write_result(folder, "python run.py", kept=True)
    contrasts = pd.read_csv(folders[0] / "contrasts.csv").set_index("contrast")
    encoder = heads[heads["site"] == "encoder"].groupby("trained")["effective_rank"].mean()
    assert contrasts.loc[thesis.EFFECTIVE_RANK, "difference"] == pytest.approx(
        encoder[True] - encoder[False], abs=1e-5
    )
    assert contrasts["models"].tolist() == [4, 4, 4]
    short, verses = ((folder / "README.md").read_text("utf-8") for folder in folders)
    assert "the thesis, ribbon" in short
    assert "Its tables on its own matrices" in short
    assert "| bible | identity | 2 |" in verses
    assert "Its tables on its own matrices" not in verses
