"""Our figures beside those of papers, each from the tables of one result."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pandas as pd
import torch

from attnlab.ablation import over_models
from attnlab.core import counted
from attnlab.labels import wilson_interval
from experiments.head_roles.run import CAPTIONS, TREES
from experiments.shared.readme import read_table, row_of
from experiments.shared.sinks import SINK_THRESHOLDS
from experiments.shared.translators import bleu_range
from experiments.static_heads.run import ALL, VARIANCE
from experiments.trained_mechanisms.models import (
    CROSS,
    DECODER_GAUSSIAN,
    EVERYWHERE,
    FULL,
    GAUSSIAN,
    LAST_FOUR,
    LAST_SIX,
    LEARNED,
    NO_DECODER,
)

Interval = tuple[float, float, float]
DATA = "../shared/data"
SINK = SINK_THRESHOLDS[0]
# Layers 4 and 5 of 6 stand where layers 7 to 10 of 12 do.
MIDDLE_LAYERS = (3, 4)
# Studies that train the encoder's mechanism, those of better models first.
ENCODERS = ("queries_and_keys", "trained_mechanisms_long", "trained_mechanisms")
# Keys per row at which a window is compared, and the arms.
KEYS = 5
WINDOWS = ("a window with first or last keys a site", "a band a site")
OPTIONS = {"trained_mechanisms_long": " --long", "trained_mechanisms_decoder": " --decoder"}


@dataclass(frozen=True)
class Measured:
    """A figure of ours with the ends of its 95 % interval.

    Attributes:
        figure: the value and the two ends.
        form: how they are written.
        unit: of the figure, behind it.
        models: what the interval is over.
        folder: the result that it comes from.
        command: what makes that result.
        incomparable: why it says nothing of the claim; empty where it does.
    """

    figure: Interval
    form: str
    unit: str
    models: str
    folder: str
    command: str
    incomparable: str = ""


def written(figure: Interval, form: str) -> str:
    """A figure with its interval."""
    value, low, high = (format(end, form) for end in figure)
    return f"{value} [{low}, {high}]"


def command(script: str, options: str = "") -> str:
    """The command line of an experiment."""
    return f"python experiments/{script}/run.py {DATA}{options}"


def over(values: "pd.Series[float]") -> Interval:
    """The mean of models with its interval."""
    row = over_models(pd.DataFrame({"all": "", "value": values}), ["all"], ["value"]).iloc[0]
    return float(row["value"]), float(row["value_low"]), float(row["value_high"])


def share_of(hits: int, total: int) -> Interval:
    """A share in percent with Wilson's interval."""
    low, high = wilson_interval(torch.tensor(hits), torch.tensor(total))
    return 100 * hits / total, 100 * float(low), 100 * float(high)


def paired(
    table: pd.DataFrame,
    models: Sequence[str],
    measure: str,
    arm: str,
    base: str,
    *,
    name: str = "arm",
) -> "pd.Series[float]":
    """A measure of one arm minus that of another, by model."""
    wide = table.pivot(index=list(models), columns=name, values=measure)
    return (wide[arm] - wide[base]).dropna()


def relation(results: Path, name: str) -> Measured:
    """Accuracy of the best head from a dependent to its head, above that of the best offset."""
    row = row_of(
        read_table(results / "heads_of_minilm", "relations"),
        relation=name, direction="dependent>head",
    )  # fmt: skip
    ends = ("accuracy", "accuracy_low", "accuracy_high")
    value, low, high = (100 * (row[end] - row["baseline"]) for end in ends)
    shares = f"{row['accuracy']:.1%} against {row['baseline']:.1%}".replace("%", " %")
    return _minilm((value, low, high), "+.1f", f"points ({shares})", f"{row['links']:,} arcs")


def separators(results: Path) -> Measured:
    """Weight on special tokens in the middle layers, mean of heads."""
    labels = read_table(results / "heads_of_minilm", "labels")
    mass = 100 * labels.loc[labels["layer"].isin(MIDDLE_LAYERS), "mass_on_special"]
    return _minilm(over(mass), ".1f", "%", f"{len(mass)} heads")


def contributions_of_special(results: Path) -> Measured:
    """Share of special tokens in contributions minus their share of the weight, mean of heads."""
    heads = read_table(results / "contributions", "table")
    weight, share = (100 * heads[name] for name in ("weight_on_special", "mass_on_special"))
    measured = _minilm(
        over(share - weight), "+.1f",
        f"points ({share.mean():.0f} % of contributions, {weight.mean():.0f} % of weights)",
        f"{len(heads)} heads",
    )  # fmt: skip
    made = "python experiments/contributions/run.py ../shared/data/pud/en.conllu.gz"
    return replace(measured, folder="contributions", command=made)


