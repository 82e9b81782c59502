"""The experiment on heads that align, on tiny data: its text, its contrasts, its tables and README."""

import gzip
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from small_run import SETTINGS, exchanged_run, snapshot

from attnlab.alignment.statistical_aligner import words_of
from attnlab.corpora.corpus import draw_embedded
from attnlab.models.run import load
from attnlab.questions.align.question import (
    CHOICE_NAMES,
    CHOSEN,
    OF_ENGINES,
    ORACLE,
    SYMMETRIZATIONS,
)
from experiments.alignment import models
from experiments.alignment import run as experiment
from experiments.alignment.contrasts import FEW_PAIRS, FIRST_HEAD, OF_BOUND, STATISTICAL, contrasts
from experiments.alignment.corpus import TEXTS, gold_of, write_corpus
from experiments.alignment.readme import (
    consistency,
    near_defaults,
    shown_over_seeds,
    worse_than_diagonal,
)
from experiments.shared.readme import read_facts, read_table


def _write(path: Path, lines: list[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))
    return path


def test_the_text_holds_every_pair_once_and_no_side_of_a_gold_pair(tmp_path: Path) -> None:
    together = ["A cat.\tUn gatto.", "Gold, here!\tQualcosa.", "Other.\tOro qui", "One\tUno"]
    for name in ("europarl", "bible"):
        _write(tmp_path / name / "en-it.train.tsv.gz", together)
    _write(tmp_path / "tatoeba" / "train.en.gz", ["a CAT .", "Rain"])
    _write(tmp_path / "tatoeba" / "train.it.gz", ["un gatto.", "Pioggia"])
    gold = _write(tmp_path / "gold.tsv.gz", ["Gold here\tOro qui\t0-0 1-1"])
    write_corpus("en-it", tmp_path, [gold], tmp_path / "text.tsv")
    lines = (tmp_path / "text.tsv").read_text("utf-8").splitlines()
    assert sorted(lines) == ["a cat .\tun gatto .", "one\tuno", "rain\tpioggia"]


def test_a_text_has_its_own_languages_corpora_and_gold_links(tmp_path: Path) -> None:
    _write(tmp_path / "bible" / "en-es.train.tsv.gz", ["A cat.\tUn gato."])
    _write(tmp_path / "bible" / "en-it.train.tsv.gz", ["A cat.\tUn gatto."])
    for language, line in (("en", "Rain"), ("es", "Lluvia"), ("it", "Pioggia")):
        _write(tmp_path / "tatoeba" / f"train.{language}.gz", [line])
    gold = gold_of("en-es", tmp_path)
    assert gold.files() == [tmp_path / "xlwa" / "es.dev.tsv.gz"]
    write_corpus("en-es", tmp_path, [], tmp_path / "text.tsv")
    lines = (tmp_path / "text.tsv").read_text("utf-8").splitlines()
    assert sorted(lines) == ["a cat .\tun gato .", "rain\tlluvia"]
    both = gold_of("en-it", tmp_path).files()
    assert [file.name for file in both] == ["it.test.tsv.gz", "it.dev.tsv.gz"]
    assert list(TEXTS) == ["en-it", "en-es"]


def _systems(*, first: float, mean: float, unsupervised: float, statistical: float) -> pd.DataFrame:
    rows = [
        (CHOSEN, "choice", 0.3), (CHOICE_NAMES["unsupervised"], "choice", unsupervised),
        (FIRST_HEAD, "default", first), ("mean of the last layer", "default", mean),
        (ORACLE, "bound", 0.25), (STATISTICAL, "baseline", statistical),
    ]  # fmt: skip
    return pd.DataFrame(
        [
            {"system": name, "system_kind": kind, "aer": aer, "aer_change": aer - 0.3, "aer_change_low": 0.0,
             "aer_change_high": 1.0}
            for name, kind, aer in rows
        ]
    )  # fmt: skip


