"""The study of when heads form: kept steps, halfway points, its result on tiny text."""

import gzip
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from small_run import SETTINGS, snapshot

from attnlab.ablation import contrasts
from attnlab.grammar.embedded import draw_pairs
from attnlab.grammar.trees import conllu
from attnlab.questions.across.degree_tables import halfway, reached
from experiments.alignment import models as alignment_models
from experiments.heads_over_training import models
from experiments.heads_over_training import run as experiment
from experiments.heads_over_training.counts import CountModel
from experiments.heads_over_training.curves import (
    ABOVE,
    COUNTED,
    LANGUAGE,
    TRANSLATION,
    contrasts_of,
    halves,
    over_seeds,
)
from experiments.heads_over_training.readings import DETECTED, INDUCTION_HEAD, PREVIOUS_TOKEN
from experiments.shared.readme import read_table


def test_halfway_is_where_a_line_first_crosses() -> None:
    assert halfway([0, 10, 20, 40], [0, 0.2, 0.6, 1]) == pytest.approx(17.5)
    # Of what falls, and does so again later.
    assert halfway([0, 10, 20, 40], [8, 2, 9, 0]) == pytest.approx(20 / 3)
    assert halfway([0, 4], [1.0, 3.0]) == 2
    assert np.isnan(halfway([0, 4], [1.0, 1.0]))


def _heads(seed: int, curves: dict[tuple[str, str], list[float]]) -> pd.DataFrame:
    rows = [
        {"seed": seed, "site": site, "head": head, "label": label, "step": 10 * number}
        # The second head is always weaker.
        | {"strength": value * (1 - head / 2), "shuffled_strength": 0.0, "value": value}
        for (site, label), values in curves.items()
        for number, value in enumerate(values)
        for head in (0, 1)
    ]
    return pd.DataFrame(rows)


def test_planted_orders_are_found() -> None:
    curves = {
        ("decoder", "positional"): [0.0, 1.0, 1.0],
        ("cross", "alignment"): [0.0, 0.5, 1.0],
        ("encoder", "sink"): [0.4, 0.4, 0.6],
    }
    heads = pd.concat(_heads(seed, curves) for seed in (0, 1))
    quality = pd.DataFrame(
        {"seed": [0] * 3 + [1] * 3, "step": [0, 10, 20] * 2}
        | {"loss": [8.0, 4, 2] * 2, "BLEU": [0.0, 0, 50] * 2}
    )
    table = halves(heads, quality, TRANSLATION)
    over = over_seeds(table).set_index(["site", "label"])
    assert over.loc[("encoder", "sink"), "formed"] == 0
    assert np.isnan(over.loc[("encoder", "sink"), "share"])
    assert over.loc[("decoder", "positional"), "share"] == pytest.approx(25)
    assert over.loc[("model", "BLEU"), "share"] == pytest.approx(75)
    ratios = contrasts_of(table, TRANSLATION).set_index("contrast")["ratio"]
    assert ratios["alignment heads before BLEU"] == pytest.approx(10 / 15)
    assert ratios["alignment heads before the loss"] == pytest.approx(10 / 7.5)
    assert ratios["positional heads before alignment heads"] == pytest.approx(0.5)


def test_a_level_is_reached_where_the_line_crosses_it() -> None:
    assert reached([0, 10, 20], [8.0, 4.0, 2.0], 3.0) == pytest.approx(15)
    assert reached([0, 10, 20], [8.0, 4.0, 9.0], 4.0) == 10
    assert np.isnan(reached([0, 10], [8.0, 4.0], 3.9))
    # Where it begins, nothing was reached.
    assert np.isnan(reached([0, 10], [8.0, 4.0], 8.0))


def test_counts_of_pairs_are_probabilities() -> None:
    texts = [[0, 1, 2, 1], [0, 1, 1, 3]]
    counts = CountModel(texts, 5)
    for weight in (0.0, 0.4, 0.95):
        for first in range(5):
            found = [counts.losses([[first, second]], weight)[0] for second in range(5)]
            assert np.exp(-np.array(found)).sum() == pytest.approx(1)
    # Of three tokens behind a 1 each comes once: 2, 1 and 3; of all six, 1 comes four times.
    single = (4 + 1) / (6 + 5)
    assert counts.losses([[1, 1]], 0.4)[0] == pytest.approx(-np.log(0.4 / 3 + 0.6 * single))
    assert counts.losses([[1, 1], [0, 1, 2]], 0.4).shape == (2,)
    assert counts.best_weight([[0, 1]]) == pytest.approx(0.95)


