"""How often claims about planted heads are graded as they should be, and what two sentences would confirm.

    python experiments/planted_claims/run.py

writes results/planted_claims/: a row a claim. Half of the claims say what a head was built to do, with
noise; the others say something else of such a head, or anything of a random one. The truth is the grade of
the hit in many texts, found by plain loops over the captured matrices, without an interval; what is graded
are others, fewer.
"""

import argparse
import math
import random
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch
from scipy.stats import binomtest

import attnlab
from attnlab.core import quiet
from attnlab.grammar import GrammarPair, draw_pairs
from attnlab.labels import MARGIN, Bars
from attnlab.questions.claim.grading import OF_ALWAYS, OF_MOSTLY, grade_of
from attnlab.questions.claim.question import GRADES, NO_MORE, UNDECIDED
from attnlab.results import Result
from experiments.planted_claims.plain_hits import plain_hit, plain_texts
from experiments.planted_claims.planted_models import (
    Behaviour,
    classes_of,
    planted_model,
    tokenizer_of,
)
from experiments.shared.readme import (
    RESULTS,
    read_facts,
    read_table,
    render,
    write_facts,
    write_readme,
)
from experiments.shared.rounded import write_rounded

OUT = RESULTS / "planted_claims"
MODELS, POPULATION, TEXTS, SPARE = 24, 1000, 200, 50
# Models before it were looked at when the grades were made.
FIRST = 100
CLAIMS_OF_A_KIND, CLEAR = 100, 0.05
CONTROLS = ("chance_hit", "offset_hit", "untrained_hit", "shuffled_hit")
# By what a head does, what is true of it and what is not, in models that read both ways.
BOTH_WAYS: dict[Behaviour, tuple[str, tuple[str, ...]]] = {
    Behaviour("offset", (-1,)): ("offset -1", ("offset -2", "dep nsubj reversed", "offset 1")),
    Behaviour("offset", (1,)): ("offset 1", ("dep det", "offset 2", "same token")),
    Behaviour("offset", (2,)): ("offset 2", ("offset 1", "dep nsubj")),
    Behaviour("same token"): ("same token", ("offset -1", "rarest")),
    Behaviour("class", ("DET", "NOUN")): (
        "pos DET -> NOUN nearest", ("pos DET -> VERB nearest", "offset 2"),
    ),
    Behaviour("class", ("VERB", "NOUN")): (
        "pos VERB -> NOUN", ("pos VERB -> PUNCT", "dep nsubj reversed"),
    ),
    Behaviour("key", ("PUNCT",)): ("punctuation", ("special separator", "rarest 2")),
    Behaviour("key", ("[SEP]",)): ("special separator", ("first", "last & punctuation | offset 1")),
    Behaviour("position"): ("first", ("special separator", "offset -1")),
}  # fmt: skip
CAUSAL: dict[Behaviour, tuple[str, tuple[str, ...]]] = {
    Behaviour("offset", (-1,)): ("offset -1", ("offset -2", "dep nsubj reversed", "first")),
    Behaviour("offset", (-2,)): ("offset -2", ("offset -1", "same token")),
    Behaviour("same token"): ("same token", ("first", "offset -3")),
    Behaviour("class", ("NOUN", "DET")): (
        "pos NOUN -> DET nearest", ("dep nsubj reversed", "pos NOUN -> VERB"),
    ),
    Behaviour("position"): ("first", ("offset -1", 'token "the"')),
    Behaviour("equal"): ("not first", ("first", "offset -1", "rarest")),
}  # fmt: skip
OF_RANDOM = ("offset -1", "same token", "first", "dep nsubj reversed")


class Said(NamedTuple):
    """A claim, and whether the head was built to fulfil it."""

    claim: str
    built: bool