def sink_share(results: Path) -> Measured:
    """Share of heads whose sink holds more than the threshold."""
    controls = read_table(results / "heads_of_minilm", "controls")
    mass = controls.loc[controls["label"] == "sink", "value"]
    return _minilm(share_of(int((mass > SINK).sum()), len(mass)), ".0f", "%", f"{len(mass)} heads")


def _minilm(figure: Interval, form: str, unit: str, among: str) -> Measured:
    made = "python experiments/heads_of_minilm/run.py ../shared/data/pud/en.conllu.gz"
    return Measured(figure, form, unit, f"1 model (MiniLM), {among}", "heads_of_minilm", made)


def models_with(results: Path, label: str, text: str) -> Measured:
    """Share of models with an encoder head that carries a label."""
    folder = results / "head_roles_6_layers"
    table = read_table(folder, "table")
    heads = table[(table["text"] == text) & (table["site"] == "encoder")]
    carried = heads["labels"].str.split("; ").map(lambda labels: label in labels)
    each = carried.groupby([heads["corpus"], heads["seed"]]).any()
    figure = share_of(int(each.sum()), len(each))
    return Measured(figure, ".0f", "% of models", **_six_layers(folder))


def sites(results: Path) -> Measured:
    """Change of the loss without a head of cross-attention minus that without one of the encoder."""
    folder = results / "head_roles_6_layers"
    table = read_table(folder, "table")
    heads = table[table["text"] == CAPTIONS]
    means = heads.groupby(["corpus", "seed", "site"])["loss_change"].mean().unstack("site")
    figure = over(means["cross"] - means["encoder"])
    return Measured(figure, "+.4f", "nats per head", **_six_layers(folder))


def _six_layers(folder: Path) -> dict[str, str]:
    bleu = read_table(folder, "models")["bleu"]
    return {
        "models": _translators(bleu), "folder": folder.name,
        "command": command("head_roles", " --layers 6"),
    }  # fmt: skip


def pruned(results: Path) -> Measured:
    """Change of BLEU where gates close most encoder heads and no other."""
    points = read_table(results / "heads_of_small_models" / "tatoeba", "pruning")
    test = points[(points["kind"] == "pruned") & (points["split"] == "test")]
    every = points[points["kind"] == "unpruned"].iloc[0]
    whole = test[["decoder_left", "cross_left"]] == every[["decoder_left", "cross_left"]]
    row = test[whole.all(axis=1)].nsmallest(1, "encoder_left").iloc[0]
    closed = int(every["encoder_left"] - row["encoder_left"])
    value, low, high = (float(row[f"bleu_change{end}"]) for end in ("", "_low", "_high"))
    unit = f"BLEU with {closed} of {int(every['encoder_left'])} encoder heads closed"
    return _small((value, low, high), "+.1f", unit, results, f"{int(row['sentences'])} sentences")


def single_heads(results: Path) -> Measured:
    """Share of encoder heads without which BLEU changes significantly."""
    weighed = read_table(results / "heads_of_small_models" / "tatoeba", "importance")
    changed = weighed.loc[weighed["site"] == "encoder", "bleu_change_significant"]
    figure = share_of(int(changed.sum()), len(changed))
    return _small(figure, ".0f", "% of encoder heads", results, f"{len(changed)} heads")


def _small(figure: Interval, form: str, unit: str, results: Path, among: str) -> Measured:
    points = read_table(results / "heads_of_small_models" / "tatoeba", "pruning")
    bleu = row_of(points, kind="unpruned", split="test")["bleu"]
    name = "heads_of_small_models"
    return Measured(figure, form, unit, f"1 model, BLEU {bleu:.1f}, {among}", name, command(name))


def encoder_arm(results: Path, arm: str) -> Measured:
    """BLEU of an encoder trained with an arm minus that of full attention."""
    for name in ENCODERS:
        if (results / name / "table.csv").exists():
            table = read_table(results / name, "table")
            table = table[table["layers"] == 1] if "layers" in table else table
            # One model has no interval.
            if all((table["arm"] == needed).sum() > 1 for needed in (arm, "none", FULL)):
                return trained(table, name, arm, without="none")
    msg = (
        f"No result has models of the arm {arm!r}; train them with experiments/trained_mechanisms."
    )
    raise ValueError(msg)


