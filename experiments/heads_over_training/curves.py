"""When labels and measures of a model are halfway in its training, and which of two is first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from attnlab.ablation import contrasts, over_models
from attnlab.questions.across.degree_tables import halfway, reached
from experiments.heads_over_training.readings import INDUCTION_HEAD, PREVIOUS_TOKEN

# A label has formed where the strongest head ends so much above the strongest before training.
FORMED = 0.5
# Models of which an interval or a test is told.
FEWEST = 3
# Measures of the model, beside labels; the accuracy of its best head, since strength ends at a threshold.
BLEU, LOSS, ACCURACY = "BLEU", "loss", "alignment accuracy"
# The loss of counts of pairs of tokens, and how far that of the model is above it.
COUNTED, ABOVE = "bigram_loss", "loss above a bigram model"
WHAT = ["site", "label"]
What = tuple[str, str]


@dataclass(frozen=True)
class Study:
    """What is told of one kind of models.

    Attributes:
        folder: of the result.
        models: what the folders of its models are called, before the seed.
        sites: by name, the sites whose heads are taken together.
        measures: of a whole model.
        contrasts: which of two labels or measures is halfway first: how many times the steps of the second
            the first takes, as its logarithm.
    """

    folder: str
    models: str
    sites: Mapping[str, Sequence[str]]
    measures: Sequence[str]
    contrasts: Mapping[str, tuple[What, What]]


ALIGNMENT, POSITIONAL = ("cross", "alignment"), ("encoder or decoder", "positional")
TRANSLATION = Study(
    "heads_over_training",
    "embedded",
    {
        "encoder": ["encoder"], "decoder": ["decoder"], "cross": ["cross"],
        "encoder or decoder": ["encoder", "decoder"],
    },
    (BLEU, LOSS, ACCURACY),
    {
        "alignment heads before BLEU": (ALIGNMENT, ("model", BLEU)),
        "alignment accuracy before BLEU": (("model", ACCURACY), ("model", BLEU)),
        "alignment heads before the loss": (ALIGNMENT, ("model", LOSS)),
        "positional heads before alignment heads": (POSITIONAL, ALIGNMENT),
    },
)  # fmt: skip
LOOKING_BACK = ("decoder", "positional")
LANGUAGE = Study(
    "heads_over_training_language_model",
    "bible",
    {"decoder": ["decoder"]},
    (LOSS, ABOVE),
    {
        "positional heads before sinks": (LOOKING_BACK, ("decoder", "sink")),
        "previous-token heads before induction heads": (
            ("decoder", PREVIOUS_TOKEN), ("decoder", INDUCTION_HEAD),
        ),
        "positional heads before the loss of a bigram model": (LOOKING_BACK, ("model", ABOVE)),
    },
)  # fmt: skip
STUDIES = {study.folder: study for study in (TRANSLATION, LANGUAGE)}


def strongest(heads: pd.DataFrame, study: Study) -> pd.DataFrame:
    """The largest strength of each label at each site (and of shuffled words), by model and step."""
    tables = []
    for site, members in study.sites.items():
        own = heads[heads["site"].isin(members)]
        grouped = own.groupby(["seed", "label", "step"], as_index=False, sort=False)
        tables.append(grouped[["strength", "shuffled_strength"]].max().assign(site=site))
    return pd.concat(tables, ignore_index=True).fillna({"strength": 0.0})


def measured(quality: pd.DataFrame, heads: pd.DataFrame, study: Study) -> pd.DataFrame:
    """The measures of the whole model, by model and step.

    The largest alignment accuracy of any head is one, and by how much the loss is above that of counts.
    """
    if ACCURACY in study.measures:
        best = heads[heads["label"] == "alignment"].groupby(["seed", "step"])["value"].max()
        quality = quality.join(best.rename(ACCURACY), on=["seed", "step"])
    if ABOVE in study.measures:
        quality = quality.assign(**{ABOVE: quality[LOSS] - quality[COUNTED]})
    return quality


def halves(heads: pd.DataFrame, quality: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Of each model, site and label where the strongest head begins and ends, and when it is halfway.

    `formed` says whether the label did; measures of the model stand under the site `model`, and do where they
    change. The loss above a bigram model is halfway where it is 0, and formed where it ends below.
    """
    rows = []
    for key, own in strongest(heads, study).groupby(["seed", *WHAT], sort=False):
        values = own["strength"].tolist()
        formed = values[-1] - values[0] >= FORMED
        half = halfway(own["step"].tolist(), values) if formed else np.nan
        rows.append((*key, values[0], max(values), values[-1], formed, half))
    for seed, own in measured(quality, heads, study).groupby("seed"):
        for measure in study.measures:
            values, steps = own[measure].tolist(), own["step"].tolist()
            half = halfway(steps, values)
            if measure == ABOVE:
                half = reached(steps, values, 0.0) if values[-1] < 0 else np.nan
            rows.append(
                (
                    seed,
                    "model",
                    measure,
                    values[0],
                    max(values),
                    values[-1],
                    not np.isnan(half),
                    half,
                )
            )
    columns = ["seed", *WHAT, "untrained", "most", "end", "formed", "half_step"]
    table = pd.DataFrame(rows, columns=columns)
    table["total"] = table["seed"].map(quality.groupby("seed")["step"].max())
    return table


def over_seeds(table: pd.DataFrame) -> pd.DataFrame:
    """By site and label in how many models it formed, and the geometric mean of when, with interval.

    `share` is of the training, in percent; an interval over two models would say nothing.
    """
    counts = table.groupby(WHAT, sort=False)[["untrained", "most", "end"]].mean()
    counts["formed"] = table.groupby(WHAT, sort=False)["formed"].sum()
    formed = table[table["formed"]]
    logs = formed.assign(share=np.log(formed["half_step"] / formed["total"]))
    means = over_models(logs, WHAT, ["share"]).set_index(WHAT).drop(columns="models")
    few = counts["formed"] < FEWEST
    found = counts.join(means.apply(lambda logarithms: 100 * np.exp(logarithms)))
    found.loc[few, ["share_low", "share_high"]] = np.nan
    return found.reset_index()


def contrasts_of(table: pd.DataFrame, study: Study) -> pd.DataFrame:
    """The contrasts that were fixed beforehand, over the models in which both formed.

    `ratio` is the step of the first over that of the second: below 1 it is earlier. Of few models it has
    neither interval nor test.
    """
    steps = table.pivot_table(index="seed", columns=WHAT, values="half_step", dropna=False)
    logs = {
        name: np.log((steps[first] / steps[second]).dropna()).tolist()
        for name, (first, second) in study.contrasts.items()
    }
    enough = {name: values for name, values in logs.items() if len(values) >= FEWEST}
    few = {name: values for name, values in logs.items() if 0 < len(values) < FEWEST}
    untested = dict.fromkeys(("difference_low", "difference_high", "p_value"), np.nan)
    # Joined with an empty table, numbers would be objects.
    made = [contrasts(enough)] * bool(enough) + [contrasts(few).assign(**untested)] * bool(few)
    found = pd.concat(made, ignore_index=True) if made else contrasts({})
    found = found.sort_values("contrast", key=lambda names: names.map(list(logs).index))
    ends = {f"ratio{end}": np.exp(found[f"difference{end}"]) for end in ("", "_low", "_high")}
    return found.assign(**ends)
