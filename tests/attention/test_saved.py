"""Models saved with mechanisms in them come back with their plan, to the last digit."""

import copy
import io
import json
import logging
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModel
from zoo.bridged import FAMILIES, KINDS, ids, model, needs_scores, put_in, stands_at

from attnlab.attention.bridge.installing import PLAN_FILE, TENSOR_FILE, install, use
from attnlab.attention.bridge.saved import install_written, load_with_plan
from attnlab.attention.bridge.sites import mechanism_of
from attnlab.attention.mechanism import Mechanism
from attnlab.attention.multihead import OwnAttention
from attnlab.attention.plan import plan_of, write_plan
from attnlab.attention.registry import make
from attnlab.core.addresses import SITES
from attnlab.core.errors import InputError
from attnlab.models.opening import load_transformers

pytestmark = pytest.mark.grid

# One of each, and each whose options change what is saved of it.
SAVED = [
    *KINDS,
    "sigma(window=(0, 1), columns='random', extra=2)",
    "sigma(window=1, num_pos=0, extra=2, entries='offsets')",
    "linear(feature='favor', features=8)",
    "linformer(k=3, max_length=64, share='layers')",
]
# Sums of float64 depend in their last bits on where in memory the weights lie.
CLOSE = {"rtol": 0, "atol": 1e-12}


def output(of: Any) -> Tensor:
    given = {"input_ids": ids(3, 7)}
    if of.config.is_encoder_decoder:
        given["decoder_input_ids"] = ids(3, 5, 2)
    with torch.no_grad():
        return of(**given)[0]


def written(folder: Path, name: str = "bert", planned: Any = "linformer(k=3)") -> Tensor:
    """What the model gives that was saved into `folder` with mechanisms in it."""
    random = model(name)
    installed = put_in(random, planned)
    with torch.no_grad():
        for at in installed.modules:
            for part in mechanism_of(at.module).parameters():
                part.add_(0.25)
    random.save_pretrained(folder)
    installed.write(folder)
    return output(random)


@pytest.mark.parametrize("spec", SAVED)
def test_every_mechanism_comes_back_into_a_model(spec: str, tmp_path: Path) -> None:
    planned = {site: spec for site in SITES if stands_at(spec, site)}
    expected = written(tmp_path, "marian", planned)
    in_weights = tmp_path / "weights"
    (tmp_path / PLAN_FILE).rename(tmp_path / "plan")
    (tmp_path / TENSOR_FILE).rename(tmp_path / "tensors")
    again = load_with_plan(tmp_path)
    torch.testing.assert_close(output(again.model), expected, **CLOSE)
    assert again.plan == plan_of(planned)
    again.model.save_pretrained(in_weights)
    torch.testing.assert_close(output(load_with_plan(in_weights).model), expected, **CLOSE)
    again.remove()
    plain = output(again.model)
    (tmp_path / "plan").rename(tmp_path / PLAN_FILE)
    (tmp_path / "tensors").rename(tmp_path / TENSOR_FILE)
    install_written(again.model, tmp_path)
    torch.testing.assert_close(output(again.model), expected, **CLOSE)
    assert spec == "full" or not torch.allclose(plain, expected, **CLOSE)


@pytest.mark.parametrize("kind", [None, AutoModel])
@pytest.mark.parametrize("stranger", [False, True])
def test_tensors_of_mechanisms_are_not_reported_as_unexpected_and_others_are(
    kind: Any, stranger: bool, tmp_path: Path
) -> None:
    written(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    assert any(".attnlab." in name for name in tensors)
    extra = {"stranger.weight": torch.zeros(2)} if stranger else {}
    save_file(tensors | extra, tmp_path / "model.safetensors", {"format": "pt"})
    before = dict(vars(hf.BertModel))
    logger, text = hf.utils.logging.get_logger("transformers"), io.StringIO()
    handler = logging.StreamHandler(text)
    logger.addHandler(handler)
    load_with_plan(tmp_path, kind=kind)
    load_transformers(tmp_path, scores=False, tokenizes=False)
    logger.removeHandler(handler)
    assert ".attnlab." not in text.getvalue()
    assert text.getvalue().count("stranger.weight") == (2 if stranger else 0)
    assert dict(vars(hf.BertModel)) == before, "nothing is silenced afterwards"


@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "attnlab"])
def test_every_family_comes_back(name: str, tmp_path: Path) -> None:
    specs = ["band(window=1)", "sigma(window=1)"]
    specs += [] if needs_scores("linformer(k=2)") and name == "t5" else ["linformer(k=2)"]
    sites = {at.site for at in put_in(model(name), "full").modules}
    planned = {
        f"{site}.{layer}.{layer}": spec
        for site in sites
        for layer, spec in zip((0, 1), (specs[-1], specs[1]), strict=True)
        if stands_at(spec, site)
    }
    expected = written(tmp_path, name, planned)
    again = load_with_plan(tmp_path)
    assert type(again.model) is type(model(name))
    assert not again.model.training
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert f"# {type(again.model).__name__} with other attention" in card
    assert "attnlab.attention.load_with_plan" in card
    assert [line for line in card.splitlines() if line.startswith(("| en", "| de", "| cr"))] == [
        f"| {address} | `{spec}` |" for address, spec in plan_of(planned).entries.items()
    ]
    torch.testing.assert_close(output(again.model), expected, **CLOSE)