def decoder_arm(results: Path, arm: str) -> Measured:
    """BLEU of a decoder trained with an arm minus that of full attention."""
    name = "trained_mechanisms_decoder"
    return trained(read_table(results / name, "table"), name, arm, without=NO_DECODER)


def cross_arm(results: Path) -> Measured:
    """BLEU with Gaussian cross-attention minus that of full attention."""
    name = "trained_mechanisms_decoder"
    return trained(read_table(results / name, "table"), name, CROSS)


def recovered(results: Path, arm: str) -> Measured:
    """Share of the BLEU that Gaussian cross-attention loses which an arm has."""
    name = "trained_mechanisms_decoder"
    table = read_table(results / name, "table")
    gain, drop = (paired(table, ["pair", "seed"], "bleu", first, CROSS) for first in (arm, FULL))
    figure = over(100 * gain / drop)
    return Measured(figure, ".0f", "% of the drop", **_study(table, name, [CROSS, arm]))


def trained(table: pd.DataFrame, name: str, arm: str, without: str = "") -> Measured:
    """BLEU of an arm minus that of full attention.

    It says nothing where models without any attention at that site lose no more than full attention.
    """
    models, incomparable = ["pair", "seed"], ""
    if without:
        loss = over(paired(table, models, "loss", without, FULL))
        if not loss[1] > 0:
            incomparable = (
                f"without any attention there the loss is no higher: {written(loss, '+.3f')} nats"
            )
    figure = over(paired(table, models, "bleu", arm, FULL))
    arms = [without, arm] if without else [arm]
    return Measured(figure, "+.1f", "BLEU", **_study(table, name, arms), incomparable=incomparable)


def _study(table: pd.DataFrame, name: str, arms: Sequence[str]) -> dict[str, str]:
    full = table.loc[table["arm"] == FULL, "bleu"]
    script = name.removesuffix("_long").removesuffix("_decoder")
    options = f"{OPTIONS.get(name, '')} --arms {shlex.join([FULL, *arms])}"
    count = int((table["arm"] == arms[-1]).sum())
    return {
        "models": f"{counted(count, 'model')}, full {bleu_range(full)}", "folder": name,
        "command": command(script, options),
    }  # fmt: skip


def static_encoder(results: Path) -> Measured:
    """Change of BLEU, in percent, with static weights in all encoder heads."""
    rows = _static(results, "encoder", 1)
    relative = 100 * rows["bleu_change"] / (rows["bleu"] - rows["bleu_change"])
    return _of_static(results, over(relative), "% of BLEU")


def static_half(results: Path) -> Measured:
    """Change of BLEU with static weights in half of all heads, those of least variance."""
    return _of_static(results, over(_static(results, ALL, 0.5)["bleu_change"]), "BLEU")


def _static(results: Path, scope: str, share: float) -> pd.DataFrame:
    table = read_table(results / "static_heads_6_layers", "table")
    own = table[(table["scope"] == scope) & (table["share"] == share)]
    # All heads have no order.
    return own[own["order"].fillna(VARIANCE) == VARIANCE].dropna(subset="bleu")


def _of_static(results: Path, figure: Interval, unit: str) -> Measured:
    name = "static_heads_6_layers"
    table = read_table(results / name, "table")
    models = _translators(table.loc[table["share"] == 0, "bleu"])
    return Measured(figure, "+.1f", unit, models, name, command("static_heads", " --layers 6"))


def shifted(results: Path) -> Measured:
    """AER of the best head where it reads a token minus that where it predicts it."""
    heads = _deep(read_table(results / "alignment", "heads"))
    best = heads.groupby(["text", "layers", "seed", "row"])["aer"].min().unstack("row")
    return _aligned(results, 100 * (best["input"] - best["output"]))


def penultimate(results: Path) -> Measured:
    """AER of the mean of the penultimate layer's heads minus that of the last layer's."""
    systems = _deep(read_table(results / "alignment", "systems"))
    names = [f"mean of the {which} layer" for which in ("penultimate", "last")]
    models = ["text", "layers", "seed"]
    return _aligned(results, 100 * paired(systems, models, "aer", *names, name="system"))


def _deep(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["layers"] > 1]


def _aligned(results: Path, differences: "pd.Series[float]") -> Measured:
    bleu = _deep(read_table(results / "alignment", "models"))["validation_bleu"]
    made = command("alignment", " --texts en-it en-es --layers 3 6 --seeds 3 --embedded 0")
    figure = over(differences)
    return Measured(figure, "+.1f", "points of AER", _translators(bleu), "alignment", made)


