"""The studies of single heads: what predicts their cost, and static heads; on tiny text."""

from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from attnlab.core import Head, InputError
from attnlab.models.run import load
from attnlab.reading import Observed
from experiments.head_costs import run as head_costs
from experiments.shared import translators
from experiments.shared.learned_heads import RowMoments
from experiments.shared.readme import put_rows, read_table
from experiments.static_heads import run as static_heads
from experiments.static_heads.tables import (
    FITTED,
    MEAN,
    TableAttention,
    fitted_scores,
    mean_matrix,
)

HEADS, LONGEST = 2, 6


def observed(site: str, sizes: list[tuple[int, int]], seed: int = 0) -> Observed:
    """A padded batch of random softmax rows."""
    generator = torch.Generator().manual_seed(seed)
    queries, keys = (max(side) for side in zip(*sizes, strict=True))
    scores = torch.randn(len(sizes), HEADS, queries, keys, generator=generator).double()
    real = torch.arange(queries) < torch.tensor([[size] for size, _ in sizes])
    visible = torch.arange(keys) < torch.tensor([[size] for _, size in sizes])
    seen = visible[:, None, None] & real[:, None, :, None]
    if site == "decoder":
        seen = seen & torch.ones(queries, keys).tril().bool()
    weights = scores.masked_fill(~seen, -torch.inf).softmax(-1).nan_to_num()
    nothing = torch.zeros(len(sizes), HEADS, max(queries, keys), 1)
    return Observed(
        site, 0, nothing[:, :, :queries], nothing[:, :, :keys], nothing[:, :, :keys], visible, real,
        torch.zeros(len(sizes), keys, dtype=torch.long), weights, tuple(range(len(sizes))),
    )  # fmt: skip


SIZES = {
    "encoder": [(4, 4), (4, 4), (2, 2), (6, 6), (4, 4), (2, 2)],
    "decoder": [(4, 4), (5, 5), (2, 2), (6, 6), (1, 1), (2, 2)],
    "cross": [(4, 3), (5, 3), (2, 6), (1, 6), (3, 3), (4, 6)],
}


def moments_of(site: str) -> tuple[RowMoments, list[Observed]]:
    """In two batches of different lengths."""
    batches = [observed(site, SIZES[site][:3]), observed(site, SIZES[site][3:], seed=1)]
    moments = RowMoments(HEADS, LONGEST, causal=site == "decoder")
    for batch in batches:
        moments.add(batch)
    return moments, batches


def rows_of(batches: list[Observed], head: int) -> dict[tuple[int, int], list[np.ndarray]]:
    """The rows of a head by position and number of keys."""
    found: dict[tuple[int, int], list[np.ndarray]] = {}
    for batch in batches:
        sizes = zip(
            batch.real_queries.sum(-1).tolist(), batch.visible.sum(-1).tolist(), strict=True
        )
        for sentence, (queries, keys) in enumerate(sizes):
            for query in range(queries):
                seen = query + 1 if batch.site == "decoder" else keys
                row = batch.weights[sentence, head, query, :seen].numpy()
                found.setdefault((query, seen), []).append(row)
    return found


@pytest.mark.parametrize("site", SIZES)
def test_variance_over_sentences_against_loops(site: str) -> None:
    moments, batches = moments_of(site)
    for head, found in enumerate(moments.variance().tolist()):
        groups = [np.stack(rows) for rows in rows_of(batches, head).values() if len(rows) > 1]
        squares = sum(((rows - rows.mean(0)) ** 2).sum() for rows in groups)
        assert found == pytest.approx(squares / sum(len(rows) - 1 for rows in groups))


def test_a_head_that_follows_from_position_and_length_has_no_variance() -> None:
    moments, batch = RowMoments(HEADS, LONGEST, causal=False), observed("encoder", [(4, 4)])
    for _ in range(3):
        moments.add(batch)
    assert moments.variance().tolist() == pytest.approx([0, 0], abs=1e-15)


@pytest.mark.parametrize("site", SIZES)
def test_mean_matrix_and_fit_against_loops(site: str) -> None:
    moments, batches = moments_of(site)
    means, fitted = mean_matrix(moments), fitted_scores(moments)
    for head in range(HEADS):
        rows = rows_of(batches, head)
        for query, key in product(range(LONGEST), range(LONGEST)):
            own = [
                row[key]
                for (i, n), group in rows.items()
                if i == query and n > key
                for row in group
            ]
            assert float(means[head, query, key]) == pytest.approx(np.mean(own) if own else 0)
        # At the optimum each key position gets the share of attention that the head gives it.
        shares = torch.zeros(2, LONGEST, dtype=torch.float64)
        for (query, seen), group in rows.items():
            shares[0, :seen] += len(group) * fitted[head, query, :seen].softmax(-1)
            shares[1, :seen] += torch.tensor(np.sum(group, 0))
        torch.testing.assert_close(shares[0], shares[1], atol=1e-8, rtol=0)


