"""What a command reads it never replaces, and of what it finds it replaces only what attnlab wrote."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from planted_layers import stochastic
from planted_links import content
from typer.testing import CliRunner
from zoo import random_models
from zoo.random_models import PAIRS, tokenizer

from attnlab.cli.app import app
from attnlab.core.errors import InputError
from attnlab.core.folders import paths_in
from attnlab.questions.align import aligning
from attnlab.questions.align.aligning import align
from attnlab.results.result import Result

pytestmark = pytest.mark.usefixtures("no_page")

RECORD = {
    "format": 1,
    "settings": {"corpus": {"name": "own.tsv"}},
    "corpus": {
        "name": "own.tsv", "checksum": "", "path": None,
        "pairs": {"train": 1, "validation": 1, "test": 1},
    },
}  # fmt: skip
READ, MODEL, PLACE = (
    "is read by the same command",
    "in the folder of a model",
    "is where the alignment is",
)
ALIGN = "align m --pairs p.tsv --heads h.json --overwrite --out o --links "
FOREIGN = "and no result.json of attnlab"
REFUSED = {
    f"{ALIGN}p.tsv": f"p.tsv is not replaced, since p.tsv {READ} (pairs)",
    f"{ALIGN}link": f"p.tsv {READ} (pairs)",
    f"{ALIGN}hard": f"p.tsv {READ} (pairs)",
    f"{ALIGN}sub/../p.tsv": f"p.tsv {READ} (pairs)",
    f"{ALIGN}h.json": f"h.json {READ} (heads)",
    f"{ALIGN}m/config.json": f"m {READ} (source)",
    f"{ALIGN}other/config.json": MODEL,
    f"{ALIGN}other/tokenizer.json": MODEL,
    f"{ALIGN}run/settings.json": "is among the files of the run",
    f"{ALIGN}run/notes.txt": MODEL,
    f"{ALIGN}o": PLACE,
    **{f"{ALIGN}o/{name}": PLACE for name in ("heads.json", "links.pharaoh", "heads.csv", "figures/a.svg")},
    "align run --links own.tsv --overwrite": f"own.tsv {READ} (source)",
    "align m --pairs p.tsv --heads old/heads.json --out old --overwrite": f"old/heads.json {READ} (heads)",
    "align m --pairs p.tsv --heads h.json --links dangling": "dangling exists; add --overwrite",
    "align m --pairs p.tsv --out user --overwrite": f"user holds heads.csv {FOREIGN}",
    "align m --pairs p.tsv --out m --overwrite": "m is the folder of a model; name another",
    "approximate old/matrices.npy --out old --overwrite": "old holds another result (alignment)",
    "score run --out own.tsv --overwrite": f"own.tsv {READ} (corpus)",
    "score run --out run/notes.txt --overwrite": f"run {READ} (run)",
    "train run --like run --overwrite": f"run/settings.json {READ} (like)",
    "train run --corpus run/analysis/a.tsv --overwrite": f"a.tsv {READ} (corpus)",
    "embed words --corpus words/embeddings.txt --overwrite": f"embeddings.txt {READ} (corpus)",
    "embed user2 --overwrite": "holds embeddings.txt, and no embeddings of attnlab embed",
    "export h.json m --out m --overwrite": f"m {READ} (model)",
    "export h.json m --out other --overwrite": "other holds something else than an exported model",
    "study run random_search --out user": f"holds table.csv, cells {FOREIGN}",
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    texts = {
        "p.tsv": "a\tb\n", "h.json": "{}", "own.tsv": "a\tb\n", "run/notes.txt": "mine",
        "run/settings.json": json.dumps(RECORD), "run/config.json": "{}", "run/analysis/a.tsv": "a\tb\n",
        "old/result.json": '{"result": "alignment"}', "old/report.html": "", "old/heads.json": "{}",
        "user/heads.csv": "mine", "user/table.csv": "mine", "user/cells/.git/mine": "mine",
        "words/embeddings.txt": "a b\n", "words/embedding.json": "{}", "user2/embeddings.txt": "mine",
        "m/config.json": '{"model_type": "marian"}', "other/config.json": '{"model_type": "marian"}',
        "other/tokenizer.json": "{}", "sub/mine": "",
    }  # fmt: skip
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "link").symlink_to("p.tsv")
    (tmp_path / "dangling").symlink_to("nothing")
    os.link(tmp_path / "p.tsv", tmp_path / "hard")
    np.save(tmp_path / "old" / "matrices.npy", stochastic(2, 5, 5))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_what_is_read_or_of_others_is_never_replaced(folder: Path) -> None:
    before = content(folder)
    for words, message in REFUSED.items():
        done = CliRunner().invoke(app, words.split())
        assert isinstance(done.exception, InputError), (words, done.exception)
        assert message in str(done.exception), words
        assert content(folder) == before, words


@pytest.mark.parametrize("target", ["nothing", "loop"])
def test_a_link_to_nothing_is_no_input(target: str, folder: Path) -> None:
    (folder / "loop").symlink_to(target)
    assert paths_in({"pairs": "loop", "text": "p.tsv"}) == {Path("p.tsv"): "text"}
    with pytest.raises(InputError):
        align("m", "loop", links="out.txt", overwrite=True)


def test_python_refuses_the_same(folder: Path) -> None:
    before = content(folder)
    for links, overwrite, message in (
        ("p.tsv", True, READ),
        ("m/config.json", True, READ),
        ("user/heads.csv", False, "user/heads.csv exists; add --overwrite"),
    ):
        with pytest.raises(InputError, match=message):
            align("m", "p.tsv", heads="h.json", links=links, overwrite=overwrite)
    assert content(folder) == before


@pytest.mark.parametrize("failing", ["save", "result", None])
def test_links_of_a_corpus_appear_together_with_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str | None
) -> None:
    random_models.marian().save_pretrained(tmp_path / "model")
    tokenizer().save_pretrained(tmp_path / "model")
    pairs, links, out = tmp_path / "p.tsv", tmp_path / "links", tmp_path / "out"
    pairs.write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS))
    given: dict[str, Any] = {"quick": True}
    align(tmp_path / "model", pairs, **given).save(tmp_path / "chosen")
    heads = tmp_path / "chosen" / "heads.json"
    saved, seen = Result.save, []

    def save(self: Result, folder: Path, **options: Any) -> Path:
        seen.append(links.exists())
        if failing == "save":
            raise KeyError
        return saved(self, folder, **options)

    def fail(*_: object, **__: object) -> None:
        raise KeyError

    monkeypatch.setattr(Result, "save", save)
    if failing == "result":
        monkeypatch.setattr(aligning, "_result", fail)
        with pytest.raises(KeyError):
            align(tmp_path / "model", pairs, heads=heads, links=links)
    before = sorted(tmp_path.iterdir())
    words = [
        "align",
        tmp_path / "model",
        "--pairs",
        pairs,
        "--heads",
        heads,
        "--links",
        links,
        "--out",
        out,
    ]
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert not any(seen)
    if failing is None:
        assert done.exit_code == 0, done.exception
        assert links.exists()
        assert (out / "result.json").exists()
    else:
        assert isinstance(done.exception, KeyError)
        assert sorted(tmp_path.iterdir()) == before
