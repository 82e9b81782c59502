"""The page of findings comes out of the tables again, and takes in results whose folders appear."""

import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from attnlab.core.addresses import SITES
from experiments.findings.run import PAGE, page
from experiments.head_costs.run import ALL, PREDICTORS, WITHIN
from experiments.heads_over_training.curves import ABOVE
from experiments.heads_over_training.readings import INDUCTION_HEAD, PREVIOUS_TOKEN
from experiments.shared.readme import RESULTS
from experiments.static_heads.run import VARIANCE
from experiments.trained_mechanisms.models import NO_DECODER

LINK = re.compile(r"\]\(\.\./results/([\w-]+)/README\.md\)")
COME_AND_GO = (
    "models", "plan_ablation", "plan_ablation_other_texts", "windows_multi30k", "windows_bible",
    "head_costs", "static_heads",
    "heads_over_training", "trained_mechanisms", "head_roles", "head_roles_3_layers",
    "head_roles_6_layers", "trained_mechanisms_long",
    "static_heads_3_layers", "head_costs_3_layers", "static_heads_6_layers", "head_costs_6_layers",
    "trained_mechanisms_decoder", "heads_over_training_language_model",
)  # fmt: skip


def test_the_page_is_what_the_tables_say() -> None:
    assert page(RESULTS) == PAGE.read_text("utf-8")


