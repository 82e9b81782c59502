"""The thesis from end to end: its models, what its figures show of theirs and of its matrices, exact fits.

    python experiments/thesis/run.py ../shared/data --seeds 3
    python experiments/thesis/run.py ../shared/data --texts bible --seeds 1

trains what runs/thesis does not hold yet (English to Italian, a few minutes a model) and writes
results/thesis/, or results/thesis_verses/ of models that read verses. Rows of models that are not asked
for stay. With --keep-search the thesis's search on its own matrices is not run again: what it found is
taken from the table that is there.
"""

import argparse
import shlex
import sys
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

import attnlab
from attnlab.ablation import contrasts, over_models
from attnlab.core import SITES, path_label, quiet, write_table
from attnlab.figures import save_figure
from attnlab.labels import untrained_twin
from attnlab.matrices import fit_sigma, l1_distance, normalized_rows, uniform_matrix
from attnlab.matrices.random_search import random_search
from attnlab.models import Run
from attnlab.reading import KeptMatrices, load_matrices
from experiments.models.run import described
from experiments.shared.published_search import ATTEMPTS, COEFFICIENTS
from experiments.shared.readme import (
    RESULTS,
    estimate,
    put_rows,
    read_facts,
    read_table,
    render,
    write_facts,
    write_readme,
)
from experiments.thesis.figure import draw_matrices
from experiments.thesis.models import DIM, HEADS, SHORT, STARTS, TEXTS, Texts, model_of
from experiments.thesis.published import (
    PRINTED,
    REPEATS,
    SAMPLE,
    SEEDS,
    means,
    write_published,
)
from experiments.thesis.shapes import (
    SHAPE,
    distance_between_heads,
    distance_between_sentences,
    mean_shape,
)

MODEL = ["heads", "init", "seed"]
KIND = ["heads", "init", "trained"]
SENTENCES, DIGITS = 300, 5
LONG, ONE = "long sentences", "one sentence"
DISTANCES = ["uniform", "one_key", "sigma_n_entries", "sigma_stochastic", "sigma_free", "search"]
NOTEBOOK = ("ribbon", "dolly")
LIKENESS = ["between_sentences", "between_heads"]
FIGURES = ["neighbours", "neighbours_if_uniform", "column", *LIKENESS]
SPECTRA = ["rank", "effective_rank", "values_for_90", "norm"]
# Fixed before a model was read; models are the units, figures of a model are means over its heads.
EFFECTIVE_RANK = "effective rank in the encoder, trained minus untrained"
NEARER = (
    "distance of the uniform matrix minus that of Sigma with n entries, encoder, w = 3, num_pos = 2"
)
ALIKE = "distance between heads minus distance between sentences, encoder, models of 8 heads"
CONTRASTS = [EFFECTIVE_RANK, NEARER, ALIKE]
WINDOW = next(iter(PRINTED))[0]


def main() -> None:
    """Measures each model that is asked for and the thesis's matrices, and writes everything."""
    chosen = _parser().parse_args()
    torch.set_num_threads(1)
    texts, examples = TEXTS[chosen.texts], {}
    out = RESULTS / texts.result
    if texts == SHORT:
        thesis = chosen.data / "thesis"
        write_published(thesis, out, keep_search=chosen.keep_search)
        known = thesis_matrices(thesis)
        write_table(out / "thesis_heads.csv", thesis_heads(known).round(DIGITS))
        examples = {f"the thesis's matrices '{name}'": known[name] for name in NOTEBOOK}
    for seed, heads, init in product(range(chosen.seeds), HEADS, STARTS):
        with quiet():
            run = model_of(chosen.data / texts.corpus, heads, init, seed, chosen.runs)
            tables, example = measured(run, texts)
        model = {"heads": heads, "init": init, "seed": seed}
        for name, rows in tables.items():
            put_rows(out, name, model, rows.round(DIGITS))
        if seed == 0:
            examples[f"{heads} head{'s' * (heads > 1)}, {init} start"] = example
        print(model | tables["models"].iloc[0].to_dict(), flush=True)
    save_figure(draw_matrices(examples), out / "heads.svg")
    words = shlex.join(path_label(word) for word in sys.argv[1:])
    write_result(out, f"python experiments/thesis/run.py {words}", kept=chosen.keep_search)
    # Each page has the table of both.
    for folder in {RESULTS / each.result for each in TEXTS.values()} - {out}:
        if (folder / "facts.json").exists():
            write_readme(folder, readme(folder))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder of the texts and of the thesis's data")
    parser.add_argument("--texts", choices=list(TEXTS), default=SHORT.corpus)
    parser.add_argument("--seeds", type=int, default=3, help="number of models of each kind")
    parser.add_argument("--runs", type=Path, default=RESULTS.parent / "runs" / "thesis")
    parser.add_argument("--keep-search", action="store_true")
    return parser


