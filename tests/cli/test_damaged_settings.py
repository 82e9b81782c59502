"""A run whose settings.json holds something else: every command says so in one sentence, and how to go on."""

import json
import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from grids import slow
from small_run import snapshot

from attnlab.models import configuration
from attnlab.models.run_folder import is_run
from attnlab.models.training_settings import OWN_TYPES

# What begins no sentence of attnlab's.
FOREIGN = re.compile(
    r"Traceback|Transformers|model_type|NoneType|attribute|subscript|KeyError|should not|object is"
)
COMMANDS = (
    "translate RUN -",
    "score RUN",
    "analyze RUN --out OUT",
    "importance RUN --out OUT",
    "compare RUN --budget 5 --out OUT",
    "plan RUN --budget 5 --out OUT/plan.json",
    "prune RUN --out OUT",
    "neighbours RUN cat",
    "inspect RUN cat",
    "rollout RUN cat",
    "show RUN cat --out OUT.html",
    "check RUN",
    "across RUN RUN",
    "claim RUN encoder.0.0:first",
    "detect RUN",
    "train RUN --resume",
    "train OUT --like RUN",
)


def without(name: str) -> Any:
    return lambda record: {key: value for key, value in record.items() if key != name}


def with_other(name: str, value: Any) -> Any:
    return lambda record: record | {name: value}


def with_other_setting(section: str, value: Any) -> Any:
    return lambda record: record | {"settings": record["settings"] | {section: value}}


DAMAGES: dict[str, Any] = {
    "an empty table": lambda _: {},
    "a list": lambda _: [],
    "null": lambda _: None,
    "a number": lambda _: 3,
    "a text": lambda _: "x",
    "without format": without("format"),
    "without settings": without("settings"),
    "without corpus": without("corpus"),
    "a format that is a text": with_other("format", "1"),
    "a format that is null": with_other("format", None),
    "settings that are a number": with_other("settings", 3),
    "settings that are a list": with_other("settings", []),
    "a corpus that is a number": with_other("corpus", 3),
    "a corpus without anything": with_other("corpus", {}),
    "a section that is a number": with_other_setting("model", 3),
    "a section that is unknown": with_other_setting("models", {}),
    "a size that is a text": with_other_setting("model", {"dim": "x"}),
}


# One function reads the file for all commands; of what it lets pass each command may take another part.
IN_PARTS = (
    "an empty table",
    "without corpus",
    "a corpus that is a number",
    "a size that is a text",
)
TURNS = [(command, IN_PARTS[n % len(IN_PARTS)]) for n, command in enumerate(COMMANDS)]
CASES = [
    *((COMMANDS[0], damage) for damage in DAMAGES),
    *TURNS[1:],
    *slow(*(one for one in product(COMMANDS[1:], IN_PARTS) if one not in TURNS)),
]


@pytest.mark.parametrize(("command", "damage"), CASES)
def test_a_damaged_settings_file_is_named_with_what_to_do(
    attnlab, copied_run: Path, tmp_path: Path, command: str, damage: str
) -> None:
    path = copied_run / "settings.json"
    path.write_text(json.dumps(DAMAGES[damage](json.loads(path.read_text()))))
    before = snapshot(copied_run)
    named = {"RUN": str(copied_run), "OUT": str(tmp_path / "out")}
    words = [re.sub("RUN|OUT", lambda found: named[found[0]], word) for word in command.split()]
    status, out, told = attnlab(*words)
    assert (status, out) == (2, "")
    assert re.fullmatch(
        rf"Error: {re.escape(str(path))} is damaged \(.+\); "
        r"restore it or train again into another folder\.\n",
        told,
    ), told
    assert not FOREIGN.search(told)
    assert snapshot(copied_run) == before
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", OWN_TYPES)
def test_an_own_model_beside_settings_without_parts_is_a_damaged_run(
    tmp_path: Path, kind: str
) -> None:
    (tmp_path / "settings.json").write_text("{}")
    assert not is_run(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind}))
    assert is_run(tmp_path)
    (tmp_path / "settings.json").unlink()
    assert not is_run(tmp_path), "what save_pretrained of an own model writes is none"


@pytest.mark.parametrize("kind", ["bert", "attnlab", None, 3, [], {}])
def test_another_program_may_have_settings_beside_its_model(tmp_path: Path, kind: Any) -> None:
    (tmp_path / "settings.json").write_text('{"theme": "dark"}')
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind}))
    assert not is_run(tmp_path)


def test_every_own_configuration_has_a_type_of_its_own() -> None:
    kinds = (
        configuration.TranslationConfig,
        configuration.LanguageConfig,
        configuration.RecurrentConfig,
    )
    assert tuple(kind.model_type for kind in kinds) == OWN_TYPES
    assert {*configuration.TranslationConfig.__subclasses__(), kinds[0]} == set(kinds)