def test_every_statement_has_a_number_an_amount_of_models_and_a_page() -> None:
    text = page(RESULTS)
    assert {name for name in LINK.findall(text) if not (RESULTS / name).is_dir()} == set()
    measured = text.split("## Not measured")[0]
    for section in re.split(r"^## ", measured, flags=re.MULTILINE)[1:]:
        assert "not measured yet" in section.lower() or LINK.search(section), section
    # In a row of the table the page stands in its last cell.
    pattern = r"^(?:\|.*\]\(\.\./results/.+\|\s*|.*\(\[.+\]\(\.\./results/.+\)\))$"
    sentences = re.findall(pattern, text, flags=re.MULTILINE)
    assert sum(sentence.startswith("|") for sentence in sentences) == text.count("\n| ") - 1
    for sentence in sentences:
        assert re.search(r"\d+ (?:shared )?(?:models?|matrices)", sentence), sentence


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The results without those that come and go."""
    for path in RESULTS.iterdir():
        if path.name not in COME_AND_GO:
            (tmp_path / path.name).symlink_to(path)
    return tmp_path


def test_results_that_appear_are_taken_in(folder: Path) -> None:
    text = page(folder)
    assert "Not measured yet." in text
    assert "The shared models of BLEU 35 and more" in text
    for name in COME_AND_GO:
        (folder / name).mkdir()
        (folder / name / "facts.json").write_text("{}")
    models = pd.DataFrame({"corpus": ["multi30k-en-fr"] * 2, "bleu": [40.0, 42.0]})
    models.to_csv(folder / "models" / "table.csv", index=False)
    difference = {"difference": [0.25], "difference_low": [0.125], "difference_high": [0.375]}
    windows = {"condition": ["trained", "untrained"], "unit": "words", "keys": "words"}
    windows |= {"measure": "w90"} | {name: value * 2 for name, value in difference.items()}
    tests = pd.DataFrame({"test": ["contrast", "sources"], "p_value": [0.03, 0.5]})
    for name in ("windows_multi30k", "windows_bible"):
        shutil.copy(folder / "models" / "table.csv", folder / name / "models.csv")
        pd.DataFrame(windows).to_csv(folder / name / "contrasts.csv", index=False)
        tests.to_csv(folder / name / "tests.csv", index=False)
    own = folder / "plan_ablation"
    arms = {"arm": ["full", "bands"], "bleu": [41.0, 7.0]}
    pd.DataFrame(arms).to_csv(own / "table.csv", index=False)
    contrast = {"contrast": ["longformer"], "models": 3, "same_sign": 3, "p_value": 0.01}
    pd.DataFrame(contrast | difference).to_csv(own / "contrasts.csv", index=False)
    over = {"arm": ["bands"], "budget": 5, "models": 3}
    for name in ("loss_change", "bleu_change"):
        over |= {f"{name}{end}": [0.5] for end in ("", "_low", "_high")}
    pd.DataFrame(over).to_csv(own / "over_models.csv", index=False)
    shutil.copytree(own, folder / "plan_ablation_other_texts", dirs_exist_ok=True)
    scopes = pd.DataFrame({"scope": ["cross", "all", "all"], "share": [1, 0.5, 1], "models": 2})
    scopes["order"] = VARIANCE
    for end, value in (("", 0.5), ("_low", 0.25), ("_high", 0.75)):
        scopes[f"loss_change{end}"] = value
    scopes.to_csv(folder / "static_heads" / "over_models.csv", index=False)
    shares = pd.DataFrame({"share": [0, 0, 1], "bleu": [40.0, 42.0, 1.0]})
    shares.to_csv(folder / "static_heads" / "table.csv", index=False)
    named = {"contrast": ["one minus other"], "models": 2, "p_value": 0.01}
    for name in ("contrasts", "contrasts_by_language"):
        pd.DataFrame(named | difference).to_csv(
            folder / "static_heads" / f"{name}.csv", index=False
        )
    own = folder / "head_costs"
    shutil.copy(folder / "models" / "table.csv", own / "models.csv")
    ranks: dict[str, object] = {"site": [WITHIN, ALL, *SITES], "models": 2}
    for place, name in enumerate(PREDICTORS):
        ranks |= dict(
            zip((name, f"{name}_low", f"{name}_high"), [place / 10, 0.0, 1.0], strict=True)
        )
    pd.DataFrame(ranks).to_csv(own / "over_models.csv", index=False)
    pd.DataFrame(named | difference).to_csv(own / "contrasts.csv", index=False)
    own = folder / "heads_over_training"
    quality = {"seed": [0, 1], "loss": [2.0, 2.5], "BLEU": [70.0, 75.0]}
    pd.DataFrame(quality).to_csv(own / "quality.csv", index=False)
    looking = ["positional", "syntactic", "sink", PREVIOUS_TOKEN, INDUCTION_HEAD]
    halves = {"site": ["cross", *["model"] * 3, *["decoder"] * 5]}
    halves |= {"label": ["alignment", "BLEU", "loss", ABOVE, *looking], "formed": [2] * 8 + [0]}
    halves["end"] = 0.5
    halves |= {"share": [30, *[40] * 7, np.nan], "share_low": [29, *[38] * 7, np.nan]}
    halves["share_high"] = [31, *[42] * 7, np.nan]
    pd.DataFrame(halves).to_csv(own / "over_seeds.csv", index=False)
    before = {"contrast": ["alignment heads before BLEU"], "models": 2, "same_sign": 2}
    before |= {"ratio": [0.75], "ratio_low": [0.7], "ratio_high": [0.8]}
    pd.DataFrame(before).to_csv(own / "contrasts.csv", index=False)
    shutil.copytree(own, folder / f"{own.name}_language_model", dirs_exist_ok=True)
    own = folder / "head_roles"
    shutil.copy(folder / "models" / "table.csv", own / "models.csv")
    shares = {
        "text": "captions",
        "site": ["cross", *SITES],
        "label": ["monotone"] + ["no label"] * 3,
    }
    shares |= {"share": 0.5, "share_low": 0.25, "share_high": 0.75}
    pd.DataFrame(shares).to_csv(own / "over_models.csv", index=False)
    heads = {"corpus": ["multi30k-en-fr", "multi30k-en-fr-d128"], "seed": 0, "text": "captions"}
    heads |= {"site": "encoder", "labels": ["sink; broad", "no label"], "head": 0}
    heads["loss_change"] = 0.5
    pd.DataFrame(heads).to_csv(own / "table.csv", index=False)
    own = folder / "trained_mechanisms"
    without = [{"arm": arm} | difference for arm in ("none", NO_DECODER)]
    against_full = pd.concat(map(pd.DataFrame, without))
    against_full.to_csv(own / "against_full.csv", index=False)
    pd.DataFrame(arms | {"epochs": 5}).to_csv(own / "table.csv", index=False)
    against = contrast | difference | {"contrast": ["band against full"]}
    pd.DataFrame(against).to_csv(own / "contrasts.csv", index=False)
    for name in ("head_roles", "static_heads", "head_costs"):
        shutil.copytree(folder / name, folder / f"{name}_3_layers", dirs_exist_ok=True)
    for name in ("head_roles", "static_heads", "head_costs"):
        shutil.copytree(folder / name, folder / f"{name}_6_layers", dirs_exist_ok=True)
    for name in ("long", "decoder"):
        shutil.copytree(own, folder / f"trained_mechanisms_{name}", dirs_exist_ok=True)
    text = page(folder)
    assert "**With six layers**, 256 dimensions, share of heads: cross monotone **0.50**" in text
    assert "after 5 epochs: band against full" in text
    assert "**In the decoder and in cross-attention** instead" in text
    assert "**With three layers**, 128 dimensions" in text
    assert "share of heads: cross monotone **0.50**" in text
    assert (
        "the loss without the head ranks best of these figures: **0.70** [0.00, 1.00] over" in text
    )
    assert "**Static heads with three layers**" in text
    assert "* **Static heads with six layers**, 256 dimensions: half of all heads" in text
    assert "* **With six layers**, 256 dimensions, the loss without the head ranks best" in text
    assert "at a second look. With the 2 languages as units: one minus other **+0.250**" in text
    # The last predictor is the cost itself, on other sentences.
    assert "ranked best by the loss without the head** of the figures that need no trial" in text
    assert "and **0.70** [0.00, 1.00] within a site, mean of the three. By site, it and" in text
    assert (
        "Tested on the mean of the sites: one minus other **+0.25** [+0.12, +0.38], p = 0.01."
        in text
    )
    assert "least variance over sentences: **+0.500** [+0.250, +0.750]; all heads of cross" in text
    assert "half as strong as at the end at **30** [29, 31] % of the training" in text
    assert "**0.75** [0.70, 0.80] times the steps, in 2 of 2 models, BLEU 70.0 to 75.0" in text
    assert "significant against controls: monotone **0.50** [0.25, 0.75], no label" in text
    assert (
        "| Share of heads with no label that is confirmed and significant against controls: encoder"
        in text
    )
    assert "; no self-attention in the decoder against full **+0.250** [+0.125, +0.375]," in text
    assert "positional **0.50**, 0.5 above the start in 2 of 2, first halfway at **40.0**" in text
    assert f"{INDUCTION_HEAD} **0.50**, nowhere 0.5 above the start; the loss is that" in text
    assert "are sinks: **0** of 1 in models of 128 dimensions, **1** of 1 in models of 256" in text
    for texts in ("image captions", "Bible verses"):
        assert f"German source**, {texts}: **+0.25** [+0.12, +0.38] words" in text
    assert (
        "Longformer against a search of all families by loss**, mean over 3, 4 and 5 keys per row: "
        "**+0.250** [+0.125, +0.375] more lost" in text
    )
    assert "tested once: longformer **+0.250** [+0.125, +0.375] more lost, p = 0.01, in" in text
    assert "band against full: loss **+0.250** [+0.125, +0.375], p = 0.01, in 3 of 3 pairs" in text
    assert "Arms of the search on captions, at 5 keys per row" in text
    assert "2 shared models of multi30k-en-fr, BLEU 40.0 to 42.0" in text
    assert "Not measured yet." not in text
    halves = folder / "heads_over_training_language_model" / "over_seeds.csv"
    never = pd.read_csv(halves)
    never.loc[never["label"] == ABOVE, "formed"] = 0
    never.to_csv(halves, index=False)
    assert "the loss stays above that of counts of pairs." in page(folder)
