"""From verdicts to labels: what each head is, and `unknown` for heads that are none of it."""

import pandas as pd

from attnlab.heads.functions.syntactic import MARGIN
from attnlab.heads.functions.verdict import LABELS, NOT_COUNTED, UNDECIDED, UNKNOWN

HEAD = ["site", "layer", "head"]


def label_table(verdicts: pd.DataFrame) -> pd.DataFrame:
    """One row a head: `site, layer, head, labels, label`.

    `labels` names all that hold, joined by `; `; `label` is the first of them in the order of
    `LABELS`, for counting and for comparing with one structural label a head. Where none holds both
    are `unknown`: expect that for most heads. Where too little was counted for every one of them
    both are `undecided`.

    Args:
        verdicts: one row a head and label, with `site` and `layer` beside the columns of `Verdict`.
    """
    holding = verdicts[verdicts.holds]
    order = {label: number for number, label in enumerate(LABELS)}
    rows = []
    short = verdicts.reason.str.startswith(NOT_COUNTED).groupby([verdicts[h] for h in HEAD]).all()
    for head in verdicts[HEAD].drop_duplicates().itertuples(index=False):
        mine = holding[(holding[HEAD] == list(head)).all(axis=1)].label
        names = sorted(mine, key=order.__getitem__) or [UNDECIDED if short[head] else UNKNOWN]
        rows.append((*head, "; ".join(names), names[0]))
    return pd.DataFrame(rows, columns=[*HEAD, "labels", "label"])


def compare_controls(
    tables: dict[str, pd.DataFrame], relations: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Every verdict of the model beside those of its controls, one row a head and label.

    For each control NAME the columns `NAME_value` and `NAME_holds` say what the same head got
    there. `stands` is True where the label holds and the untrained model does not carry it too. On
    shuffled sentences a label may stay (one back is one back whatever stands there): what changes
    shows what the head goes by.

    A label that rests on a relation is held against the same relation of the controls, since a
    control picks one of its own, which says little about this one; it stands when the relation does.

    Args:
        tables: verdicts by name, `model` and `untrained` among them, all with `site` and `layer`.
        relations: from `compare_relations`, where there are gold links; with `shuffled` in `tables`.
    """
    keys = [*HEAD, "label"]
    result = tables["model"][[*keys, "detail", "statistic", "value", "threshold", "holds"]]
    for name, table in tables.items():
        if name != "model":
            other = table[[*keys, "value", "holds"]]
            renamed = other.rename(columns={"value": f"{name}_value", "holds": f"{name}_holds"})
            result = result.merge(renamed, on=keys, how="left", validate="one_to_one")
    result = result.assign(stands=result.holds & ~result.untrained_holds)
    if relations is None or relations.empty:
        return result
    return _with_relations(result, relations)


def _with_relations(controls: pd.DataFrame, relations: pd.DataFrame) -> pd.DataFrame:
    """The controls' figures of the relation that each label rests on, in place of their own."""
    names = {
        "untrained_accuracy": "untrained_value",
        "shuffled_accuracy": "shuffled_value",
        "stands": "stands",
    }
    known = relations.assign(detail=relations["relation"] + " " + relations["direction"])
    known = known.set_index([*HEAD, "detail"])[list(names)].rename(columns=names)
    index = pd.MultiIndex.from_frame(controls[[*HEAD, "detail"]])
    resting = index.isin(known.index)
    found = known.reindex(index[resting])
    result = controls.copy()
    for name in ("untrained_value", "shuffled_value"):
        result.loc[resting, name] = found[name].to_numpy()
    stands = found["stands"].to_numpy(dtype=bool) & result.loc[resting, "holds"].to_numpy()
    result.loc[resting, "stands"] = stands
    return result


def compare_relations(
    model: pd.DataFrame, shuffled: pd.DataFrame, untrained: pd.DataFrame, margin: float = MARGIN
) -> pd.DataFrame:
    """Every relation of the model beside its controls, one row a head and kind of gold link.

    The offset baseline says what position alone would give; on shuffled words it falls to almost
    nothing and any preference for a kind of word exceeds it, so the rule itself says little there.
    What counts is the head's own accuracy on shuffled words, which it owes to the words alone:
    `stands` is True where the head follows the relation, exceeds that accuracy by `margin` too, and
    the untrained model's head does not follow it.

    Args:
        model: relations with `site` and `layer`, from `HeadFunctions.relations`.
        shuffled: the same on sentences whose words are shuffled.
        untrained: the same of the untrained model.
        margin: how far accuracy must exceed the one on shuffled words.
    """
    keys = [*HEAD, "relation", "direction"]
    result = model
    for name, table in (("shuffled", shuffled), ("untrained", untrained)):
        other = table[[*keys, "accuracy", "follows"]].rename(
            columns={"accuracy": f"{name}_accuracy", "follows": f"{name}_follows"}
        )
        result = result.merge(other, on=keys, how="left", validate="one_to_one")
    beyond_words = result.accuracy >= result.shuffled_accuracy + margin
    stands = result.follows & beyond_words & ~result.untrained_follows.astype(bool)
    return result.assign(stands=stands)