def main() -> None:
    """Plants, claims, and writes table and README."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=MODELS)
    chosen = parser.parse_args()
    rows = [row for seed in range(FIRST, FIRST + chosen.models) for row in rows_of_model(seed)]
    table = pd.DataFrame(rows)
    apart = [(table["true_hit"] - limit).abs() for limit in (OF_MOSTLY, OF_ALWAYS)]
    near, open_ = pd.concat(apart, axis=1).min(axis=1) < CLEAR, table["true_grade"] == UNDECIDED
    left_out = {"near": int(near.sum()), "open": int((open_ & ~near).sum())}
    kept = table[~near & ~open_].groupby("built", sort=False).head(CLAIMS_OF_A_KIND)
    write_rounded(OUT / "table.csv", kept)
    write_facts(
        OUT, __file__, "torch", "transformers", models=chosen.models, said=len(table), **left_out
    )
    write_readme(OUT, readme(OUT))


def rows_of_model(seed: int) -> Iterator[dict[str, Any]]:
    """Rows of the claims about one model."""
    draw, causal = random.Random(seed), seed % 3 == 2
    generator = torch.Generator().manual_seed(seed)
    drawn = draw_pairs(POPULATION + TEXTS + SPARE, seed=1000 + seed)
    # Two words in one token.
    pairs = [pair for pair in drawn if "cannot" not in pair.source][: POPULATION + TEXTS]
    tokenizer = tokenizer_of(pairs, causal=causal)
    layers, heads = draw.randint(2, 4), draw.choice([4, 6, 8])
    places = [(layer, head) for layer in range(layers) for head in range(heads)]
    draw.shuffle(places)
    behaviours = CAUSAL if causal else BOTH_WAYS
    chosen = draw.sample([*behaviours], min(len(behaviours), 7))
    planted = {places.pop(): (behaviour, 2 ** draw.uniform(-1.5, 3.2)) for behaviour in chosen}
    said = list(_said(planted, behaviours, places.pop(), draw))
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = planted_model(
            tokenizer, classes_of(pairs), planted, layers=layers, heads=heads, causal=causal,
            generator=generator,
        )  # fmt: skip
    claims = [one.claim for one in said]
    with tempfile.TemporaryDirectory() as folder:
        many, few = (
            _claimed((model, tokenizer), claims, own, Path(folder) / "trees.conllu")
            for own in (pairs[:POPULATION], pairs[POPULATION:])
        )
    population = pairs[:POPULATION]
    texts = plain_texts(population, tokenizer, causal=causal)
    captured = attnlab.capture(
        (model, tokenizer), [pair.source for pair in population], keep_matrices=POPULATION,
        keep_bytes=2**30,
    )  # fmt: skip
    for one, true, found in zip(
        said, many.claims.to_dict("records"), few.claims.to_dict("records"), strict=True
    ):
        matrices = captured[f"{true['site']}.{true['layer']}.{true['head']}"]
        hit = plain_hit(true["pattern"], texts, matrices)
        controls = [true.get(name, math.nan) for name in CONTROLS]
        bar = max(one for one in controls if not math.isnan(one)) + MARGIN
        yield {
            "model": seed, "causal": causal, "head": f"{true['layer']}.{true['head']}",
            "pattern": true["pattern"], "built": one.built, "true_hit": hit, "claimed_hit": true["hit"],
            "true_bar": bar,
            "true_grade": grade_of(hit, hit, Bars(max(bar, true["untrained_most"]), bar)),
            "hit": found["hit"],
            "hit_low": found["hit_low"], "hit_high": found["hit_high"], "bar": found["bar"],
            "grade": found["grade"], "confirmed_by_eye": _by_eye(few, true, draw),
        }  # fmt: skip


def _said(
    planted: dict[tuple[int, int], tuple[Behaviour, float]],
    behaviours: dict[Behaviour, tuple[str, tuple[str, ...]]],
    other: tuple[int, int],
    draw: random.Random,
) -> Iterator[Said]:
    """A claim that is fulfilled and one that is not of each planted head, and one of a random head."""
    for (layer, head), (behaviour, _) in planted.items():
        right, wrong = behaviours[behaviour]
        if behaviour.kind != "equal":
            yield Said(f"{layer}.{head}: {right}", built=True)
        yield Said(f"{layer}.{head}: {draw.choice(wrong)}", built=False)
    yield Said(f"{other[0]}.{other[1]}: {draw.choice(OF_RANDOM)}", built=False)


def _claimed(model: Any, claims: Sequence[str], pairs: Sequence[GrammarPair], file: Path) -> Result:
    """The claims on sentences with their trees."""
    lines = []
    for pair in pairs:
        for number, word in enumerate(pair.source_tree, 1):
            tight = "_" if word.space_after else "SpaceAfter=No"
            lines.append(
                f"{number}\t{word.form}\t_\t{word.part_of_speech}\t_\t_\t{word.head}\t{word.relation}\t_\t{tight}"
            )
        lines.append("")
    file.write_text("\n".join([*lines, ""]), encoding="utf-8")
    with quiet():
        return attnlab.claim(
            model, claims, treebank=file, sentences=len(pairs), examples=len(pairs)
        )


def _by_eye(found: Result, claim: dict[str, Any], draw: random.Random) -> bool:
    """Whether in two of the sentences most rows have their largest weight in the pattern."""
    named = ["site", "layer", "head", "pattern"]
    table = found.sentences
    mine = table[(table[named] == pd.Series({name: claim[name] for name in named})).all(axis=1)]
    hits = mine["sentence_hit"].tolist()
    return all(hit > 1 / 2 for hit in draw.sample(hits, min(2, len(hits))))


def readme(folder: Path) -> str:
    """The README of the tables in `folder`."""
    table = read_table(folder, "table")
    order = [*GRADES[:4], UNDECIDED]
    confusion = pd.crosstab(table["true_grade"], table["grade"]).reindex(
        index=[name for name in order[:4] if name in set(table["true_grade"])],
        columns=order, fill_value=0,
    )  # fmt: skip
    rank = {name: number for number, name in enumerate(order)}
    decided = table[table["grade"] != UNDECIDED]
    steps = decided["grade"].map(rank) - decided["true_grade"].map(rank)
    wrong = table[table["true_grade"] == NO_MORE]
    right = table[table["true_grade"] != NO_MORE]
    hits = table.loc[table["built"], "true_hit"]
    return render(
        __file__,
        read_facts(folder),
        confusion=confusion.rename_axis("truth").reset_index(),
        claims=len(table), built=int(table["built"].sum()),
        above=int((steps < 0).sum()),
        above_most=100 * binomtest(int((steps < 0).sum()), len(table)).proportion_ci().high,
        apart=100 * (table["claimed_hit"] - table["true_hit"]).abs().max(), below=int((steps > 0).sum()),
        undecided=int((table["grade"] == UNDECIDED).sum()),
        wrong=len(wrong), wrong_by_eye=int(wrong["confirmed_by_eye"].sum()),
        wrong_graded=int((~wrong["grade"].isin([NO_MORE, UNDECIDED])).sum()),
        right=len(right), right_by_eye=int(right["confirmed_by_eye"].sum()),
        right_graded=int((~right["grade"].isin([NO_MORE, UNDECIDED])).sum()),
        least=100 * hits.min(), half=int((hits < OF_MOSTLY).sum()),
        of_a_kind=CLAIMS_OF_A_KIND, texts=TEXTS, population=POPULATION, clear=100 * CLEAR,
        models=int(table["model"].nunique()),
    )  # fmt: skip


if __name__ == "__main__":
    main()