def window_with_ends(results: Path) -> Measured:
    """Loss with a window and first or last keys at each site minus that with a window alone."""
    name, models = "plan_ablation", ["corpus", "seed"]
    table = read_table(results / name, "table")
    own = table[table["budget"] == KEYS]
    loss, bleu = (over(paired(own, models, measure, *WINDOWS)) for measure in ("loss", "bleu"))
    only = " ".join(sorted(set(own["corpus"])))
    full = table.loc[table["arm"] == FULL, "bleu"]
    made = command(name, f" --only {only}")
    unit = f"nats (BLEU {written(bleu, '+.1f')})"
    return Measured(loss, "+.3f", unit, _translators(full), name, made)


def language_model_sinks(results: Path) -> Measured:
    """Share of language models with a head whose sink holds more than the threshold."""
    folder = results / "heads_over_training_language_model"
    heads = read_table(folder, "heads")
    ends = heads[(heads["step"] == heads["step"].max()) & (heads["label"] == "sink")]
    most = ends.groupby("seed")["value"].max()
    figure = share_of(int((most > SINK).sum()), len(most))
    return _language_model(folder, figure, ".0f", f"% of models, at most {most.max():.2f}")


def language_model_growth(results: Path) -> Measured:
    """Strength of the strongest sink of a language model after training minus that before."""
    folder = results / "heads_over_training_language_model"
    halves = read_table(folder, "halves")
    own = halves[halves["label"] == "sink"]
    return _language_model(folder, over(own["end"] - own["untrained"]), "+.2f", "of strength")


def continued_passages(results: Path) -> Measured:
    """Hits of the best head that continues a passage in models of two layers minus those of one layer."""
    folder = results / "across_controls"
    table = read_table(folder, "formation")
    best = table.groupby(["seed", "layers"])["last_degree"].max().unstack("layers")
    perplexity = table.groupby("layers")["perplexity"].mean()
    models = f"{len(best)} pairs of models, perplexity {perplexity[2]:.1f} and {perplexity[1]:.1f}"
    made = f"python experiments/across_controls/run.py {DATA}"
    return Measured(
        over(100 * (best[2] - best[1])), "+.0f", "points of hits", models, folder.name, made
    )


def _language_model(folder: Path, figure: Interval, form: str, unit: str) -> Measured:
    losses = read_table(folder, "quality").groupby("seed")["loss"].last()
    models = f"{len(losses)} models, test loss {losses.min():.2f} to {losses.max():.2f}"
    made = f"python experiments/heads_over_training/run.py --language-model {DATA}"
    return Measured(figure, form, unit, models, folder.name, made)


def _translators(bleu: "pd.Series[float]") -> str:
    return f"{counted(len(bleu), 'model')}, {bleu_range(bleu)}"


# By key of `papers.csv`.
MEASURES: Mapping[str, Callable[[Path], Measured]] = {
    "clark det": partial(relation, name="det"),
    "clark dobj": partial(relation, name="obj"),
    "clark pobj": partial(relation, name="case"),
    "clark nsubj": partial(relation, name="nsubj"),
    "clark amod": partial(relation, name="amod"),
    "clark nn": partial(relation, name="compound"),
    "clark separators": separators,
    "voita positional": partial(models_with, label="positional", text=CAPTIONS),
    "voita syntactic": partial(models_with, label="syntactic", text=TREES),
    "voita rare": partial(models_with, label="rare tokens", text=CAPTIONS),
    "voita pruned": pruned,
    "michel single": single_heads,
    "michel sites": sites,
    "garg layers": penultimate,
    "raganato fixed": partial(encoder_arm, arm="fixed patterns"),
    "you encoder": partial(encoder_arm, arm=GAUSSIAN),
    "you decoder": partial(decoder_arm, arm=DECODER_GAUSSIAN),
    "you cross": cross_arm,
    "you head": partial(recovered, arm=LEARNED),
    "you everywhere": partial(recovered, arm=EVERYWHERE),
    "chelba 4": partial(decoder_arm, arm=LAST_FOUR),
    "chelba 6": partial(decoder_arm, arm=LAST_SIX),
    "chen shift": shifted,
    "tay trained": partial(encoder_arm, arm="synthesizer, trained"),
    "tay frozen": partial(encoder_arm, arm="synthesizer, frozen"),
    "hassid all": static_encoder,
    "hassid half": static_half,
    "xiao window": window_with_ends,
    "gu small": language_model_sinks,
    "gu growth": language_model_growth,
    "gu share": sink_share,
    "kobayashi special": contributions_of_special,
    "olsson layers": continued_passages,
}
