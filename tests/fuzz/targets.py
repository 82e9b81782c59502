"""What attnlab reads: for each kind a folder with whole files, and the function that opens it."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from huggingface_hub import constants
from made_alignment import alignment
from scipy.io import wavfile
from small_run import write_pairs
from transformers import MistralConfig, MistralForCausalLM, PreTrainedModel
from zoo.random_models import (
    IDS,
    PAIRS,
    TYPES,
    marian,
    seeded,
    tokenizer,
    whisper,
    whisper_tokenizer,
)

from attnlab import check, detect, rollout
from attnlab.alignment import (
    AlignmentHeads,
    read_heads,
    read_links,
    read_pairs,
    write_heads,
)
from attnlab.attention.plan import load_plan, plan_of, write_plan
from attnlab.cli.commands.train import _read_settings
from attnlab.core import hub, quiet
from attnlab.core.files import write_json, write_tensors
from attnlab.corpora.corpus import load_corpus
from attnlab.evaluation.sources import model_and_texts, read_texts
from attnlab.grammar.embedded import draw_pairs
from attnlab.grammar.trees import conllu
from attnlab.labels.treebank import load_treebank
from attnlab.models import export_layer_types, model_of
from attnlab.models.checkpoints import beginning, best_checkpoint, check_epochs
from attnlab.models.embeddings import Embeddings, load_embeddings, write_embeddings
from attnlab.models.loaded import Model
from attnlab.models.run import Run
from attnlab.models.run_folder import read_record as read_settings
from attnlab.models.tokenizer import load_tokenizers
from attnlab.models.training_settings import settings_from
from attnlab.models.translating import translate
from attnlab.questions.analyze.analysis import analyze
from attnlab.questions.approximate.approximation import approximate
from attnlab.reading.audio import read_audio_file
from attnlab.reading.capture import capture
from attnlab.reading.keeping import KeptMatrices
from attnlab.reading.matrix_files import load_arrays, load_kept_source, load_matrix_source
from attnlab.results import Result
from attnlab.results import result as result_module
from attnlab.results.report import write_report
from attnlab.results.result_files import PAGE, RECORD
from attnlab.studies.computing import Outcome
from attnlab.studies.running import PLAN, cell_folder, collect, write_cell
from attnlab.studies.study import Cell, Plan

SENTENCE = "Maria sleeps."


@dataclass(frozen=True)
class Target:
    """Files and what opens them.

    Attributes:
        folder: with whole files.
        files: those that are damaged, one at a time.
        open: reads the folder, which is a copy.
        weight: how often it is taken, in proportion.
    """

    folder: Path
    files: tuple[str, ...]
    open: Callable[[Path], object]
    weight: int = 1


def targets(run: Path, scratch: Path, *, pages: bool) -> Mapping[str, Target]:
    """All kinds of files by name.

    Args:
        run: a small run of a translation model.
        scratch: folder for the files of all others.
        pages: whether pages of results are drawn, which takes seconds, or their files read alone.
    """
    found = {"run": _run(run), "checkpoint": _checkpoint(run)}
    with pytest.MonkeyPatch.context() as patch:
        if not pages:
            for module, drawn in _DRAWN.items():
                patch.setattr(module, drawn, _no_page)
        for name, make in MAKERS.items():
            (scratch / name).mkdir(parents=True)
            found[name] = make(scratch / name)
    if not pages:
        for name in ("analysis", "approximation", "alignment", "detection", "rollout", "check"):
            found[name] = replace(found[name], open=Result.load)
    return found


_DRAWN = {result_module: "write_contents"}


def _no_page(folder: Path, *_: object, **__: object) -> Path:
    (folder / PAGE).touch()
    return folder / PAGE


def _run(run: Path) -> Target:
    def use(folder: Path) -> None:
        model, _ = model_and_texts(folder, sentences=(SENTENCE,))
        assert isinstance(model, Run)
        translate(model.translator, model.tokenizers, [SENTENCE], beams=1, max_tokens=12)

    files = (
        "settings.json", "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
        "token_counts.json", "metrics.jsonl", "model.safetensors",
    )  # fmt: skip
    return Target(run, files, use, 6)


def _checkpoint(run: Path) -> Target:
    def use(folder: Path) -> None:
        settings = settings_from(read_settings(folder)["settings"])
        found = beginning(folder, settings.model, load_tokenizers(folder))
        assert found.checkpoint is not None
        best_checkpoint(found.checkpoint)
        check_epochs(folder, found.checkpoint, 100)

    newest = max((run / "checkpoints").iterdir(), key=lambda path: int(path.name[11:]))
    names = (
        "trainer_state.json",
        "model.safetensors",
        "config.json",
        "optimizer.pt",
        "scheduler.pt",
    )
    return Target(run, tuple(f"checkpoints/{newest.name}/{name}" for name in names), use, 2)


def _plan(folder: Path) -> Target:
    plan = plan_of({"encoder": "band(window=3)", "decoder.0.1": "keys(tokens=[3], first=1)"})
    write_plan(folder / "plan.json", plan.for_tokenizer("abc"))
    return Target(folder, ("plan.json",), lambda at: load_plan(at / "plan.json"), 2)


def _settings(folder: Path) -> Target:
    text = (
        '[corpus]\nname = "embedded"\nlimit = 3\nlowercase = true\n\n[model]\nheads = 4\ndropout = 0.1\n'
        'attention = {encoder = "band(window=3)"}\n\n[optimizer]\nseed = 3\nlearning_rate = 1e-3\n'
    )
    (folder / "settings.toml").write_text(text)
    return Target(
        folder,
        ("settings.toml",),
        lambda at: settings_from(_read_settings(at / "settings.toml")),
        2,
    )


def _weights(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(0)).softmax(-1)


def _analysis(folder: Path) -> Target:
    np.save(folder / "two.npy", _weights(2, 1, 2, 5, 5).numpy())
    analyze(folder / "two.npy").save(folder)

    files = tuple(path.name for path in folder.glob("*.csv"))
    return Target(folder, (*files, *(RECORD, "matrices.safetensors") * 2), write_report, 1)


def _approximation(folder: Path) -> Target:
    approximate(_weights(2, 4, 4)).save(folder)
    return Target(folder, (RECORD, "approximation.csv"), write_report, 2)


def _kept(folder: Path) -> Target:
    path = folder / "matrices.safetensors"
    tokens = (["<s>", "a", "</s>"], ["<s>", "a", "</s>"])
    KeptMatrices(
        {(0, "encoder", layer): _weights(2, 3, 3) for layer in range(2)},
        {(0, "encoder"): tokens},
        frozenset(),
        {(0, "encoder"): ("owc", "owc")},
    ).write(path)

    def use(at: Path) -> None:
        load_arrays(at / path.name)
        load_kept_source(at / path.name)

    return Target(folder, (path.name,), use, 2)


def _matrices(folder: Path) -> Target:
    weights = _weights(1, 2, 3, 3).numpy()
    np.save(folder / "a.npy", weights)
    np.savez(folder / "a.npz", a=weights)
    np.savez_compressed(folder / "b.npz", a=weights)
    write_tensors(folder / "a.safetensors", {"a": torch.tensor(weights)})
    files = ("a.npy", "a.npz", "b.npz", "a.safetensors")
    return Target(folder, files, lambda at: [load_matrix_source(at / name) for name in files], 2)


def _embeddings(folder: Path) -> Target:
    write_embeddings(folder, Embeddings(("a", "b", "é"), _weights(3, 4)))

    def use(at: Path) -> None:
        load_embeddings(at)
        load_embeddings(at / "embeddings.txt")

    return Target(folder, ("embeddings.safetensors", "embeddings.txt"), use, 2)


def _audio(folder: Path) -> Target:
    model = Model(whisper(), whisper_tokenizer())
    samples = np.random.default_rng(0).integers(-9000, 9000, 1600).astype(np.int16)
    wavfile.write(folder / "a.wav", 16_000, samples)
    np.save(folder / "a.npy", _weights(7, 40).numpy())

    def use(at: Path) -> None:
        for name in ("a.wav", "a.npy"):
            read_audio_file(at / name, model)

    return Target(folder, ("a.wav", "a.npy"), use, 2)


def _treebank(folder: Path) -> Target:
    trees = [conllu(pair.target_tree) for pair in draw_pairs(4, seed=0)]
    (folder / "trees.conllu").write_text("\n".join(trees), encoding="utf-8")
    return Target(folder, ("trees.conllu",), lambda at: load_treebank(at / "trees.conllu"), 2)


def _links(folder: Path) -> Target:
    pairs = [(("a", "b", "c"), ("d", "e")), (("f", "g"), ("h", "i"))]
    texts = [(" ".join(source), " ".join(target)) for source, target in pairs]
    write_pairs(folder / "pairs.tsv", texts)
    (folder / "a.pharaoh").write_text("0-0 1p1 2-1\n0-0 1-1\n")
    (folder / "a.naacl").write_text("1 1 1 S\n1 2 2 P 0.5\n2 1 1\n")
    rows = zip(texts, ("0-0 2-1", "0-0 1p1"), strict=True)
    (folder / "a.tsv").write_text("".join(f"{one}\t{other}\t{it}\n" for (one, other), it in rows))
    head = "# Sentence pair (1) source length 2 target length 2 alignment score : 0.1\n"
    (folder / "a.A3.final").write_text(f"{head}d e\nNULL ({{ }}) a ({{ 1 }}) b ({{ 2 }})\n")

    def use(at: Path) -> None:
        for name in ("a.pharaoh", "a.naacl"):
            list(read_links(at / name, read_pairs(at / "pairs.tsv")))
        for name in ("a.tsv", "a.A3.final"):
            list(read_links(at / name))

    files = ("pairs.tsv", "a.pharaoh", "a.naacl", "a.tsv", "a.A3.final")
    return Target(folder, files, use, 3)


def _heads(folder: Path) -> Target:
    heads = AlignmentHeads(
        heads=((0, 1), (1, 0)), row="input", from_word="mean", rule="target", layers=2, heads_per_layer=2,
        model="m", checksum="ab" * 32, chosen_by="gold links", sentences=3,
    )  # fmt: skip
    write_heads(folder / "heads.json", heads)
    return Target(folder, ("heads.json",), lambda at: read_heads(at / "heads.json"))


def _result(result: Result, folder: Path) -> Target:
    result.save(folder)
    files = tuple(path.name for path in (*folder.glob("*.csv"), *folder.glob("*.safetensors")))
    return Target(folder, (*files, *(RECORD,) * 3), write_report, 2)


def _alignment(folder: Path) -> Target:
    return _result(alignment(), folder)


def _detection(folder: Path) -> Target:
    return _result(detect((marian(), tokenizer()), sentences=PAIRS, sequences=2), folder)


def _rollout(folder: Path) -> Target:
    return _result(rollout((marian(), tokenizer()), *PAIRS[0]), folder)


def _check(folder: Path) -> Target:
    return _result(check(_mistral()), folder)


def _mistral() -> PreTrainedModel:
    config = MistralConfig(
        vocab_size=TYPES, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, intermediate_size=4, max_position_embeddings=37, sliding_window=None, **IDS,
    )  # fmt: skip
    return seeded(lambda: MistralForCausalLM(config))


def _saved(model: PreTrainedModel, folder: Path) -> tuple[str, ...]:
    """Writes a model as a hub has it; returns the names of its files."""
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return tuple(path.name for path in folder.iterdir())


def _pretrained(folder: Path) -> Target:
    def use(at: Path) -> None:
        with quiet():
            capture(at, [(SENTENCE, SENTENCE)])

    return Target(folder, _saved(marian(), folder), use, 2)


def _checked(folder: Path) -> Target:
    """What `attnlab check` is given."""

    def use(at: Path) -> None:
        with quiet():
            check(at)

    return Target(folder, _saved(_mistral(), folder), use)


def _exported(folder: Path) -> Target:
    """What `attnlab export` is given."""
    names = _saved(_mistral(), folder / "model")
    write_plan(folder / "plan.json", plan_of({"decoder.0": "band(window=3)"}))

    def use(at: Path) -> None:
        plan = load_plan(at / "plan.json")
        with quiet(), TemporaryDirectory() as out:
            export_layer_types(model_of(at / "model"), plan, out)

    return Target(folder, (*(f"model/{name}" for name in names), *("plan.json",) * 4), use)


def _downloaded(folder: Path) -> Target:
    """A model of the hub in the cache of huggingface_hub, used without a network."""
    within = Path("models--owner--name")
    snapshot = within / "snapshots" / ("a" * 40)
    names = _saved(_mistral(), folder / snapshot)
    (folder / within / "refs").mkdir()
    (folder / within / "refs" / "main").write_text(snapshot.name)

    def use(at: Path) -> None:
        with quiet(), pytest.MonkeyPatch.context() as patch:
            patch.setattr(constants, "HF_HUB_CACHE", str(at))
            patch.setattr(hub, "hub_answers", lambda: False)
            capture("owner/name", [SENTENCE])

    files = (*(str(snapshot / name) for name in names), *(str(within / "refs" / "main"),) * 3)
    return Target(folder, files, use)


def _study(folder: Path) -> Target:
    cells = tuple(Cell("toy", 1, {"number": number, "name": "x"}) for number in range(2))
    write_json(folder / PLAN, asdict(Plan("toy", {"count": 2}, cells)))
    rows = "a,b\n1,2.5\n"
    checksum = sha256(rows.encode()).hexdigest()
    write_cell(folder, Outcome(cells[0], rows, checksum, seconds=1.5, versions={"torch": "2"}))
    one = cell_folder(folder, cells[0]).relative_to(folder)
    files = ("study.json", f"{one}/cell.json", f"{one}/rows.csv")
    return Target(folder, files, lambda path: collect(path).table, 2)


def _corpus(folder: Path) -> Target:
    rows = [(f"a {number} b", f"c {number} d") for number in range(40)]
    write_pairs(folder / "en-it.train.tsv", rows)
    lines = [json.dumps({"translation": {"en": one, "it": other}}) for one, other in rows]
    (folder / "all.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "lines").mkdir()
    for number, language in enumerate(("en", "it")):
        text = "".join(f"{row[number]}\n" for row in rows)
        (folder / "lines" / f"train.{language}").write_text(text)
    files = ("en-it.train.tsv", "all.jsonl", "lines/train.en", "lines/train.it")

    def use(at: Path) -> None:
        for name in ("en-it.train.tsv", "all.jsonl", "lines"):
            load_corpus(str(at / name))

    return Target(folder, files, use, 2)


def _texts(folder: Path) -> Target:
    (folder / "a.txt").write_text("A cat sleeps.\tUn gatto dorme.\nTwo.\tDue.\n")
    return Target(folder, ("a.txt",), lambda at: read_texts(at / "a.txt"))


MAKERS: Mapping[str, Callable[[Path], Target]] = {
    "plan": _plan,
    "settings": _settings,
    "analysis": _analysis,
    "approximation": _approximation,
    "kept matrices": _kept,
    "matrices": _matrices,
    "embeddings": _embeddings,
    "audio": _audio,
    "treebank": _treebank,
    "links": _links,
    "heads": _heads,
    "alignment": _alignment,
    "detection": _detection,
    "rollout": _rollout,
    "check": _check,
    "pretrained model": _pretrained,
    "checked model": _checked,
    "exported model": _exported,
    "downloaded model": _downloaded,
    "study": _study,
    "corpus": _corpus,
    "texts": _texts,
}
