"""What is no regular file is refused at once, wherever it stands in the place of one."""

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from zoo import random_models

from attnlab.core.documents import read_json
from attnlab.core.errors import InputError
from attnlab.core.files import check_files_in, file_checksum, open_regular
from attnlab.core.texts import read_lines
from attnlab.corpora.corpus import load_corpus
from attnlab.evaluation.sources import model_and_texts, read_texts
from attnlab.labels.treebank import load_treebank
from attnlab.models.embeddings import load_embeddings
from attnlab.models.opening import load_transformers
from attnlab.reading.matrix_files import load_matrices
from attnlab.results.csv_tables import read_any_table

READERS: dict[str, Callable[[Path], object]] = {
    "a.csv": lambda path: read_any_table(path, advice="make it again"),
    "a.json": lambda path: read_json(path, dict),
    "a.txt": read_texts,
    "a.txt.gz": read_lines,
    "a.npy": load_matrices,
    "a.npz": load_matrices,
    "a.safetensors": load_matrices,
    "a.vec": load_embeddings,
    "a.conllu": load_treebank,
    "a.tsv": lambda path: load_corpus(str(path)),
    "a.bin": file_checksum,
}


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(("make", "kind"), [(_pipe, "a named pipe"), (_zeros, "a device")])
def test_no_reader_opens_what_is_no_file(
    tmp_path: Path, name: str, make: Callable[[Path], None], kind: str
) -> None:
    make(tmp_path / name)
    with pytest.raises(InputError, match=f"{name} is {kind} and no regular file"):
        READERS[name](tmp_path / name)


@pytest.mark.parametrize(
    "name",
    ["config.json", "generation_config.json", "model.safetensors", "token_counts.json",
     "tokenizer.json", "settings.json"],
)  # fmt: skip
@pytest.mark.parametrize("make", [_pipe, _zeros])
def test_no_file_of_a_run_is_opened_either(
    copied_run: Path, name: str, make: Callable[[Path], None]
) -> None:
    (copied_run / name).unlink()
    make(copied_run / name)
    with pytest.raises(InputError):
        model_and_texts(copied_run, sentences=("Maria sleeps.",))


SHARDS = {
    "beside the folder": ("../a.safetensors", "names '../a.safetensors', outside its folder"),
    "above and back": ("x/../../a.safetensors", "outside its folder"),
    "absolute": ("/a.safetensors", "names '/a.safetensors', outside its folder"),
    "a pipe": ("sub/pipe.safetensors", "pipe.safetensors is a named pipe and no regular file"),
}


@pytest.mark.parametrize("shard", SHARDS)
@pytest.mark.parametrize(
    "named_by", ["model.safetensors.index.json", "pytorch_model.bin.index.json", "config"]
)
def test_weights_are_read_from_regular_files_inside_the_folder(
    shard: str, named_by: str, tmp_path: Path
) -> None:
    name, expected = SHARDS[shard]
    random_models.bert().save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    if named_by == "config":
        (tmp_path / "config.json").write_text(json.dumps({**config, "transformers_weights": name}))
    else:
        index = {"metadata": {}, "weight_map": {"embeddings.word_embeddings.weight": name}}
        (tmp_path / named_by).write_text(json.dumps(index))
    (tmp_path / "sub").mkdir()
    os.mkfifo(tmp_path / "sub" / "pipe.safetensors")
    with pytest.raises(InputError, match=expected):
        load_transformers(tmp_path, scores=False, tokenizes=False)


def test_shards_of_an_index_are_read(tmp_path: Path) -> None:
    model = random_models.bert()
    model.save_pretrained(tmp_path, max_shard_size="2KB")
    assert (tmp_path / "model.safetensors.index.json").exists()
    found = load_transformers(tmp_path, scores=False, tokenizes=False).model.state_dict()
    torch.testing.assert_close(found, model.state_dict())


def test_a_socket_and_a_folder_are_named_as_such(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        with pytest.raises(InputError, match="s is a socket and no regular file"):
            open_regular(tmp_path / "s")
    with pytest.raises(InputError, match="is a folder and no regular file"):
        open_regular(tmp_path)


def test_links_to_files_are_followed_and_those_to_nothing_are_missing(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    (tmp_path / "b").symlink_to("a")
    with open_regular(tmp_path / "b") as file:
        assert file.read() == b"abc"
    (tmp_path / "c").symlink_to("nothing")
    check_files_in(tmp_path)
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "c")


def test_a_file_beyond_the_limit_is_refused_unread(tmp_path: Path) -> None:
    with (tmp_path / "large.csv").open("wb") as file:
        file.truncate(10**12)
    with pytest.raises(InputError, match=r"has 1,000,000,000,000 bytes, more than the 200,000,000"):
        read_any_table(tmp_path / "large.csv", advice="make it again")