def test_a_language_model_passes_counts_and_forms_heads_in_a_planted_order() -> None:
    curves = {
        ("decoder", "positional"): [0.0, 1.0, 1.0],
        ("decoder", "sink"): [0.0, 0.0, 1.0],
        ("decoder", PREVIOUS_TOKEN): [0.0, 0.4, 0.6],
        ("decoder", INDUCTION_HEAD): [0.0, 0.0, 0.6],
    }
    heads = pd.concat(_heads(seed, curves) for seed in (0, 1))
    quality = pd.DataFrame({"seed": [0] * 3 + [1] * 3, "step": [0, 10, 20] * 2})
    quality = quality.assign(loss=[8.0, 5, 3] * 2, **{COUNTED: 4.0})
    table = halves(heads, quality, LANGUAGE)
    passed = table[table["label"] == ABOVE].iloc[0]
    assert (passed["untrained"], passed["end"], passed["half_step"]) == (4, -1, 15)
    found = contrasts_of(table, LANGUAGE)
    assert list(found["contrast"]) == list(LANGUAGE.contrasts)
    ratios = found.set_index("contrast")["ratio"]
    assert ratios["positional heads before sinks"] == pytest.approx(5 / 15)
    assert ratios["previous-token heads before induction heads"] == pytest.approx(7.5 / 15)
    assert ratios["positional heads before the loss of a bigram model"] == pytest.approx(5 / 15)
    # Passed on the way, but not at the end.
    back = quality.assign(loss=[8.0, 3.5, 4.5] * 2)
    assert not halves(heads, back, LANGUAGE).query("label == @ABOVE")["formed"].any()
    never = halves(heads, quality.assign(**{COUNTED: 2.9}), LANGUAGE)
    assert contrasts_of(table, LANGUAGE)["p_value"].isna().all()
    assert not never.loc[never["label"] == ABOVE, "formed"].any()


def test_of_few_models_nothing_is_tested() -> None:
    """Nor do they make the correction of the others larger."""
    curves = {
        ("decoder", "positional"): [0.0, 1.0, 1.0],
        ("decoder", "sink"): [0.0, 0.0, 1.0],
        ("decoder", PREVIOUS_TOKEN): [0.0, 0.4, 0.6],
    }
    late = {("decoder", INDUCTION_HEAD): [0.0, 0.0, 0.6]}
    parts = [_heads(seed, curves | (late if seed < 2 else {})) for seed in range(3)]
    spread = pd.DataFrame({"seed": range(3), "later": [0, 1, 2]}).set_index("seed")["later"]
    heads = pd.concat(parts)
    heads["step"] += heads["seed"].map(spread) * (heads["step"] > 0)
    quality = heads[["seed", "step"]].drop_duplicates().assign(loss=5.0, **{COUNTED: 4.0})
    found = contrasts_of(halves(heads, quality, LANGUAGE), LANGUAGE).set_index("contrast")
    assert found["models"].to_dict() == {
        "positional heads before sinks": 3, "previous-token heads before induction heads": 2,
    }  # fmt: skip
    assert np.isnan(found.loc["previous-token heads before induction heads", "ratio_low"])
    alone = contrasts({"one": np.log([5 / 15, 5.5 / 16, 6 / 17]).tolist()})["p_value"].iloc[0]
    assert found.loc["positional heads before sinks", "p_value"] == pytest.approx(alone)


def test_the_strongest_head_of_the_last_step_is_named() -> None:
    rows = [
        (0, 0, "sink", 0.9, 0.3, "opening"), (0, 8, "sink", 0.4, 0.25, "punctuation"),
        (1, 8, "sink", 0.6, 0.28, "opening"), (0, 8, "positional", 0.0, 0.1, "offset -1"),
        (1, 8, "induction (random)", 0.02, 0.02, None),
    ]  # fmt: skip
    columns = ["head", "step", "label", "strength", "value", "detail"]
    heads = pd.DataFrame(rows, columns=columns).assign(seed=0, layer=1, site="decoder")
    found = experiment.strongest_at_end(heads).set_index("label")["seed 0"]
    assert found.to_dict() == {"sink": "1.1 opening 0.28", "induction (random)": "1.1 0.02"}


