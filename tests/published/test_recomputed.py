"""One figure of every results folder, computed again by the code as it is now.

What took a trained model or a stopwatch cannot be repeated in a test; there a figure is taken that
follows from the corpus, the settings or the other tables of the folder.
"""

import importlib
import io
import json
import re
from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from attnlab.ablation import loss_difference
from attnlab.matrices.supports import band_dimension
from attnlab.models.run import corpus_of
from attnlab.models.tokenizer import train_tokenizers
from attnlab.models.training_batches import LengthGroupedBatches, TokenPairs, encode_corpus
from attnlab.models.training_settings import RunSettings, settings_from

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "results"
FOLDERS = {path.parent.name: path.parent for path in ROOT.glob("*/*/facts.json")}
Check = Callable[[Path, pytest.FixtureRequest], None]
CHECKS: dict[str, Check] = {}


def recomputes(*folders: str) -> Callable[[Check], Check]:
    def register(check: Check) -> Check:
        CHECKS.update(dict.fromkeys(folders, check))
        return check

    return register


@pytest.mark.slow
@pytest.mark.parametrize("folder", sorted(FOLDERS))
def test_a_figure_of_the_folder_comes_out_again(
    folder: str, request: pytest.FixtureRequest
) -> None:
    assert folder in CHECKS, f"say how to compute a figure of {folder} again"
    CHECKS[folder](FOLDERS[folder], request)


def script(name: str) -> Any:
    return importlib.import_module(f"experiments.{name}.run")


@recomputes("thesis")
def _(folder: Path, request: pytest.FixtureRequest) -> None:
    from attnlab.matrices.sigma_sets import fit_sigma
    from attnlab.reading.matrix_files import load_matrices

    H = load_matrices(request.getfixturevalue("shared_data") / "thesis" / "heads.npz")
    table = pd.read_csv(folder / "published.csv")
    uniform = (H - 1 / H.shape[-1]).abs().sum((-2, -1))
    of_heads = uniform[torch.tensor(table["head"].to_numpy() - 1)]
    torch.testing.assert_close(of_heads, torch.tensor(table["uniform_matrix"].to_numpy()))
    assert (table["published"] < table["uniform_matrix"]).sum() == 31
    for (window, num_pos), rows in table.groupby(["w", "num_pos"]):
        options = {"window": int(window), "num_pos": int(num_pos)}
        for values in ("free", "stochastic", "binary"):
            again = fit_sigma(H, **options, values=values).l1
            expected = torch.tensor(rows[f"exact_{values}"].to_numpy())
            torch.testing.assert_close(again, expected)
        bound = {"error_nnz": H.shape[-1], "error_bound": 0.5}
        again = fit_sigma(H, **options, values="stochastic", **bound).l1
        expected = torch.tensor(rows["exact_stochastic_error_0.5"].to_numpy())
        torch.testing.assert_close(again, expected)


@recomputes("error_rates")
def _(folder: Path, _: pytest.FixtureRequest) -> None:
    simulation = script("error_rates")
    table = pd.read_csv(folder / "table.csv")
    cell = table.query("weighting == 'equal' and sentences == 10 and distribution == 'exponential'")
    again = pd.DataFrame(simulation.rates("exponential", 10, "equal"))
    assert again["rejected"].to_numpy() == pytest.approx(cell["rejected"].to_numpy(), abs=1e-9)
    # What is simulated is what the package computes of a loss per token.
    random = np.random.default_rng(1)
    changes, tokens = random.normal(size=(5, 12)), random.integers(3, 9, (5, 12)).astype(float)
    used = simulation.p_values(changes, tokens, random)[simulation.USED]
    for one, own, p_value in zip(changes, tokens, used, strict=True):
        found = loss_difference(*(torch.from_numpy(each) for each in (0 * one, one, own)))
        assert found.p_value == pytest.approx(p_value)
    many = table[(table["rule"] == simulation.USED) & (table["sentences"] >= 20)]
    many = many[~many["distribution"].isin(["lognormal", "effect"])]
    # Where lengths vary more the rule errs a little more often.
    varied = many["weighting"] == "tokens alike, lengths apart"
    assert many.loc[~varied, "rejected"].max() <= 0.07
    assert many.loc[varied, "rejected"].max() <= 0.08


