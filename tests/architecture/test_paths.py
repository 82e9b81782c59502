"""Every public function that takes a path takes it as text too."""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import attnlab
from attnlab.attention import load_plan, load_with_plan, plan_of, write_plan
from attnlab.core import files, texts
from attnlab.core.errors import AttnlabError
from attnlab.evaluation import sources
from attnlab.labels.treebank import load_treebank
from attnlab.models import run_folder
from attnlab.models.tokenizer import load_tokenizers
from attnlab.reading import keeping, matrix_files
from attnlab.reading import matrix_files as matrix_source
from attnlab.results.question import question_named
from attnlab.results.result_files import check_free, files_of

# The steps of reading a corpus and of training, which take the paths that `train` made.
INNER = re.compile(r"attnlab\.(cli|corpora|grammar|models\.(?!tokenizer))")


def public_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in attnlab.__all__:
        if inspect.isfunction(found := getattr(attnlab, name)):
            yield f"attnlab.{name}", found
    for module in pkgutil.walk_packages(attnlab.__path__, "attnlab."):
        if INNER.match(module.name) or module.name == "attnlab.__main__":
            continue
        for name, found in vars(importlib.import_module(module.name)).items():
            if getattr(found, "__module__", None) != module.name or name.startswith("_"):
                continue
            if inspect.isclass(found):
                members = {key: one for key, one in vars(found).items() if not key.startswith("_")}
                functions = {f"{name}.{key}": inspect.unwrap(one) for key, one in members.items()
                             if inspect.isfunction(one)}  # fmt: skip
            else:
                functions = {name: found} if inspect.isfunction(found) else {}
            yield from ((f"{module.name}.{key}", one) for key, one in functions.items())


def test_signatures_name_both_kinds() -> None:
    paths = 0
    for name, function in public_functions():
        for parameter in inspect.signature(function).parameters.values():
            kinds = inspect.formatannotation(parameter.annotation)
            # What a function that is handed in takes is its own affair.
            if re.search(r"\bPath\b", kinds) and "Callable" not in kinds:
                paths += 1
                assert re.search(r"\bstr\b", kinds), f"{name} takes {parameter.name} as Path alone"
    assert paths > 40


READERS: dict[str, Callable[[Any], object]] = {
    "load": attnlab.load,
    "analyze": attnlab.analyze,
    "analyze text": lambda path: attnlab.analyze(("model", "tokenizer"), text=path),
    "analyze treebank": lambda path: attnlab.analyze(("model", "tokenizer"), treebank=path),
    "compare": lambda path: attnlab.compare(path, [5]),
    "importance": attnlab.importance,
    "prune": attnlab.prune,
    "resume": attnlab.resume,
    "load_plan": load_plan,
    "load_with_plan": load_with_plan,
    "kept load_matrices": keeping.load_kept_matrices,
    "load_matrices": matrix_files.load_matrices,
    "load_arrays": matrix_files.load_arrays,
    "load_matrix_source": matrix_source.load_matrix_source,
    "load_treebank": load_treebank,
    "read_texts": sources.read_texts,
    "read_lines": texts.read_lines,
    "read_text": texts.read_text,
    "iterate_lines": lambda path: list(texts.iterate_lines(path)),
    "read_record": run_folder.read_record,
    "load_tokenizers": load_tokenizers,
}


@pytest.mark.parametrize("name", READERS)
def test_what_is_absent_is_refused_in_the_same_words(tmp_path: Path, name: str) -> None:
    absent, told = tmp_path / "absent.npy", []
    for path in (absent, str(absent)):
        with pytest.raises(AttnlabError) as raised:
            READERS[name](path)
        told.append(str(raised.value))
    assert told[0] == told[1]


def test_what_is_written_to_a_text_is_read_from_a_path(tmp_path: Path) -> None:
    plan = plan_of({"encoder": "band(window=3)"})
    files.write_text(str(tmp_path / "a.txt"), "one\ntwo")
    assert texts.read_lines(str(tmp_path / "a.txt")) == texts.read_lines(tmp_path / "a.txt")
    assert sources.read_texts(str(tmp_path / "a.txt")) == ("one", "two")
    files.write_json(str(tmp_path / "a.json"), {})
    keeping.KeptMatrices().write(str(tmp_path / "m.safetensors"))
    assert keeping.holds_kept_matrices(str(tmp_path / "m.safetensors"))
    assert keeping.load_kept_matrices(str(tmp_path / "m.safetensors")).matrices == {}
    write_plan(str(tmp_path / "plan.json"), plan)
    assert load_plan(str(tmp_path / "plan.json")).as_dict() == plan.as_dict()
    of_plan = files_of(question_named("plan"))
    check_free(str(tmp_path), of_plan, (), overwrite=False)