def measured(
    run: Run, texts: Texts, sentences: int = SENTENCES
) -> tuple[dict[str, pd.DataFrame], Tensor]:
    """The rows of one model by table, and its encoder matrices of the sentence that is searched."""
    rows = run.corpus().test
    pairs = list(zip(rows["source"], rows["target"], strict=True))[: texts.sentences]
    shapes, fits = [], []
    for trained in (True, False):
        model = run.model if trained else untrained_twin(run.model, run.settings.optimizer.seed)
        found = attnlab.capture((model, run.tokenizers), pairs, keep_matrices=len(pairs)).kept
        for site in SITES:
            own = matrices_of(found, site)
            rows_of_site = shapes_of(own[:sentences])
            shapes.append(rows_of_site.assign(trained=trained, site=site))
        encoder = matrices_of(found, "encoder")
        long = [H for H in encoder if H.shape[-1] >= texts.least]
        one = min(encoder, key=lambda H: abs(H.shape[-1] - texts.searched))
        fits.append(fitted(long).assign(trained=trained, sentences=LONG))
        if trained:
            example = one
            fits.append(fitted([one], search=True).assign(trained=True, sentences=ONE))
    tables = {
        "models": pd.DataFrame([described(run)]),
        "heads": first(["trained", "site", "head"], shapes),
        "fits": first(["sentences", "trained", "w", "num_pos", "head"], fits),
    }
    return tables, example


def first(keys: list[str], tables: list[pd.DataFrame]) -> pd.DataFrame:
    """The tables in one, these columns first."""
    table = pd.concat(tables, ignore_index=True)
    return table[[*keys, *(name for name in table if name not in keys)]]


def matrices_of(kept: KeptMatrices, site: str) -> list[Float[Tensor, "head query key"]]:
    """Those of the only layer of a site, sentence by sentence."""
    return [H.double() for (_, own, _), H in kept.matrices.items() if own == site]


def shapes_of(matrices: Sequence[Float[Tensor, "head _ _"]]) -> pd.DataFrame:
    """A row a head: means over sentences, and how far its matrices lie apart."""
    found: dict[str, Tensor] = mean_shape(matrices)
    found["between_sentences"] = distance_between_sentences(matrices)
    found["between_heads"] = distance_between_heads(matrices)
    return with_heads(found)


def with_heads(found: Mapping[str, Float[Tensor, " head"]]) -> pd.DataFrame:
    """A row a head."""
    table = pd.DataFrame({name: values.tolist() for name, values in found.items()})
    return table.rename_axis("head").reset_index()


def fitted(matrices: Sequence[Float[Tensor, "head n n"]], *, search: bool = False) -> pd.DataFrame:
    """A row a setting of the thesis's tables and head: relative l1 distances, means over sentences.

    The zero matrix has 1. `one_key` is the nearest matrix with one key in every row: none
    of so few entries is nearer, but where a shifted diagonal leaves rows empty, which costs 1 a row.
    """
    tables = []
    for window, num_pos in PRINTED:
        distances = []
        for H in matrices:
            options: dict[str, Any] = {"window": min(window, H.shape[-1] - 1), "num_pos": num_pos}
            own = {
                "uniform": l1_distance(H, uniform_matrix(H)) / H.sum((-2, -1)),
                "one_key": 2 * (1 - H.amax(-1).mean(-1)),
                "sigma_n_entries": fit_sigma(
                    H, values="stochastic", equal_budget=True, **options
                ).relative,
                "sigma_stochastic": fit_sigma(H, values="stochastic", **options).relative,
                "sigma_free": fit_sigma(H, **options).relative,
            }
            if search:
                generator = torch.Generator().manual_seed(SEEDS[0])
                nearest = random_search(H.float(), generator=generator, **options)
                own["search"] = nearest.l1.double() / H.sum((-2, -1))
            distances.append(own)
        mean = {
            name: torch.stack([one[name] for one in distances]).mean(0) for name in distances[0]
        }
        tables.append(with_heads(mean).assign(w=window, num_pos=num_pos, matrices=len(matrices)))
    return pd.concat(tables, ignore_index=True)


def thesis_matrices(thesis: Path) -> dict[str, Float[Tensor, "head n n"]]:
    """Those of its tables and those that its notebooks show, rows divided by their sums."""
    files = {"tables": ("heads.npz", "heads")}
    files |= {name: ("notebook_heads.npz", name) for name in NOTEBOOK}
    return {
        name: normalized_rows(load_matrices(thesis / file, array=array).double())
        for name, (file, array) in files.items()
    }


