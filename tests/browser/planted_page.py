"""An analysis made by hand: matrices with planted patterns, labels, and hostile words everywhere."""

from dataclasses import replace

import pandas as pd
import torch
from zoo import random_models
from zoo.random_models import PAIRS, tokenizer

from attnlab.core.addresses import Site
from attnlab.questions.analyze.analysis import analyze
from attnlab.questions.analyze.measuring import result_of
from attnlab.reading.keeping import KeptMatrices
from attnlab.reading.weights import VIEWS
from attnlab.results.result import Result

SCRIPT_ALERT = "</script><script>alert(1)</script>"
IMAGE_ALERT = "<img src=x onerror=alert(2)>"
WORDS = ["<s>", "the", SCRIPT_ALERT, IMAGE_ALERT, "cat", "sees", "a", "red", "bird", "</s>"]
OTHERS = ["<s>", "an", "old", "dog", "runs", "home", "</s>"]
# Weights of the planted heads: the sink of head 0, the offset of head 1 and the columns of head 2.
SINK, PREVIOUS, COLUMNS = 0.7, 0.8, (4, 7)
HEADS: dict[Site, int] = {"encoder": 3, "decoder": 5}


def planted_matrix(head: int, tokens: int, *, causal: bool = False) -> torch.Tensor:
    """A sink, the token before, two columns; whatever is left is spread evenly over visible keys."""
    weights = torch.zeros(tokens, tokens)
    if head == 0:
        weights[:, 0] = SINK
    elif head == 1:
        weights[range(1, tokens), range(tokens - 1)] = PREVIOUS
    else:
        for column in COLUMNS:
            weights[:, min(column, tokens - 1)] += 0.4
    left = 1 - weights.sum(-1, keepdim=True)
    weights = weights + left / tokens
    if causal:
        weights = weights.tril()
        weights /= weights.sum(-1, keepdim=True)
    return weights


def planted_matrices(
    sentences: tuple[list[str], ...] = (WORDS, OTHERS), site: Site = "encoder"
) -> KeptMatrices:
    """Two layers of one site; heads from the third on are alike."""
    matrices, tokens, kinds = {}, {}, {}
    for number, words in enumerate(sentences):
        layer = torch.stack(
            [
                planted_matrix(head, len(words), causal=site == "decoder")
                for head in range(HEADS[site])
            ]
        )
        tokens[number, site] = (words, words)
        letters = "o" + "w" * (len(words) - 2) + "c"
        kinds[number, site] = (letters, letters)
        for index in range(2):
            matrices[number, site, index] = layer.clone()
    return KeptMatrices(matrices, tokens, frozenset(), kinds)


def remade(found: Result, **tables: pd.DataFrame) -> Result:
    """The analysis with other tables, and with what is made of them: its summary and what pages are told."""
    every = {**found.tables, **tables}
    measured = {"head_distances": pd.DataFrame(), "fits": pd.DataFrame(), **every}
    measured.pop("summary", None)
    made = result_of(
        "planted", measured, found.matrices, tuple(found.details["views"]),
        about=found.about, notes=found.notes, figures=found.details["figures"], past_sinks=True,
    )  # fmt: skip
    return replace(found, tables={**every, "summary": made.summary}, details=made.details)


def planted_analysis(
    sentences: tuple[list[str], ...] = (WORDS, OTHERS), site: Site = "encoder"
) -> Result:
    """Statistics of a random model, labels made by hand, planted matrices."""
    found = analyze(
        (random_models.marian(), tokenizer()), sentences=PAIRS, sites=[site],
        keep_matrices=0, fit_sentences=2, labels=False, figures="all",
    )  # fmt: skip
    found = replace(
        found,
        about={**found.about, "Trained on": IMAGE_ALERT},
        matrices=planted_matrices(sentences, site),
    )
    return remade(found, **planted_labels(found))


_FUNCTIONS = {
    0: ("sink", "first token"),
    1: ("positional", "offset -1"),
    2: ("syntactic", SCRIPT_ALERT),
}
NAN = float("nan")
_FIGURES = {
    "statistic": "argmax_rate", "value": 0.95, "value_low": 0.93, "value_high": 0.97, "threshold": 0.9,
    "second_statistic": "", "second_value": NAN, "second_value_low": NAN, "second_value_high": NAN,
    "second_threshold": NAN, "unit": "rows", "counted": 2000, "needed": 1000, "stability": 1.0,
    "strength": 1.1,
}  # fmt: skip


def planted_labels(found: Result) -> dict[str, pd.DataFrame]:
    """In layer 0 a sink, a positional and a borderline head; in layer 1 nothing stands."""
    heads = found.heads[["site", "layer", "head"]].to_dict("records")
    labels, controls = [], []
    for keys in VIEWS:
        for head in heads:
            function, detail = _FUNCTIONS[min(head["head"], 2)]
            status = "borderline" if function == "syntactic" else "confirmed"
            name = function if status == "confirmed" else "unknown"
            stands = head["layer"] == 0 and status == "confirmed"
            of_head = {**head, "keys": keys, "detail": detail, **_FIGURES, "status": status}
            if status == "borderline":
                of_head |= {"value": 0.9, "value_low": 0.88, "value_high": 0.92}
            standing = "confirmed" if stands else "rejected"
            labels.append({
                **of_head, "labels": name, "label": name, "significant_labels": name if stands else "unknown",
                "borderline": "" if status == "confirmed" else function, "undecided": "",
                "function": function, "significance": standing, "structure": "band",
                "structure_runner_up": "column", "structure_margin_bits_per_row": 0.3,
                "structure_tie": False, "mass_on_special": 0.2,
                "loss_change": 0.01 * head["head"],
                "loss_change_low": 0.01 * head["head"] - 0.005, "loss_change_high": 0.03,
            })  # fmt: skip
            controls.append({
                **of_head, "label": function, "control": NAN, "control_kind": "", "denominator": 2000,
                "significance": standing,
                "untrained_value": 0.1, "untrained_status": "rejected", "shuffled_value": 0.2,
                "shuffled_status": "rejected", "significant": stands,
            })  # fmt: skip
    return {"labels": pd.DataFrame(labels), "controls": pd.DataFrame(controls)}
