"""JoeyNMT: its training loop on the same ids, and its search with attnlab's weights.

Its vocabulary has the unknown type before padding, attnlab's behind it; those two change places.
"""

import json
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from experiments.peers.inputs import BATCH_TOKENS, MOST_TOKENS, WARM_UP
from experiments.peers.serving import Describe, Prepare, Work, serve

SPECIAL = {
    "unk_token": "<unk>", "pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>",
    "unk_id": 0, "pad_id": 1, "bos_id": 2, "eos_id": 3, "sep_token": None, "lang_tags": [],
}  # fmt: skip
PAD, END = SPECIAL["pad_id"], SPECIAL["eos_id"]
# Parts of attnlab's names and JoeyNMT's, by stack.
SHARED = {
    ".query.": ".q_layer.", ".key.": ".k_layer.", ".value.": ".v_layer.", ".output.": ".output_layer.",
    ".feed_forward.inner.": ".feed_forward.pwff_layer.0.",
    ".feed_forward.outer.": ".feed_forward.pwff_layer.3.",
    ".after_feed_forward.norm.": ".feed_forward.layer_norm.",
}  # fmt: skip
NAMES = {
    "encoder": SHARED | {".attention.": ".src_src_att.", ".after_attention.norm.": ".layer_norm."},
    "decoder": SHARED
    | {".attention.": ".trg_trg_att.", ".after_attention.norm.": ".x_layer_norm."}
    | {".cross.": ".src_trg_att.", ".after_cross.norm.": ".dec_layer_norm."},
}
TABLES = ("src_embed.lut.weight", "trg_embed.lut.weight", "decoder.output_layer.weight")


def exchanged(ids: Any) -> Any:
    """Ids of the other vocabulary: 0 and 1 change places."""
    return torch.where(ids < 2, 1 - ids, ids)


def words_of(vocabulary: int) -> list[str]:
    """A word for each type behind the special ones."""
    return [f"t{number}" for number in range(4, vocabulary)]


def model_settings(shape: Mapping[str, Any]) -> dict[str, Any]:
    """JoeyNMT's section `model` of a shape of attnlab's."""
    stack = {
        "type": "transformer", "num_layers": shape["layers"], "num_heads": shape["heads"],
        "hidden_size": shape["dim"], "ff_size": shape["feed_forward"], "dropout": shape["dropout"],
        "layer_norm": "post", "embeddings": {"embedding_dim": shape["dim"], "scale": True},
    }  # fmt: skip
    return {"tied_embeddings": True, "tied_softmax": True, "encoder": stack, "decoder": stack}


def load(folder: Path, shape: Mapping[str, Any]) -> Any:
    """The model with attnlab's weights, in eval mode."""
    from joeynmt.model import build_model
    from joeynmt.vocabulary import Vocabulary
    from safetensors.torch import load_file

    vocabulary = Vocabulary(words_of(shape["vocabulary"]), SimpleNamespace(**SPECIAL))
    model = build_model(model_settings(shape), vocabulary, vocabulary)
    weights = renamed(load_file(folder / "run" / "model.safetensors"))
    missing, unexpected = model.load_state_dict(weights, strict=False)
    if unexpected or any(not name.endswith(".pe") for name in missing):
        msg = f"The weights do not fit: {missing} are missing, {unexpected} are not known."
        raise ValueError(msg)
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = 1e-5
    model.loss_function = ("crossentropy", 0.0)
    return model.eval()


def renamed(weights: Mapping[str, Any]) -> dict[str, Any]:
    """The weights of attnlab under the names of JoeyNMT."""
    table = weights["decoder.embedding.tokens.weight"]
    found = dict.fromkeys(TABLES, table[exchanged(torch.arange(len(table)))])
    for name, weight in weights.items():
        if ".layers." in name:
            theirs = name
            for part, other in NAMES[name.partition(".")[0]].items():
                theirs = theirs.replace(part, other)
            found[theirs] = weight
    return found


def read(folder: Path) -> dict[str, Any]:
    """Shape of the model, and the ids of its text."""
    text = (folder / "translation.json").read_text(encoding="utf-8")
    inputs: dict[str, Any] = json.loads(text)
    return inputs


def batches_of(rows: list[list[int]], beams: int) -> list[list[int]]:
    """Numbers of sentences of similar length, as attnlab batches them."""
    order = sorted(range(len(rows)), key=lambda number: len(rows[number]))
    batches: list[list[int]] = [[]]
    for number in order:
        if (len(batches[-1]) + 1) * len(rows[number]) * beams > BATCH_TOKENS:
            batches.append([])
        batches[-1].append(number)
    return batches


def batch_of(source: list[list[int]], target: list[list[int]] | None = None) -> Any:
    """A batch of JoeyNMT."""
    from joeynmt.batch import Batch

    return Batch(
        exchanged(_padded(source)), torch.tensor([len(row) for row in source]), None,
        None if target is None else exchanged(_padded([[2, *row] for row in target])), None,
        torch.arange(len(source)), torch.device("cpu"), PAD, END, is_train=False,
    )  # fmt: skip