def test_layers_that_share_a_projection_share_it_again(tmp_path: Path) -> None:
    written(tmp_path, planned="linformer(k=3, share='layers')")
    for part in (PLAN_FILE, TENSOR_FILE):
        (tmp_path / part).unlink()
    again = load_with_plan(tmp_path)
    first, second = (mechanism_of(at.module).key_projection for at in again.modules)
    assert first is second


def test_a_saved_model_says_what_stood_in_it_and_only_while_it_stands(tmp_path: Path) -> None:
    random = model("bert")
    installed = install(random, {"encoder.1": "band(window=1)"})
    random.save_pretrained(tmp_path / "with")
    installed.remove()
    random.save_pretrained(tmp_path / "without")
    config = json.loads((tmp_path / "with" / "config.json").read_text(encoding="utf-8"))
    assert config["attnlab_plan"]["mechanisms"] == {"encoder.1": "band(window=1)"}
    assert "attnlab" not in (tmp_path / "without" / "config.json").read_text(encoding="utf-8")
    with pytest.raises(InputError, match="holds no attention plan beside a model"):
        load_with_plan(tmp_path / "without")


@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "attnlab"])
def test_plain_loading_of_a_model_with_a_plan_is_refused_by_what_reads_it(
    name: str, tmp_path: Path
) -> None:
    """Even where attnlab has been used, whose attention transformers then knows by name."""
    random = model(name)
    plain = output(random)
    installed = put_in(random, "none")
    random.save_pretrained(tmp_path)
    for kind in (AutoModel, type(random)):
        with pytest.raises(ValueError, match=r"attnlab\.attention\.load_with_plan.* not supported"):
            kind.from_pretrained(tmp_path)
    told = type(random).from_pretrained(tmp_path, attn_implementation="eager").eval()
    torch.testing.assert_close(output(told), plain, rtol=1e-5, atol=1e-5)
    installed.remove()
    random.save_pretrained(tmp_path / "plain")
    again = type(random).from_pretrained(tmp_path / "plain").eval()
    torch.testing.assert_close(output(again), plain, rtol=1e-5, atol=1e-5)


def test_a_card_tells_of_the_plan_that_was_saved_last(tmp_path: Path) -> None:
    random = model("bert")
    for window in (1, 2):
        with use(random, f"band(window={window})"):
            random.save_pretrained(tmp_path)
        assert f"band(window={window})" in (tmp_path / "README.md").read_text(encoding="utf-8")


def test_a_card_is_written_only_where_there_is_none_and_while_mechanisms_stand(
    tmp_path: Path,
) -> None:
    random = model("bert")
    installed = install(random, Mean())
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "README.md").write_text("mine", encoding="utf-8")
    random.save_pretrained(tmp_path / "own")
    assert (tmp_path / "own" / "README.md").read_text(encoding="utf-8") == "mine"
    random.save_pretrained(tmp_path / "second", is_main_process=False)
    copied = copy.deepcopy(random)
    with torch.no_grad():
        copied.embeddings.word_embeddings.weight.fill_(0.5)
    copied.save_pretrained(tmp_path / "copied")
    weights = load_file(tmp_path / "copied" / "model.safetensors")
    assert bool((weights["embeddings.word_embeddings.weight"] == 0.5).all())
    assert "object of the class `Mean`" in (tmp_path / "copied" / "README.md").read_text("utf-8")
    installed.remove()
    random.save_pretrained(tmp_path / "plain")
    for name in ("second", "plain"):
        assert not (tmp_path / name / "README.md").exists()