def _calibration(aer: float, pairs: int = FEW_PAIRS) -> pd.DataFrame:
    row = {"pairs": pairs, "aer": aer, "aer_low": aer - 0.01, "aer_high": aer + 0.01}
    return pd.DataFrame([row])


def test_contrasts_say_what_was_reached() -> None:
    good = _systems(first=0.5, mean=0.45, unsupervised=0.32, statistical=0.31)
    found = contrasts(good, _calibration(0.255)).set_index("contrast")
    assert found["reached"].all()
    assert found.loc["nearest default of engines", "system"] == "mean of the last layer"
    assert found.loc["nearest default of engines", "difference"] == pytest.approx(0.15)
    assert found.loc[OF_BOUND, ["difference", "difference_low", "difference_high"]].tolist() == (
        pytest.approx([0.005, -0.005, 0.015])
    )
    poor = _systems(first=0.39, mean=0.31, unsupervised=0.34, statistical=0.29)
    assert not contrasts(poor, _calibration(0.265))["reached"].any()
    assert OF_BOUND not in set(contrasts(good, _calibration(0.2, pairs=50))["contrast"])
    assert len(contrasts(good[good["system"] != STATISTICAL], _calibration(0.2))) == len(found) - 1


def test_defaults_that_are_near_are_told() -> None:
    model = {"text": "en-it", "layers": 3, "seed": 0}
    near, far = (
        _systems(first=0.5, mean=mean, unsupervised=0.3, statistical=0.3).assign(**model)
        for mean in (0.31, 0.33)
    )
    (told,) = near_defaults(near)
    assert told["system"] == "mean of the last layer"
    assert list(near_defaults(far)) == []


def test_models_that_align_worse_than_the_diagonal_are_told() -> None:
    model = {"text": "en-it", "layers": 3, "seed": 0}
    rows = [{"system": CHOSEN, "aer": 0.6}, {"system": "diagonal", "aer": 0.5}]
    table = pd.DataFrame(rows).assign(**model)
    assert list(worse_than_diagonal(table)) == ["English-Italian, 3 layers, seed 0"]
    assert list(worse_than_diagonal(table.assign(aer=[0.5, 0.5]))) == []


def test_what_sets_of_several_seeds_share() -> None:
    rows = [(0, "input", "0.1, 2.3"), (1, "input", "2.0"), (2, "output", "1.2, 2.1, 2.0")]
    table = pd.DataFrame(
        [
            {"text": "en-it", "layers": 3, "seed": seed, "system": CHOSEN, "row": row, "heads": heads,
             "aer": 0.2 + seed / 10}
            for seed, row, heads in rows
        ]
    )  # fmt: skip
    (found,) = consistency(table).to_dict("records")
    assert found["row"] == "input in 2, output in 1"
    assert (found["layers in all of them"], found["layers in any"]) == ("2", "0, 1, 2")
    assert (found["number of heads"], found["AER"]) == ("1 to 3", "20.0 to 40.0")
    assert consistency(table[:1]).empty


def test_means_over_models_are_of_three_and_more() -> None:
    table = pd.DataFrame(
        [
            {"text": text, "layers": 1, "seed": seed, "contrast": FIRST_HEAD, "difference": seed / 100}
            for text, count in (("en-it", 2), ("embedded", 3))
            for seed in range(count)
        ]
    )  # fmt: skip
    (found,) = shown_over_seeds(table).to_dict("records")
    assert found["models"].startswith("3 of embedded grammar")
    assert found["mean"].startswith("+1.0 [")