def _padded(rows: list[list[int]]) -> Any:
    # 0 is attnlab's padding.
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows])


def losses(folder: Path) -> Work:
    """The loss of each test sentence in nats, summed over its tokens."""
    inputs = read(folder)
    model = load(folder, inputs["shape"])

    @torch.inference_mode()
    def work() -> Describe:
        sums = [
            model(return_type="loss", **vars(batch_of([source], [target])))[0].item()
            for source, target in zip(*inputs["test"], strict=True)
        ]
        return lambda: {"losses": torch.tensor(sums).numpy()}

    return work


def decoding(beams: int) -> Prepare:
    """Translations of the test sentences."""

    def prepare(folder: Path) -> Work:
        from joeynmt.search import search

        inputs = read(folder)
        model, source = load(folder, inputs["shape"]), inputs["test"][0]

        def work() -> Describe:
            written: dict[int, Any] = {}
            for batch in batches_of(source, beams):
                ids, _, _ = search(
                    model,
                    batch_of([source[number] for number in batch]),
                    MOST_TOKENS - 1,
                    beams,
                    1.0,
                )
                written |= dict(zip(batch, ids, strict=True))
            return lambda: described(written)

        return work

    return prepare


def described(written: Mapping[int, Any]) -> dict[str, Any]:
    """The ids of each translation up to its end, and how many there are."""
    rows = {}
    for number, ids in written.items():
        ends = (ids == END).nonzero()[0]
        rows[str(number)] = exchanged(torch.tensor(ids[: ends[0]] if len(ends) else ids)).numpy()
    return {"units": len(rows)} | rows


def training(folder: Path) -> Work:
    """An epoch of its own training, as `joeynmt train` goes; the first steps are not counted."""
    from joeynmt import training as loop

    inputs = read(folder)
    starts: list[tuple[float, float, int]] = []
    step = loop.TrainManager._train_step  # noqa: SLF001 - where a step begins

    def watched(self: Any, batch: Any) -> Any:
        starts.append((time.process_time(), time.perf_counter(), batch.ntokens))
        return step(self, batch)

    loop.TrainManager._train_step = watched  # noqa: SLF001 - as above

    def work() -> Describe:
        starts.clear()
        with tempfile.TemporaryDirectory() as made:
            loop.train(0, None, settings(Path(made), inputs), skip_test=True)
        first, last = starts[WARM_UP], starts[-1]
        return lambda: {
            "cpu_seconds": last[0] - first[0],
            "seconds": last[1] - first[1],
            "units": sum(tokens for _, _, tokens in starts[WARM_UP:-1]),
        }

    return work


def settings(made: Path, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration of JoeyNMT, and the files that it names."""
    shape = inputs["shape"]
    (made / "model").mkdir()
    (made / "vocabulary.txt").write_text(
        "\n".join(["<unk>", "<pad>", "<s>", "</s>", *words_of(shape["vocabulary"])]) + "\n",
        encoding="utf-8",
    )
    for language, rows in zip(("src", "trg"), inputs["train"], strict=True):
        lines = [" ".join(f"t{number}" for number in row if number > 3) for row in rows]
        for part, some in (("train", lines), ("dev", lines[:20])):
            (made / f"{part}.{language}").write_text("\n".join(some) + "\n", encoding="utf-8")
    side = {
        "level": "word", "voc_file": str(made / "vocabulary.txt"), "max_length": MOST_TOKENS,
        "lowercase": False,
    }  # fmt: skip
    return {
        "name": "peers", "joeynmt_version": "2.3.0", "model_dir": str(made / "model"),
        "use_cuda": False, "fp16": False, "random_seed": 1,
        "data": {
            "train": str(made / "train"), "dev": str(made / "dev"), "dataset_type": "plain",
            "src": side | {"lang": "src"}, "trg": side | {"lang": "trg"}, "special_symbols": SPECIAL,
        },
        "model": model_settings(shape),
        "training": {
            "optimizer": "adamw", "learning_rate": 0.001, "scheduling": "noam",
            "learning_rate_warmup": 400, "clip_grad_norm": 1.0, "epochs": 1,
            "label_smoothing": 0.1, "batch_size": BATCH_TOKENS, "batch_type": "token",
            "normalization": "tokens", "validation_freq": 10**6, "logging_freq": 10**6,
            "early_stopping_metric": "loss", "overwrite": True,
        },
        "testing": {"beam_size": 1, "batch_size": 32, "eval_metrics": ["bleu"]},
    }  # fmt: skip


if __name__ == "__main__":
    serve({
        "losses": losses, "greedy": decoding(1), "beam": decoding(5), "training": training
    })  # fmt: skip