def test_the_mechanisms_can_be_taken_out_again(tmp_path: Path) -> None:
    plain = output(model("bert"))
    written(tmp_path)
    again = load_with_plan(tmp_path)
    again.remove()
    torch.testing.assert_close(output(again.model), plain, **CLOSE)
    again.model.save_pretrained(tmp_path / "plain")
    with pytest.raises(InputError, match="holds no attention plan"):
        load_with_plan(tmp_path / "plain")


def test_a_model_within_a_larger_one_finds_its_tensors(tmp_path: Path) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        larger = hf.BertForMaskedLM(model("bert").config).double().eval()
    put_in(larger, "linformer(k=3)")
    larger.save_pretrained(tmp_path)
    again = load_with_plan(tmp_path, hf.AutoModel)
    assert type(again.model) is hf.BertModel
    expected = larger.bert(input_ids=ids(3, 7)).last_hidden_state
    torch.testing.assert_close(
        again.model(input_ids=ids(3, 7)).last_hidden_state, expected, rtol=0, atol=0
    )


class Mean(Mechanism):
    """A user's own mechanism."""

    name = "mean"

    def forward(self, query, key, value, visible=None, **context):
        return value.mean(-2, keepdim=True).expand(query.shape)

    def implied_matrix(self, query, key, visible=None, **context):
        return torch.full((*query.shape[:-1], key.shape[-2]), 1 / key.shape[-2])


def test_a_mechanism_object_is_named_and_refused(tmp_path: Path) -> None:
    random = model("bert")
    install(random, Mean())
    random.save_pretrained(tmp_path)
    with pytest.raises(InputError, match="a mechanism object stood at 'encoder'"):
        load_with_plan(tmp_path)


def without_first(folder: Path, name: str) -> None:
    tensors = load_file(folder / name)
    tensors.pop(min(tensors))
    save_file(tensors, folder / name)


DISAGREEMENTS: dict[str, tuple[Any, str]] = {
    "more layers": ({"encoder.5": "full"}, "does not fit the model.*layers 0, 1 with 2 heads each"),
    "another site": ({"decoder": "full"}, "does not fit the model.*no decoder attention"),
    "another shape": ({"encoder": "linformer(k=4)"}, "has another shape"),
    "nothing learned": ({"encoder": "band(window=1)"}, "is in no mechanism"),
    "more learned": ({"encoder": "linformer(k=3, share='kv')"}, "has another shape"),
}


@pytest.mark.parametrize("case", DISAGREEMENTS)
def test_a_plan_that_disagrees_with_the_model_is_refused(case: str, tmp_path: Path) -> None:
    written(tmp_path)
    planned, message = DISAGREEMENTS[case]
    write_plan(tmp_path / PLAN_FILE, plan_of(planned))
    with pytest.raises(InputError, match="is not the plan that config.json beside it names"):
        load_with_plan(tmp_path)
    random = model("bert")
    before, keys = output(random), list(random.state_dict())
    with pytest.raises(InputError, match=message):
        install_written(random, tmp_path)
    assert torch.equal(output(random), before)
    assert list(random.state_dict()) == keys


def test_missing_and_stale_tensors_are_refused(tmp_path: Path) -> None:
    written(tmp_path)
    without_first(tmp_path, TENSOR_FILE)
    with pytest.raises(InputError, match="is missing; use the plan and the tensors"):
        install_written(model("bert"), tmp_path)
    written(tmp_path)
    tensors = load_file(tmp_path / TENSOR_FILE)
    save_file({name: tensor + 1 for name, tensor in tensors.items()}, tmp_path / TENSOR_FILE)
    with pytest.raises(InputError, match="hold different numbers"):
        load_with_plan(tmp_path)
    (tmp_path / TENSOR_FILE).write_bytes(b"\x02\x00\x00\x00\x00\x00\x00\x00{]")
    with pytest.raises(InputError, match="cannot be read"):
        load_with_plan(tmp_path)
    with pytest.raises(InputError, match="does not exist and is no name of a model"):
        load_with_plan(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="There is no transformers model in"):
        load_with_plan(tmp_path / "empty")


@pytest.mark.parametrize("additive", [True, False])
def test_only_additive_scores_refuse_what_computes_its_own(additive: bool) -> None:
    site = OwnAttention(2, make("full"), additive=additive)
    site.check_fits(make("band(window=1)"), "cross")
    if additive:
        with pytest.raises(InputError, match="'linear' cannot stand in cross: it weighs keys by"):
            site.check_fits(make("linear"), "cross")
    else:
        site.check_fits(make("linear"), "cross")