@pytest.mark.parametrize("site", SIZES)
def test_a_table_is_applied_to_the_real_keys(site: str) -> None:
    table = torch.randn(4, 5, generator=torch.Generator().manual_seed(0))
    mechanism = TableAttention(table, site).eval()
    batch = observed(site, [(6, 6), (3, 3)])
    value = torch.randn(2, HEADS, 6, 3, generator=torch.Generator().manual_seed(1))
    matrix = mechanism.implied_matrix(batch.query, batch.key, batch.visible)
    for sentence, size in enumerate((6, 3)):
        for query in range(size):
            seen = query + 1 if site == "decoder" else size
            scores = torch.stack([table[min(query, 3), min(key, 4)] for key in range(seen)])
            for head in range(HEADS):
                row = matrix[sentence, head, query]
                torch.testing.assert_close(row[:seen], scores.softmax(-1))
                assert not row[seen:].any()
    mixed = mechanism(batch.query, batch.key, value, batch.visible)
    torch.testing.assert_close(mixed, matrix @ value)
    last = mechanism(batch.query[:, :, 5:], batch.key, value, batch.visible, first_query=5)
    torch.testing.assert_close(last[0], mixed[0, :, 5:])


def test_only_what_lacks_is_read_and_a_small_model_is_found(
    tmp_path: Path, small_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "multi30k-en-de-d128"
    with pytest.raises(InputError, match="holds 0 models"):
        translators.small_model(name, tmp_path)
    (tmp_path / f"{translators.SMALL[name]}-3-layers-0").symlink_to(small_run)
    with pytest.raises(InputError, match="holds 0 models"):
        translators.small_model(name, tmp_path)
    (tmp_path / f"{translators.SMALL[name]}-0").symlink_to(small_run)
    read = lambda *_: load(small_run)  # noqa: E731
    monkeypatch.setattr(translators.catalogue, "model_of", read)
    words = [
        str(tmp_path),
        "--only",
        "multi30k-en-cs",
        name,
        "--seeds",
        "2",
        "--small-runs",
        str(tmp_path),
    ]
    chosen = translators.parser_of_models("", sentences=3).parse_args(words)
    asked = [tuple(model.values()) for model, _ in translators.models_of(chosen, tmp_path)]
    assert asked == [("multi30k-en-cs", 0), ("multi30k-en-cs", 1), (name, 0)]
    put_rows(tmp_path, "table", {"corpus": name, "seed": 0}, pd.DataFrame({"loss": [1.0]}))
    assert len(list(translators.models_of(chosen, tmp_path))) == 2


def test_models_of_three_layers_have_results_of_their_own(
    tmp_path: Path, small_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def trained(*words: object, layers: int) -> object:
        asked.append((*words[:3], layers))
        return load(small_run)

    monkeypatch.setattr(translators.windows, "model_of", trained)
    chosen = translators.parser_of_models("", sentences=3).parse_args([
        str(tmp_path), "--layers", "3", "--only", "multi30k-fr-en-d128-3-layers",
    ])  # fmt: skip
    out = translators.folder_of(tmp_path / "roles", chosen)
    assert out == tmp_path / "roles_3_layers"
    models = [tuple(model.values()) for model, _ in translators.models_of(chosen, out)]
    assert models == [("multi30k-fr-en-d128-3-layers", 0)]
    assert asked == [("multi30k", "fr", "en", 3)]
    words = [str(tmp_path), "--only", "multi30k-fr-en-d128-3-layers"]
    shallow = translators.parser_of_models("", sentences=3).parse_args(words)
    with pytest.raises(InputError, match="multi30k-fr-en-d128-3-layers is no model of this result"):
        next(translators.models_of(shallow, tmp_path))
    chosen = translators.parser_of_models("", sentences=3).parse_args([str(tmp_path)])
    assert translators.folder_of(tmp_path / "roles", chosen) == tmp_path / "roles"


def test_beside_models_of_three_layers_stand_those_of_one_layer_of_their_languages(
    tmp_path: Path,
) -> None:
    deep, shallow = tmp_path / "roles_3_layers", tmp_path / "roles"
    for name in ("en-fr-d128-3-layers", "fr-en-d128-3-layers"):
        put_rows(deep, "table", {"corpus": name, "seed": 0}, pd.DataFrame({"loss": [1.0]}))
    assert translators.one_layer_rows(deep, "table") is None
    for name in ("en-fr-d128", "en-fr", "cs-fr-d128"):
        put_rows(shallow, "table", {"corpus": name, "seed": 0}, pd.DataFrame({"loss": [2.0]}))
    found = translators.one_layer_rows(deep, "table")
    assert found is not None
    assert found.to_dict("records") == [{"corpus": "en-fr-d128", "seed": 0, "loss": 2.0}]
    assert translators.one_layer_rows(shallow, "table") is None


MODELS = ({"corpus": "multi30k-en-fr", "seed": 0}, {"corpus": "multi30k-en-fr", "seed": 1})


@pytest.mark.slow
def test_costs_of_heads_come_out_in_tables_and_readme(small_run: Path, tmp_path: Path) -> None:
    rows, whole = head_costs.measured(load(small_run), sentences=8)
    assert len(rows) == rows[["site", "head"]].drop_duplicates().shape[0] * 3
    np.testing.assert_allclose(rows["l1"], 2 * rows["mass"], atol=1e-6)
    assert rows["divergence"].min() >= 0
    for seed, model in enumerate(MODELS):
        put_rows(tmp_path, "models", model, pd.DataFrame([whole]))
        # Ranked as the cost but for one head of the second model.
        planted = rows.assign(divergence=rows["loss_change"], l1=-rows["loss_change"])
        planted.loc[0, "divergence"] += seed
        put_rows(tmp_path, "table", model, planted)
    head_costs.put_facts(tmp_path, head_costs.__file__)
    head_costs.write_result(tmp_path)
    ranks = read_table(tmp_path, "correlations")
    assert ranks.loc[0, ["divergence", "l1"]].tolist() == [1, -1]
    found = read_table(tmp_path, "contrasts").set_index("contrast")
    assert found["models"].tolist() == [2, 2, 2]
    best = "divergence of the model's output"
    assert found.loc[f"{best} minus l1 error", "same_sign"] == 2
    text = (tmp_path / "README.md").read_text("utf-8")
    assert f"**{best.capitalize()}**" in text
    assert "Number of models: 2" in text


def test_seeds_of_a_language_are_one_unit_where_languages_are_units() -> None:
    models = [(f"multi30k-en-{code}", seed) for code in ("cs", "de", "fr") for seed in (0, 1)]
    shares = pd.DataFrame(models, columns=["corpus", "seed"]).assign(scope="all", share=0.5)
    assert translators.are_seeds_of_languages(shares)
    assert not translators.are_seeds_of_languages(shares[shares["corpus"] != models[0][0]])
    assert not translators.are_seeds_of_languages(shares[1:])
    changes = [0.0, 0.5, 1.0, 2.0, 3.0, 5.0]
    orders = [shares.assign(order=name, loss_change=changes) for name in static_heads.CONTRASTS]
    orders.append(shares.assign(order=static_heads.RANDOM, loss_change=0.0))
    found = static_heads.tested(pd.concat(orders), ["corpus"])
    assert found["models"].tolist() == [3, 3]
    assert found["difference"].tolist() == pytest.approx([(0.25 + 1.5 + 4) / 3] * 2)
    assert static_heads.tested(pd.concat(orders), ["corpus", "seed"])["models"].tolist() == [6, 6]


@pytest.mark.slow
def test_static_heads_come_out_in_tables_and_readme(
    small_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(static_heads, "CALIBRATION", 50)
    monkeypatch.setattr(static_heads, "SHARES", (0.25, 0.5))
    heads, rows = static_heads.measured(load(small_run), sentences=8)
    assert heads[static_heads.VARIANCE].between(0, 1).all()
    none = rows[rows["share"] == 0].iloc[0]
    assert (none["loss_change"], none["heads"]) == (0, 0)
    every = rows[(rows["scope"] == "all") & (rows["share"] == 1)].set_index("form")
    assert (every["heads"] == len(heads)).all()
    assert every.loc[FITTED, "loss"] != every.loc[MEAN, "loss"]
    # Rows that are whole sets of one site are the same whatever the order.
    own = rows[(rows["scope"] == "cross") & (rows["share"] == 0.5) & (rows["order"] != "")]
    assert own["heads"].eq(1).all()
    assert own["loss"].nunique() <= 2
    for model in MODELS:
        put_rows(tmp_path, "heads", model, heads)
        put_rows(tmp_path, "table", model, rows)
    static_heads.put_facts(tmp_path, static_heads.__file__)
    static_heads.write_result(tmp_path)
    models = read_table(tmp_path, "over_models")
    assert models["models"].eq(2).all()
    means = (
        rows[(rows["scope"] == "all") & (rows["share"] == 0.5)]
        .groupby("order")["loss_change"]
        .mean()
    )
    difference = means[static_heads.VARIANCE] - means[static_heads.RANDOM]
    found = read_table(tmp_path, "contrasts")
    assert found.loc[0, "difference"] == pytest.approx(difference, abs=1e-5)
    text = (tmp_path / "README.md").read_text("utf-8")
    assert "Number of models: 2" in text


def test_orders_begin_with_the_least() -> None:
    heads = pd.DataFrame(
        {
            "site": "encoder", "layer": 0, "head": [0, 1, 2],
            static_heads.VARIANCE: [0.3, 0.1, 0.2], static_heads.ABLATION: [1.0, 2.0, 0.0],
            static_heads.OWN: [0.0, 1.0, 2.0],
        }
    )  # fmt: skip
    orders = {(name, draw): own for name, draw, own in static_heads.orders_of(heads)}
    assert [head.head for head in orders[static_heads.VARIANCE, 0]] == [1, 2, 0]
    assert [head.head for head in orders[static_heads.ABLATION, 0]] == [2, 0, 1]
    assert set(orders[static_heads.RANDOM, 0]) == {Head("encoder", 0, n) for n in range(3)}
    assert len(orders) == 3 + static_heads.DRAWS