@recomputes("attention_graphs")
def _(folder: Path, _: pytest.FixtureRequest) -> None:
    graphs = script("attention_graphs")
    table = pd.read_csv(folder / "table.csv").set_index(["graph", "tokens"])
    for name in graphs.GRAPHS:
        again = pd.DataFrame([graphs.measured(name, 128, seed) for seed in graphs.SEEDS])
        expected = table.loc[(name, 128)]
        assert again[[*expected.index]].mean().to_numpy() == pytest.approx(expected.to_numpy())
    # All graphs of a length have about as many edges, and a star has paths of two.
    edges = table["edges"].unstack()
    assert (edges.max() / edges.min()).max() < 1.02
    assert table.loc[[graphs.BIGBIRD, graphs.WINDOW_GLOBAL], "longest_path"].max() == 2


@recomputes("scale_of_scores")
def _(folder: Path, _: pytest.FixtureRequest) -> None:
    scores = script("scale_of_scores")
    table = pd.read_csv(folder / "table.csv").set_index(["dim", "scores"])
    for scaled in (True, False):
        again = scores.drawn(64, scaled=scaled)
        row = table.loc[(64, again.pop("scores"))]
        assert [again[name] for name in row.index] == pytest.approx(row.to_list())
    # The norm that is computed in closed form is that of autograd.
    values = torch.randn(5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    jacobian = torch.autograd.functional.jacobian(lambda x: x.softmax(-1), values)
    assert scores.jacobian_norm(values.softmax(-1)).item() == pytest.approx(jacobian.norm().item())


@recomputes("synthetic_recovery")
def _(folder: Path, _: pytest.FixtureRequest) -> None:
    planting = script("synthetic_recovery")
    generator = torch.Generator().manual_seed(planting.SEED)
    table = pd.read_csv(folder / "table.csv")
    for row in table.head(2).to_dict("records"):
        again = planting.recover(row["family"], row["sentences"], row["noise"], generator)
        assert again == pytest.approx(row)


@recomputes("fit_speed")
def _(folder: Path, _: pytest.FixtureRequest) -> None:
    measured = pd.read_csv(folder / "table.csv").set_index("what")["measured"]
    ratio = measured.iloc[0] / measured.iloc[1]
    assert measured["search / exact"] == pytest.approx(ratio)


@recomputes("generation")
def _(folder: Path, _: pytest.FixtureRequest) -> None:
    generation = script("generation")
    sizes = pd.read_csv(folder / "table.csv").set_index(["cache", "tokens"])["bytes"]
    layers, (_, heads, dim) = generation.SHAPE["num_hidden_layers"], generation.HEAD
    sums = layers * heads * dim * (dim + 1) * 8
    assert {sizes[generation.LINEAR, length] for length in generation.LENGTHS} == {sums}
    assert sizes["all keys", 512] == layers * 2 * heads * 512 * dim * 4


@recomputes("scaling")
def _(folder: Path, _: pytest.FixtureRequest) -> None:
    scaling = script("scaling")
    table = pd.read_csv(folder / "table.csv")
    exponents = pd.read_csv(folder / "exponents.csv").set_index("mechanism")
    for mechanism, rows in table.groupby("mechanism", sort=False):
        again = scaling.exponents_of(rows)
        assert again == pytest.approx(exponents.loc[mechanism].to_dict(), nan_ok=True)


@recomputes("training_speed")
def _(folder: Path, _: pytest.FixtureRequest) -> None:
    again = script("training_speed").readme(folder)
    assert again == (folder / "README.md").read_text("utf-8")


@recomputes("capture_speed")
def _(folder: Path, _: pytest.FixtureRequest) -> None:
    table = pd.read_csv(folder / "table.csv")
    ratio = table["capture_cpu_seconds"] / table["bare_cpu_seconds"]
    pd.testing.assert_series_equal(table["capture_cpu_ratio"], ratio, check_names=False)


@recomputes("align_speed")
def _(folder: Path, _: pytest.FixtureRequest) -> None:
    table = pd.read_csv(folder / "table.csv")
    for name, bare in product(("first", "last"), ("bare", "layers")):
        ratio = table[f"{name}_cpu_seconds"] / table[f"{bare}_cpu_seconds"]
        again = table[f"{name}_over_{bare}_cpu_ratio"]
        pd.testing.assert_series_equal(again, ratio, check_names=False)


@recomputes("check")
def _(folder: Path, _: pytest.FixtureRequest) -> None:
    table = pd.read_csv(folder / "mismatches.csv").set_index(["architecture", "property"])
    assert "not looked into" not in set(table["kind"])
    wrong = pd.read_csv(folder / "properties.csv").query("outcome == 'mismatch'")
    assert {*zip(wrong["architecture"], wrong["property"], strict=True)} == set(table.index)
    again = script("check").checked("yoso")
    name = ("yoso", "padding on the right")
    row = next(one for one in again["properties"] if one["property"] == name[1])
    assert row["change"] == pytest.approx(table.loc[name, "change"], rel=1e-3)
    reduced = importlib.import_module("experiments.check.reduced")
    for one in (name, ("bamba", "cache")):
        assert reduced.change_of(*one) == pytest.approx(table.loc[one, "reduced_change"], rel=1e-3)


@recomputes("capture_length")
def _(folder: Path, _: pytest.FixtureRequest) -> None:
    experiment = script("capture_length")
    table = pd.read_csv(folder / "table.csv")
    tokens = experiment.LENGTHS[0]
    tokenizer = experiment.word_tokenizer(experiment.TYPES)
    found = experiment.run_capture(
        experiment.build_model(len(tokenizer)),
        tokenizer,
        experiment.draw_text(tokens),
        experiment.ROWS,
    )
    measured = table[(table["tokens"] == tokens) & (table["way"] == "rows")]["entropy_nats"]
    assert measured.to_list() == pytest.approx(
        [experiment.mean_entropy(found)] * len(measured), rel=1e-5
    )
    assert experiment.readme(folder) == (folder / "README.md").read_text("utf-8")


@recomputes("growth")
def _(folder: Path, _: pytest.FixtureRequest) -> None:
    experiment = script("growth")
    measured = pd.read_csv(folder / "table.csv")
    cases = {tuple(case[key] for key in experiment.KEYS) for case in experiment.cases()}
    assert set(measured[[*experiment.KEYS]].itertuples(index=False, name=None)) == cases
    assert experiment.readme(folder) == (folder / "README.md").read_text("utf-8")


@recomputes("demo_cost")
def _(folder: Path, _: pytest.FixtureRequest) -> None:
    from attnlab.cli.commands.demo import DEMO_SETTINGS
    from attnlab.corpora.rows import HELD_OUT_FRACTION

    held_out = round(HELD_OUT_FRACTION * DEMO_SETTINGS["corpus"]["size"])
    assert pd.read_csv(folder / "table.csv")["test_sentences"].tolist() == [held_out]


def encoded_pairs_of(settings: RunSettings) -> tuple[TokenPairs, TokenPairs, str]:
    return encoded_pairs(json.dumps(settings.as_dict()))


@cache
def encoded_pairs(written: str) -> tuple[TokenPairs, TokenPairs, str]:
    """Training and test pairs in the tokens of a run, and the checksum of their corpus."""
    settings = settings_from(json.loads(written))
    corpus, chosen = corpus_of(settings), settings.tokenizer
    tokenizers = train_tokenizers(
        corpus, kind=chosen.kind, vocabulary=chosen.vocabulary, shared=chosen.shared
    )
    encoded = encode_corpus(corpus, tokenizers, max_tokens=settings.corpus.max_tokens)
    return TokenPairs(encoded.train), TokenPairs(encoded.test), corpus.checksum


def settings_of(name: str, request: pytest.FixtureRequest) -> RunSettings:
    record = json.loads((RESULTS / f"real_text_{name}" / "settings.json").read_text("utf-8"))
    values = record["settings"]
    values["corpus"]["name"] = str(request.getfixturevalue("shared_data") / name)
    return settings_from(values)


@recomputes("real_text_multi30k", "real_text_tatoeba")
def _(folder: Path, request: pytest.FixtureRequest) -> None:
    settings = settings_of(folder.name.removeprefix("real_text_"), request)
    train, _, checksum = encoded_pairs_of(settings)
    record = json.loads((folder / "settings.json").read_text("utf-8"))
    assert record["corpus"]["checksum"] == checksum
    lengths = train.source_lengths, train.target_lengths
    batches = LengthGroupedBatches(*lengths, batch_tokens=settings.optimizer.batch_tokens or 0)
    assert pd.read_csv(folder / "metrics.csv")["step"][0] == len(batches)


@recomputes("compare_multi30k")
def _(folder: Path, request: pytest.FixtureRequest) -> None:
    settings = settings_of("multi30k", request)
    _, test, _ = encoded_pairs_of(settings)
    lengths = test.source_lengths[: script("compare_mechanisms").SENTENCES]
    heads = pd.read_csv(folder / "mechanisms_by_head.csv")
    own = heads[(heads["site"] == "encoder") & (heads["mechanism"] == "band")]
    assert len(own)
    for written, band in own.groupby("setting"):
        numbers = [int(number) for number in re.findall(r"\d+", str(written))]
        window = numbers[0], numbers[-1]
        pairs = band_dimension(torch.tensor(lengths)[:, None].expand(-1, 2), window)
        of_rows = (pairs.double().sum() / sum(lengths)).item()
        assert band["visible_keys"].to_numpy() == pytest.approx(of_rows, rel=1e-5)


@recomputes("heads_of_minilm")
def _(folder: Path, _: pytest.FixtureRequest) -> None:
    minilm = script("heads_of_minilm")
    labels = pd.read_csv(folder / "labels.csv")
    again = minilm.layer_trends(labels, list(minilm.MEASURES), minilm.SEED)
    pd.testing.assert_frame_equal(again, pd.read_csv(folder / "trends.csv"), rtol=1e-6)


@recomputes("heads_of_small_models")
def _(folder: Path, _: pytest.FixtureRequest) -> None:
    from attnlab.ablation import rank_agreement

    for own in sorted(path for path in folder.iterdir() if path.is_dir()):
        heads = pd.read_csv(own / "importance.csv")
        chosen = {"gradient": "gradient_importance", "zero: loss": "loss_change"}
        measures = pd.DataFrame({name: heads[column] for name, column in chosen.items()})
        again = rank_agreement(measures)["spearman"][0]
        table = pd.read_csv(own / "agreement_of_measures.csv").set_index(["measure", "other"])
        assert table.loc[("gradient", "zero: loss"), "spearman"] == pytest.approx(again)


@recomputes("alignment")
def _(folder: Path, request: pytest.FixtureRequest) -> None:
    systems = pd.read_csv(folder / "systems.csv")
    product = systems["precision"] * systems["recall"]
    f1 = 2 * product / (systems["precision"] + systems["recall"])
    assert systems["f1"].to_numpy() == pytest.approx(f1.to_numpy(), abs=3e-6)
    # All gold links are sure.
    assert systems["aer"].to_numpy() == pytest.approx(1 - f1.to_numpy(), abs=3e-6)
    for _, rows in systems.groupby(["text", "layers", "seed"]):
        chosen = rows.set_index("system").loc["chosen heads", "aer"]
        others = rows[rows["system"] != "chosen heads"]
        change = (others["aer"] - chosen).to_numpy()
        assert others["aer_change"].to_numpy() == pytest.approx(change, abs=3e-6)


@recomputes("aligners")
def _(folder: Path, request: pytest.FixtureRequest) -> None:
    from attnlab.alignment import read_links

    aligners, data = script("aligners"), request.getfixturevalue("shared_data") / "xlwa"
    table = pd.read_csv(folder / "table.csv")
    assert set(table["gold"]) == {*aligners.SETS}
    for gold, rows in table.groupby("gold"):
        assert list(rows["aligner"]) == [*aligners.ALIGNERS]
        assert set(rows["gold_pairs"]) == {sum(1 for _ in read_links(data / f"{gold}.tsv.gz"))}
        assert (rows["pairs"] - rows["gold_pairs"] == rows["text_pairs"]).all()
        assert (rows["aer"] < rows["forward_aer"] + 0.01).all()
    assert aligners.readme(folder) == (folder / "README.md").read_text("utf-8")


@recomputes("plan_search")
def _(folder: Path, _: pytest.FixtureRequest) -> None:
    pooled = script("plan_search")
    models = pooled.by_model(folder)
    corpora = pooled.by_corpus(models)
    tables = {
        "models": models,
        "corpora": corpora,
        "over_corpora": pooled.over_corpora(corpora),
        "contrasts": pooled.tested(corpora),
    }
    for name, table in tables.items():
        again = pd.read_csv(io.StringIO(table.to_csv(index=False)))
        pd.testing.assert_frame_equal(again, pd.read_csv(folder / f"{name}.csv"))


@recomputes(
    "head_costs", "head_roles", "static_heads", "heads_over_training", "models", "plan_ablation",
    "trained_mechanisms", "capture_length_gpu", "scaling_gpu", "busy_machine",
    "planted_claims", "peers", "queries_and_keys", "contributions", "across_controls",
)  # fmt: skip
def _(folder: Path, _: pytest.FixtureRequest) -> None:
    assert script(folder.name).readme(folder) == (folder / "README.md").read_text("utf-8")


@recomputes("head_costs_6_layers", "head_roles_6_layers", "static_heads_6_layers")
def _(folder: Path, _: pytest.FixtureRequest) -> None:
    study = script(folder.name.removesuffix("_6_layers"))
    readme = study.readme
    if (path := folder / "contrasts_by_language.csv").exists():
        table = pd.read_csv(folder / "table.csv")
        rows = study.by_share(table) if hasattr(study, "by_share") else study.correlations(table)
        again, written = study.tested(rows, ["corpus"]), pd.read_csv(path)
        pd.testing.assert_frame_equal(again, written, check_dtype=False, atol=1e-5)
    assert readme(folder) == (folder / "README.md").read_text("utf-8")


@recomputes("trained_mechanisms_long", "trained_mechanisms_decoder")
def _(folder: Path, _: pytest.FixtureRequest) -> None:
    study = script("trained_mechanisms")
    again = study.tested(pd.read_csv(folder / "table.csv"), study.STUDIES[folder.name])
    written = pd.read_csv(folder / "contrasts.csv")
    pd.testing.assert_frame_equal(again, written, check_dtype=False, atol=1e-4)
    assert study.readme(folder) == (folder / "README.md").read_text("utf-8")


@recomputes("head_costs_3_layers", "head_roles_3_layers", "static_heads_3_layers")
def _(folder: Path, _: pytest.FixtureRequest) -> None:
    readme = script(folder.name.removesuffix("_3_layers")).readme
    assert readme(folder) == (folder / "README.md").read_text("utf-8")


@recomputes("plan_ablation_other_texts")
def _(folder: Path, _: pytest.FixtureRequest) -> None:
    readme = script("plan_ablation").readme
    assert readme(folder) == (folder / "README.md").read_text("utf-8")


@recomputes("windows_multi30k", "windows_bible")
def _(folder: Path, _: pytest.FixtureRequest) -> None:
    study = script("windows_by_language")
    means = study.models_of(pd.read_csv(folder / "heads.csv"))
    for name, again in (("tests", study.tested(means)), ("contrasts", study.estimated(means))):
        written = pd.read_csv(folder / f"{name}.csv")
        pd.testing.assert_frame_equal(again, written, check_dtype=False, atol=1e-4)
    assert study.readme(folder) == (folder / "README.md").read_text("utf-8")


@recomputes("gradient_by_distance")
def _(folder: Path, _: pytest.FixtureRequest) -> None:
    study = script("gradient_by_distance")
    table = pd.read_csv(folder / "table.csv")
    written = table[(table["model"] == "GRU") & (table["seed"] == 0)]["gradient"]
    again = [row["gradient"] for row in study.measured("GRU", 0)]
    assert again == pytest.approx(written.tolist(), rel=1e-3)
    assert study.readme(folder) == (folder / "README.md").read_text("utf-8")


@recomputes("windows_by_text")
def _(folder: Path, _: pytest.FixtureRequest) -> None:
    study = script("windows_by_text")
    table = study.by_model(folder)
    written = pd.read_csv(folder / "by_model.csv")
    pd.testing.assert_frame_equal(table, written, check_dtype=False, atol=1e-4)
    assert study.readme(folder) == (folder / "README.md").read_text("utf-8")


@recomputes("thesis_verses")
def _(folder: Path, _: pytest.FixtureRequest) -> None:
    study = script("thesis")
    again = study.tested(folder)["difference"].to_numpy()
    written = pd.read_csv(folder / "contrasts.csv")["difference"].to_numpy()
    assert again == pytest.approx(written, abs=1e-4)
    assert study.readme(folder) == (folder / "README.md").read_text("utf-8")


@recomputes("study_engine")
def _(folder: Path, _: pytest.FixtureRequest) -> None:
    from attnlab.studies.computing import compute_rows
    from attnlab.studies.running import collect

    found = collect(folder / "study")
    assert found.missing == 0
    again = pd.read_csv(io.StringIO(compute_rows(found.plan.cells[0])))
    assert again.iloc[0].to_dict() == pytest.approx(found.table.iloc[0][again.columns].to_dict())
    seconds = pd.read_csv(folder / "table.csv").set_index("processes")["seconds"]
    assert f"**{seconds[1] / seconds[2]:.2f} times" in (folder / "README.md").read_text("utf-8")


@recomputes("heads_over_training_language_model")
def _(folder: Path, _: pytest.FixtureRequest) -> None:
    study = script("heads_over_training")
    heads, quality = (pd.read_csv(folder / f"{name}.csv") for name in ("heads", "quality"))
    table = study.halves(heads, quality, study.LANGUAGE)
    tables = {"halves": table, "contrasts": study.contrasts_of(table, study.LANGUAGE)}
    for name, again in (tables | {"over_seeds": study.over_seeds(table)}).items():
        written = pd.read_csv(folder / f"{name}.csv")
        made = again.reset_index(drop=True)
        pd.testing.assert_frame_equal(made, written, check_dtype=False, atol=1e-4)
    assert study.readme(folder) == (folder / "README.md").read_text("utf-8")


@recomputes("recurrent_baseline")
def _(folder: Path, request: pytest.FixtureRequest) -> None:
    from attnlab.models.model import model_class
    from attnlab.models.preparing import configuration

    experiment = script("recurrent_baseline")
    facts = json.loads((folder / "facts.json").read_text("utf-8"))
    corpus = request.getfixturevalue("shared_data") / "tatoeba"
    for name, parameters in facts["parameters"].items():
        settings = experiment.settings_of(experiment.MODELS[name], corpus)
        made = configuration(settings.model, vocabulary=experiment.VOCABULARY)
        weights = model_class(settings.model)(made).parameters()
        assert sum(weight.numel() for weight in weights) == parameters
    assert corpus_of(settings).checksum == facts["checksum"]
    table = pd.read_csv(folder / "table.csv")
    base = table[table["model"] == experiment.TRANSFORMER].set_index("words")["bleu"]
    changes = table["bleu"] - table["words"].map(base)
    assert changes.to_list() == pytest.approx(table["change_against_transformer"].to_list())