@pytest.mark.slow
def test_a_model_of_the_embedded_grammar_is_published(small_run: Path, tmp_path: Path) -> None:
    run, out = load(small_run), tmp_path / "out"
    back = load(exchanged_run(small_run, tmp_path / "back"))
    tables = experiment.measured(run, None, back, sentences=8)
    model: dict[str, Any] = {"text": "embedded", "layers": 1, "seed": 0}
    for seed in (0, 1, 0):
        experiment.publish(out, model | {"seed": seed}, tables)
        experiment.write_result(out, f"command {seed}")
    assert tables["engines"]["choice"].tolist() == [CHOICE_NAMES[one] for one in OF_ENGINES]
    for row in tables["engines"].to_dict("records"):
        first = tables["systems"].set_index("system").loc[FIRST_HEAD, "aer"]
        assert row["aer"] + row["first_head"] == pytest.approx(first)
    assert len(tables["directions"]) == 2 + len(SYMMETRIZATIONS)
    for name, table in tables.items():
        published = read_table(out, name)
        assert published["seed"].tolist() == [0] * len(table) + [1] * len(table)
    assert read_facts(out)["commands"] == ["command 1", "command 0"]
    described = read_table(out, "models").iloc[0]
    assert described["steps"] == run.metrics()[-1]["step"]
    assert described["reported_pairs"] == described["calibration_pairs"] == 4
    text = (out / "README.md").read_text("utf-8")
    assert "Number of models: 2 of embedded grammar, 1 layer." in text
    # Four pairs have no interval.
    aer = read_table(out, "systems").iloc[0]["aer"]
    assert f"AER is {100 * aer:.1f};" in text.replace("\n", " ")
    assert "nan" not in text
    assert "## What engines can be told of" in text
    assert "## By contributions" in text
    assert "## Both directions" in text
    assert (out / "systems.svg").exists()


def _tiny_data(folder: Path) -> Path:
    """Corpora and gold files of pairs of the embedded grammar, where those of the experiment would be."""
    drawn = draw_embedded(("en", "it"), 0, 120)
    lines = [f"{pair.source}\t{pair.target}" for pair in drawn[:80]]
    for name, part in (("europarl", lines[:40]), ("bible", lines[40:60])):
        _write(folder / name / "en-it.train.tsv.gz", part)
    for place, language in enumerate(("en", "it")):
        sides = [line.split("\t")[place] for line in lines[60:]]
        _write(folder / "tatoeba" / f"train.{language}.gz", sides)
    (folder / "xlwa").mkdir()
    for part, pairs in (("dev", drawn[80:100]), ("test", drawn[100:])):
        gold = [
            "\t".join([*(" ".join(words_of(side)) for side in (one.source, one.target)), "0-0"])
            for one in pairs
        ]
        _write(folder / "xlwa" / f"it.{part}.tsv.gz", gold)
    return folder


@pytest.mark.slow
def test_the_command_runs_from_texts_to_readme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command of the README on tiny texts and models, and again, when nothing is left to train."""
    out, runs, data = tmp_path / "result", tmp_path / "runs", _tiny_data(tmp_path / "data")
    monkeypatch.setattr(experiment, "OUT", out)
    monkeypatch.setattr(models, "DIM", 16)
    monkeypatch.setattr(models, "OPTIMIZER", SETTINGS["optimizer"] | {"epochs": 1})
    monkeypatch.setattr(models, "DEMO_SETTINGS", SETTINGS)
    words = [
        str(data),
        "--layers",
        "1",
        "--embedded",
        "1",
        "--both-directions",
        "0",
        "--runs",
        str(runs),
    ]
    monkeypatch.setattr(sys, "argv", ["run.py", *words])
    experiment.main()
    trained = snapshot(runs)
    experiment.main()
    assert snapshot(runs) == trained
    published = read_table(out, "models")
    assert published["text"].tolist() == ["embedded", "en-it"]
    assert published["reported_pairs"].tolist()[1] == 20
    assert (published["training_pairs"] > 0).all()
    assert set(read_table(out, "directions")["text"]) == {"en-it"}
    lines, exchanged = ((runs / f"{text}.tsv").read_text("utf-8") for text in ("en-it", "it-en"))
    turned = ["\t".join(line.split("\t")[::-1]) for line in lines.splitlines()]
    assert exchanged.splitlines() == turned
    (command,) = read_facts(out)["commands"]
    assert command.startswith("python experiments/alignment/run.py ")
    assert f"`{command}`" in (out / "README.md").read_text("utf-8")
    assert (out / "systems.svg").exists()