def test_words_of_what_formed() -> None:
    whole = {"site": "decoder", "label": "sink", "formed": 3, "end": 0.5, "share": 0.62}
    whole |= {"share_low": 0.31, "share_high": 1.2}
    late = whole | {"label": "syntactic", "share": 7.7, "share_low": 5.1, "share_high": 11.8}
    never = whole | {"label": "broad", "formed": 0, "share": np.nan}
    other = whole | {"label": "monotone", "site": "cross"}
    found = experiment.formed_in(pd.DataFrame([whole, late, never, other]), 5)
    assert found == {
        "sink": "in 3 of 5, first halfway at 0.6 % [0.3, 1.2] (0.50 at the end)",
        "syntactic": "in 3 of 5, first halfway at 8 % [5, 12] (0.50 at the end)",
        "broad": "in none of 5 (0.50 at the end)",
    }
    assert experiment.percent(late | {"share_low": np.nan}) == "8 %"


@pytest.mark.slow
def test_the_command_runs_from_training_to_readme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Labels that form in no model are told as such; a model that is there is not read again."""
    monkeypatch.setattr(experiment, "RESULTS", tmp_path)
    out = tmp_path / TRANSLATION.folder
    monkeypatch.setattr(models, "CHECKPOINTS", 3)
    monkeypatch.setattr(alignment_models, "DEMO_SETTINGS", SETTINGS)
    words = ["--seeds", "0", "1", "--sentences", "6", "--runs", str(tmp_path / "runs")]
    monkeypatch.setattr(sys, "argv", ["run.py", *words])
    experiment.main()
    published = snapshot(out)
    monkeypatch.setattr(experiment, "model_of", None)
    experiment.main()
    assert snapshot(out) == published
    heads = read_table(out, "heads")
    assert len(set(heads["step"])) >= 3
    assert heads["strength"].dropna().between(0, 1).all()
    assert "Number of models: 2" in (out / "README.md").read_text("utf-8")


def _write_texts(folder: Path) -> None:
    """A corpus in parts and a treebank, where those of the shared data lie."""
    for number, split in enumerate(("train", "val", "test")):
        pairs = draw_pairs(60, seed=number)
        for language, texts in (
            ("en", [pair.source for pair in pairs]),
            ("it", [pair.target for pair in pairs]),
        ):
            path = folder / "bible" / f"{split}.{language}"
            path.parent.mkdir(exist_ok=True)
            path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    trees = [conllu(pair.source_tree) for pair in draw_pairs(40, seed=9)]
    (folder / "pud").mkdir()
    with gzip.open(folder / "pud" / "en.conllu.gz", "wt", encoding="utf-8") as file:
        file.write("".join(trees))


@pytest.mark.slow
def test_the_command_reads_language_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels, trees, random tokens and counts; one model alone has no interval and no test."""
    monkeypatch.setattr(experiment, "RESULTS", tmp_path)
    monkeypatch.setattr(models, "CHECKPOINTS", 3)
    small = {"dim": 16, "heads": 2, "feed_forward": 24, "task": "language-model"}
    tiny = models.LANGUAGE_MODEL | {
        "tokenizer": {"vocabulary": 200},
        "model": small | {"decoder_layers": 2},
        "optimizer": SETTINGS["optimizer"],
    }
    monkeypatch.setattr(models, "LANGUAGE_MODEL", tiny)
    _write_texts(tmp_path)
    words = ["--language-model", str(tmp_path), "--seeds", "0", "--sentences", "6"]
    monkeypatch.setattr(sys, "argv", ["run.py", *words, "--runs", str(tmp_path / "runs")])
    experiment.main()
    heads = read_table(tmp_path / LANGUAGE.folder, "heads")
    counts = heads.groupby(["step", "label"]).size().unstack()
    assert (counts == 4).all(axis=None)
    assert {"positional", "sink", "broad", "syntactic", *DETECTED.values()} <= set(counts)
    assert heads.loc[heads["label"].isin([INDUCTION_HEAD]), "shuffled_strength"].notna().all()
    quality = read_table(tmp_path / LANGUAGE.folder, "quality")
    assert quality[COUNTED].nunique() == 1
    assert 0 < quality[COUNTED].iloc[0] < quality["loss"].iloc[0]
    text = (tmp_path / LANGUAGE.folder / "README.md").read_text("utf-8")
    assert "Number of models: 1" in text