def thesis_heads(matrices: Mapping[str, Float[Tensor, "head n n"]]) -> pd.DataFrame:
    """The figures of `SHAPE` of the thesis's matrices."""
    tables = [with_heads(mean_shape([H])).assign(matrices=name) for name, H in matrices.items()]
    return first(["matrices", "head"], tables)


def by_kind(out: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Shapes by kind of model and site, and distances by kind and setting: means over models."""
    shapes = read_table(out, "heads")
    fits = read_table(out, "fits")
    of_models = shapes.groupby([*MODEL, "trained", "site"], as_index=False, sort=False)
    of_fits = fits.groupby(
        [*MODEL, "sentences", "trained", "w", "num_pos"], as_index=False, sort=False
    )
    measures = [*SHAPE, *LIKENESS]
    return (
        over_models(of_models[measures].mean(), [*KIND, "site"], measures),
        over_models(of_fits[DISTANCES].mean(), [*KIND, "sentences", "w", "num_pos"], DISTANCES),
    )


def differences(out: Path) -> pd.DataFrame:
    """A row a model: the differences that are tested, of its encoder; NaN where it has one head."""
    shapes, fits = read_table(out, "heads"), read_table(out, "fits")
    encoder = shapes[shapes["site"] == "encoder"]
    trained, untrained = (
        encoder[encoder["trained"] == own].groupby(MODEL)[["effective_rank", *LIKENESS]].mean()
        for own in (True, False)
    )
    fits = fits[fits["trained"] & (fits["sentences"] == LONG) & (fits["w"] == WINDOW)]
    near = fits.groupby(MODEL)[DISTANCES].mean()
    return pd.DataFrame(
        {
            EFFECTIVE_RANK: trained["effective_rank"] - untrained["effective_rank"],
            NEARER: near["uniform"] - near["sigma_n_entries"],
            ALIKE: trained["between_heads"] - trained["between_sentences"],
        }
    ).reset_index()


def tested(out: Path) -> pd.DataFrame:
    """The three contrasts over models."""
    own = differences(out)
    return contrasts({name: own[name].dropna().tolist() for name in CONTRASTS})


def write_result(out: Path, command: str, *, kept: bool) -> None:
    """The tables over models, the facts and the README of what a folder holds."""
    shapes, fits = by_kind(out)
    write_table(out / "heads_over_models.csv", shapes.round(DIGITS))
    write_table(out / "fits_over_models.csv", fits.round(DIGITS))
    write_table(out / "contrasts.csv", tested(out).round(DIGITS))
    starts = over_models(differences(out), ["init"], CONTRASTS[:2])
    write_table(out / "starts.csv", starts.round(DIGITS))
    write_facts(
        out, __file__, "torch", "numpy", "scipy", "transformers", "sacrebleu",
        command=command, search_kept=kept,
    )  # fmt: skip
    write_readme(out, readme(out))


def readme(out: Path) -> str:
    """The README: questions, answers, tables, how it was made."""
    texts = next(each for each in TEXTS.values() if each.result == out.name)
    thesis = RESULTS / SHORT.result
    names = ("models", "heads", "heads_over_models", "fits", "fits_over_models")
    models, heads, shapes, fits, distances = (read_table(out, name) for name in names)
    published = read_table(thesis, "published")
    own = read_table(thesis, "thesis_heads").groupby("matrices", sort=False)[list(SHAPE)].mean()
    # Models are the units, whatever number of heads they have.
    encoder = heads[heads["site"] == "encoder"].groupby([*MODEL, "trained"])[[*SHAPE]].mean()
    whole = encoder.groupby("trained").mean().map("{:.2f}".format)
    long = fits[(fits["sentences"] == LONG) & (fits["w"] == WINDOW) & fits["trained"]]
    within = published["published"].between(
        published["search_again_lowest"] - 1, published["search_again_highest"] + 1
    )
    proofs = published.filter(like="proven_")
    return render(
        __file__, read_facts(out),
        models=models, seeds=models["seed"].nunique(), dim=DIM, short=texts == SHORT,
        sentences=SENTENCES, least=texts.least, searched_tokens=texts.searched, beside=beside(out),
        contrasts=read_table(out, "contrasts").to_dict("records"), interval=interval, p=p_value,
        starts=read_table(out, "starts").set_index("init").to_dict("index"),
        by_start=long.groupby(MODEL)[DISTANCES].mean().groupby("init").mean().to_dict("index"),
        rank=EFFECTIVE_RANK, nearer_than_uniform=NEARER,
        diagonal=near_diagonal(encoder.reset_index()), estimate=estimate,
        figures=with_thesis(shapes[shapes["site"] == "encoder"], FIGURES, own),
        spectra=with_thesis(shapes, SPECTRA, own),
        full_rank=whole["rank"][True], full_rank_untrained=whole["rank"][False],
        effective=whole["effective_rank"][True], effective_untrained=whole["effective_rank"][False],
        tail=whole["values_for_90"][True], norm=whole["norm"][True],
        long=long["matrices"].max(),
        distances=shown(distances[distances["sentences"] == LONG], ["w", "num_pos"], DISTANCES[:-1]),
        searched=shown(distances[distances["sentences"] == ONE], ["w", "num_pos"], DISTANCES),
        draws=f"{3 * ATTEMPTS * COEFFICIENTS**3:,}",
        published=published, means=means(published), timing=read_table(thesis, "timing"),
        within=within.sum(), worse=(published["published"] >= published["zero_matrix"]).sum(),
        nearer=(published["published"] < published["uniform_matrix"]).sum(),
        difference=(published["search_again"] - published["published"]).mean(),
        proofs=proofs.size, unproven=(~proofs).sum().sum(),
        seeds_of_search=SEEDS, sample=SAMPLE, repeats=REPEATS,
    )  # fmt: skip


def beside(out: Path) -> pd.DataFrame:
    """A row a collection of texts and start: what of the page depends on how long sentences are."""
    rows = []
    for texts in TEXTS.values():
        folder = out.with_name(texts.result)
        if not (folder / "fits_over_models.csv").exists():
            continue
        fits, shapes = read_table(folder, "fits"), read_table(folder, "heads")
        fits = fits[fits["trained"] & (fits["sentences"] == LONG)]
        shapes = shapes[shapes["trained"] & (shapes["site"] == "encoder")]
        near = fits.groupby(["init", "w"])[DISTANCES].mean()
        near["nearer"] = near["uniform"] - near["sigma_n_entries"]
        for init, own in shapes.groupby("init"):
            rows.append(
                {"texts": texts.corpus, "start": init, "models": own.groupby(MODEL).ngroups}
                | {f"nearer than uniform, w = {w}": near["nearer"][init, w] for w, _ in PRINTED}
                | {f"band of w = {w}": near["sigma_stochastic"][init, w] for w, _ in PRINTED}
                | {"values for 90": own["values_for_90"].mean()}
            )
    return pd.DataFrame(rows)


def near_diagonal(encoder: pd.DataFrame) -> dict[Any, Any]:
    """By start and training, the weight near the diagonal over models, and that of a uniform matrix."""
    figures = ["neighbours", "neighbours_if_uniform"]
    found = over_models(encoder, ["init", "trained"], figures, shares=figures)
    return found.set_index(["init", "trained"]).to_dict("index")


def interval(row: Mapping[str, float], name: str = "difference") -> str:
    """The interval of a contrast, where there is one."""
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return "" if pd.isna(low) else f" [{low:+.2f}, {high:+.2f}]"


def p_value(row: Mapping[str, float]) -> str:
    """The p-value of a contrast, where there is one."""
    return "" if pd.isna(row["p_value"]) else f", p = {row['p_value']:.2g}"


def shown(table: pd.DataFrame, keys: list[str], measures: list[str]) -> pd.DataFrame:
    """A row a kind of models: each measure with its interval over models, where there is one."""
    rows = []
    for one in table.to_dict("records"):
        kind = f"{one['heads']} head{'s' * (one['heads'] > 1)}, {one['init']} start"
        row = {"model": kind, "trained": "yes" if one["trained"] else "no", "models": one["models"]}
        row |= {key: one[key] for key in keys}
        for name in measures:
            low, high = one[f"{name}_low"], one[f"{name}_high"]
            ends = "" if pd.isna(low) else f" [{low:.2f}, {high:.2f}]"
            row[name.replace("_", " ")] = "" if pd.isna(one[name]) else f"{one[name]:.2f}{ends}"
        rows.append(row)
    return pd.DataFrame(rows)


def with_thesis(table: pd.DataFrame, measures: list[str], thesis: pd.DataFrame) -> pd.DataFrame:
    """The same with the means of the thesis's matrices below."""
    keys = ["site"] if table["site"].nunique() > 1 else []
    rows = [
        {"model": f"the thesis, {name}", "trained": "yes", "models": 1}
        | dict.fromkeys(keys, "encoder")
        | {
            measure.replace("_", " "): f"{own[measure]:.2f}" if measure in own else ""
            for measure in measures
        }
        for name, own in thesis.to_dict("index").items()
    ]
    return pd.concat([shown(table, keys, measures), pd.DataFrame(rows)], ignore_index=True)


if __name__ == "__main__":
    main()
