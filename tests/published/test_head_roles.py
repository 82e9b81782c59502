"""The study of what heads do: shares of heads by label and model, on tiny text and on planted rows."""

from pathlib import Path

import pandas as pd
import pytest

from attnlab.models.run import load
from experiments.head_roles import run as roles
from experiments.shared.readme import put_rows, read_table


def planted(labels: list[str], costs: list[float]) -> pd.DataFrame:
    """Heads of one model: two of the encoder, two of the decoder."""
    rows = {"text": roles.CAPTIONS, "site": ["encoder", "encoder", "decoder", "decoder"]}
    rows |= {"layer": 0, "head": [0, 1, 0, 1], roles.LABELS: labels}
    return pd.DataFrame(rows | {"loss_change": costs})


def test_shares_are_of_the_heads_of_a_site_in_all_models(tmp_path: Path) -> None:
    first = planted(["sink; broad", "no label", "sink", "sink"], [0.25, 0.5, 1.0, 2.0])
    second = planted(["no label", "no label", "no label", "sink"], [0.0, 0.0, 0.0, 4.0])
    for seed, rows in enumerate((first, second)):
        put_rows(tmp_path, "table", {"corpus": "one", "seed": seed}, rows)
    found = roles.estimated(read_table(tmp_path, "table")).set_index(["site", "label"])
    shares = {("encoder", "sink"): 0.25, ("encoder", "broad"): 0.25, ("encoder", "no label"): 0.75}
    shares |= {("decoder", "sink"): 0.75, ("decoder", "no label"): 0.25}
    assert found["share"].to_dict() == shares
    # Without a sink of the encoder the one model that has one loses 0.25; the others have no part in it.
    assert found.loc[("encoder", "sink"), ["models", "models_with", "loss_change"]].tolist() == [
        2,
        1,
        0.25,
    ]
    assert found.loc[("decoder", "sink"), "loss_change"] == (1.5 + 4) / 2
    assert next(iter(found.index)) == ("encoder", "no label")


def test_shares_by_layer_are_of_the_heads_of_the_layer() -> None:
    first = planted(["sink; broad", "no label", "sink", "sink"], [0.0] * 4).assign(
        seed=0, corpus="one"
    )
    second = first.assign(layer=1, labels=["no label", "no label", "sink", "no label"])
    found = roles.by_layer(pd.concat([first, second, first.assign(seed=1), second.assign(seed=1)]))
    assert found.columns.tolist() == ["site", "label", "layer 0", "layer 1"]
    assert {tuple(row) for row in found.itertuples(index=False)} == {
        ("encoder", "sink", "0.50", "0.00"), ("encoder", "broad", "0.50", "0.00"),
        ("encoder", "no label", "0.50", "1.00"), ("decoder", "sink", "1.00", "0.50"),
        ("decoder", "no label", "0.00", "0.50"),
    }  # fmt: skip
    assert found["site"].tolist() == ["encoder"] * 3 + ["decoder"] * 2


@pytest.mark.slow
def test_roles_come_out_in_tables_and_readme(small_run: Path, tmp_path: Path) -> None:
    heads, whole = roles.measured(load(small_run), None, sentences=20)
    assert set(heads["site"]) == set(roles.SITES)
    assert heads[roles.LABELS].notna().all()
    for seed in range(2):
        model = {"corpus": "multi30k-en-fr", "seed": seed}
        put_rows(tmp_path, "table", model, heads)
        put_rows(tmp_path, "models", model, pd.DataFrame([whole]))
    roles.put_facts(tmp_path, roles.__file__)
    roles.write_result(tmp_path)
    text = (tmp_path / "README.md").read_text("utf-8")
    assert "Number of models: 2" in text
    assert "gold trees" not in text
    assert (tmp_path / "roles.svg").exists()
