"""No code that comes with a model is executed, and nobody is asked whether it may be."""

import ast
import builtins
import json
from pathlib import Path

import pytest
from transformers import AutoTokenizer
from zoo import random_models

from attnlab.attention.bridge.saved import saved_plan
from attnlab.core.errors import InputError
from attnlab.core.pretrained import read_pretrained
from attnlab.evaluation.sources import model_and_texts

ROOT = Path(__file__).resolve().parents[2]
FILES = [path for top in ("attnlab", "experiments") for path in sorted((ROOT / top).rglob("*.py"))]
READERS = {
    "from_pretrained",
    "from_config",
    "get_class_from_dynamic_module",
    "load_custom_generate",
}


def calls_in(path: Path) -> list[ast.Call]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


def words_of(call: ast.Call) -> dict[str | None, object]:
    return {word.arg: getattr(word.value, "value", word.value) for word in call.keywords}


@pytest.mark.slow
def test_one_file_alone_reads_files_of_models_and_refuses_their_code() -> None:
    found = [
        (path.relative_to(ROOT).as_posix(), words_of(call))
        for path in FILES
        for call in calls_in(path)
        if isinstance(call.func, ast.Attribute) and call.func.attr in READERS
    ]
    # What is read, and the same model without numbers, which tells its size.
    assert [path for path, _ in found] == ["attnlab/core/pretrained.py"] * 2
    assert all(words["trust_remote_code"] is False for _, words in found)


def test_foreign_code_is_nowhere_switched_on() -> None:
    names = {
        "trust_remote_code",
        "allow_all_kernels",
        "use_kernels",
        "kernel_config",
        "allow_pickle",
    }
    for path in FILES:
        for call in calls_in(path):
            assert not any(
                value is not False for name, value in words_of(call).items() if name in names
            )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model with code that would leave a file behind, where nobody answers questions."""
    random_models.ALL["bert"]().save_pretrained(tmp_path)
    random_models.tokenizer().save_pretrained(tmp_path)
    code = f"from pathlib import Path\nPath({str(tmp_path / 'executed')!r}).touch()\nclass Evil: pass\n"
    (tmp_path / "evil.py").write_text(code, encoding="utf-8")

    def asked(*_: object) -> str:
        pytest.fail("a question was asked")

    monkeypatch.setattr(builtins, "input", asked)
    return tmp_path


def put(path: Path, **values: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | values), encoding="utf-8")


EVIL = {"AutoConfig": "evil.Evil", "AutoModel": "evil.Evil", "AutoModelForMaskedLM": "evil.Evil"}


def test_code_for_an_unknown_model_is_refused(folder: Path) -> None:
    put(folder / "config.json", model_type="evil", auto_map=EVIL)
    with pytest.raises(InputError, match="No model could be loaded from"):
        model_and_texts(folder, sentences=["the cat runs ."])
    with pytest.raises(InputError):
        saved_plan(folder)
    assert not (folder / "executed").exists()


def test_code_beside_a_model_that_transformers_knows_is_left_alone(folder: Path) -> None:
    put(folder / "config.json", auto_map=EVIL)
    put(folder / "tokenizer_config.json", auto_map={"AutoTokenizer": ["evil.Evil", "evil.Evil"]})
    model, _ = model_and_texts(folder, sentences=["the cat runs ."])
    assert type(model.model).__module__.startswith("transformers.")
    read_pretrained(AutoTokenizer, folder)
    assert not (folder / "executed").exists()


@pytest.mark.parametrize(
    "name", ["evil/attention", "kernels-community/flash-attn", "flash_attention_2"]
)
def test_attention_from_the_hub_is_refused(folder: Path, name: str) -> None:
    put(folder / "config.json", attn_implementation=name)
    with pytest.raises(InputError, match=f"names '{name}' as the code of its attention"):
        model_and_texts(folder, sentences=["the cat runs ."])
