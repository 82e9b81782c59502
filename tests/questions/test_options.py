"""An option is one field: of the settings, the public function and the command alike."""

import dataclasses
import inspect
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer.main
from answered import NEEDED

import attnlab
from attnlab.cli.app import app
from attnlab.cli.command_options import chosen, parameter_name, shown_default, with_options
from attnlab.core.errors import InputError
from attnlab.core.options import (
    Option,
    OptionField,
    Settings,
    option_fields,
    options_of,
    words_typed,
)
from attnlab.models.training_settings import SECTIONS
from attnlab.questions.importance.question import FIRST, ImportanceSettings
from attnlab.results import own_questions


@pytest.mark.parametrize("name", own_questions())
def test_a_question_takes_what_its_settings_declare(name: str) -> None:
    fields = option_fields(own_questions()[name].settings)
    study = getattr(attnlab, name)
    parameters = inspect.signature(study).parameters
    offered = {option.name: option for option in typer.main.get_command(app).commands[name].params}
    for field in fields:
        given = parameters[field.name].default
        missing = field.default is dataclasses.MISSING
        assert given is (inspect.Parameter.empty if missing else field.default)
        assert f"\n    {field.name}: {field.option.help}" in study.__doc__
        option = offered[parameter_name(field)]
        assert option.help.startswith(field.option.help.removesuffix("."))
        assert option.default is None, "the default has one home"
        assert option.required is missing
        assert (shown_default(field) or "") in option.help
        for choice in field.option.choices:
            assert re.search(rf"\b{choice}\b", option.help), f"{field.name} does not list {choice}"


def test_words_and_flags_are_typed_as_they_are_shown() -> None:
    settings = own_questions()["analyze"].settings
    assert words_typed(settings(labels=False)) == ["--no-labels"]
    assert words_typed(settings(labels=True, quick=True)) == ["--labels", "--quick"]
    shown = {field.name: shown_default(field) for field in option_fields(settings)}
    assert (shown["weights"], shown["quick"]) == ("attention", None)


DECLARED = {name: question.settings for name, question in own_questions().items()} | SECTIONS


def wrong_values(field: OptionField) -> Iterator[Any]:
    """What an option cannot be: outside its bounds, none of its choices, of no kind that it takes."""
    option = field.option
    outside = [
        *(bound - 1 for bound in (option.least,) if bound is not None),
        *(bound + 1 for bound in (option.most,) if bound is not None),
        *(bound for bound in (option.above, option.below) if bound is not None),
        *(["nothing of that name"] if option.choices else []),
    ]
    kinds = [kind for kind in field.kinds() if kind is not type(None)]
    listed = all("Sequence" in str(kind) for kind in kinds)
    yield from ([value] if listed else value for value in outside)
    # A plan may be a table.
    if field.name != "plans":
        yield {"a table": 1}


@pytest.mark.parametrize(
    ("name", "option"),
    [(name, field.name) for name, kind in DECLARED.items() for field in option_fields(kind)],
)
def test_an_option_refuses_what_it_cannot_be(
    name: str, option: str, as_users_call_it: None
) -> None:
    """In one sentence that names it, when the settings are made: nothing is loaded for that."""
    settings = DECLARED[name]
    (field,) = (one for one in option_fields(settings) if one.name == option)
    for value in wrong_values(field):
        with pytest.raises(InputError) as refused:
            settings(**NEEDED.get(name, {}) | {option: value})
        told = str(refused.value)
        assert told.startswith(f"{option.replace('_', ' ')} must be "), (value, told)
        assert re.fullmatch(r".*[^.]\.", told), told


NOWHERE: dict[str, Any] = {
    "model": ["no/where"], "plan": ["no/where.json"], "texts": "no/where.txt",
    "treebank": "no/where.conllu", "corpus": "no/where.tsv",
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "option", "names"),
    [
        (name, field.name, field.option.names)
        for name, question in own_questions().items()
        for field in option_fields(question.settings)
        if field.option.names
    ],
)
def test_what_an_option_names_is_looked_for_before_the_source(
    name: str, option: str, names: str
) -> None:
    given = NEEDED.get(name, {}) | {option: NOWHERE[names]}
    if name == "detect":
        given |= {"patterns": ["first"]}
    with pytest.raises(InputError, match="no/where"):
        getattr(attnlab, name)("no model", **given)


@dataclass(frozen=True, kw_only=True)
class Toy(Settings):
    """Settings of a study that there is not."""

    names: Annotated[
        Sequence[str], Option("Names.", choices=("a", "b"), read=lambda text: text.split("+"))
    ] = ("a",)
    share: Annotated[float, Option("Share.", ("--part",), least=0, below=1)] = 0.5
    count: Annotated[int | None, Option("Count.", above=0, shown="as many as there are")] = None
    wide: Annotated[bool, Option("Wide or narrow.", ("--wide/--narrow",))] = True


@options_of(Toy)
def toy(source: str, settings: Toy) -> tuple[str, Toy]:
    """The source and its settings.

    Args:
        source: a word.
        settings: as keyword arguments.
    """
    return source, settings


@pytest.mark.parametrize(("device", "name"), [("gpu", "cuda"), ("GPU:1", "cuda:1")])
def test_a_gpu_is_told_by_its_name_in_torch(device: str, name: str) -> None:
    with pytest.raises(InputError, match=f"'{device}' is none; write {name}."):
        DECLARED["check"](device=device)


def test_a_function_takes_fields_as_keywords() -> None:
    assert toy("x", share=0.25) == ("x", Toy(share=0.25))
    assert str(inspect.signature(toy)).startswith("(source: str, /, *, names: ")
    assert toy.__doc__.endswith(
        "count: Count. None: as many as there are.\n    wide: Wide or narrow."
    )
    with pytest.raises(TypeError, match="has no option 'size'; its options are: names"):
        toy("x", size=3)
    with pytest.raises(
        TypeError, match=r"toy\(\) takes options by name; write NAME=..., such as names=..., for 3"
    ):
        toy("x", 3)
    with pytest.raises(TypeError, match=r"write sentences=\[\.\.\.\] for \['a dog'\]"):
        attnlab.analyze("x", ["a dog"])
    for name in ("out", "overwrite"):
        with pytest.raises(
            TypeError, match=f"has no option '{name}'; a result is written with its"
        ):
            toy("x", **{name: "there"})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"names": ["a", "c"]}, "names must be among a, b, not 'c'"),
        ({"share": 1.0}, "share must be at least 0 and below 1, not 1.0"),
        ({"share": float("nan")}, "share must be at least 0 and below 1, not nan"),
        ({"count": 0}, "count must be a number above 0, not 0"),
    ],
)
def test_settings_refuse_what_they_cannot_be(options: dict, message: str) -> None:
    with pytest.raises(InputError, match=f"^{message}.$"):
        toy("x", **options)


@pytest.mark.parametrize(
    ("name", "option", "instead"),
    [(name, "text", "sentences") for name in ("analyze", "compare", "importance", "plan")]
    + [
        (name, "calibration_text", "calibration")
        for name in ("compare", "importance", "plan", "prune")
    ],
)
def test_a_list_in_place_of_a_file_is_told_where_it_goes(
    name: str, option: str, instead: str, as_users_call_it: None
) -> None:
    message = (
        f"{option.replace('_', ' ')} must be the path of a file; a list is given as {instead}="
    )
    with pytest.raises(InputError, match=message):
        getattr(attnlab, name)("no model", **{option: ["A sentence."]})
    help_text = str(getattr(attnlab, name).__doc__)
    assert re.search(rf"\n    {instead}: Maximum number of [^\n]*Or a list of them, or", help_text)


def test_a_value_of_the_wrong_kind_is_named() -> None:
    count, wide = option_fields(Toy)[2:]
    for field, value in ((count, 1.5), (count, True), (wide, 1), (wide, None)):
        with pytest.raises(InputError, match=f"{field.name} must be .*, not {value}"):
            field.refuse(value)
    count.refuse(None)
    names = option_fields(Toy)[0]
    for value in (3, True, None, [3], {"a": 1}):
        with pytest.raises(InputError, match=r"names must be a list, each of it a text, not "):
            names.refuse(value)


@dataclass(frozen=True, kw_only=True)
class Mixed(Settings):
    """Settings of which one has several kinds."""

    asked: Annotated[int | Sequence[str] | None, Option("Count or texts.", least=1)] = None


def test_a_setting_of_several_kinds_takes_each_of_them_and_no_other() -> None:
    for value in (None, 3, ["a", "b"]):
        assert Mixed(asked=value).asked is value
    for value in (1.5, "a", [3], True):
        with pytest.raises(
            InputError, match="asked must be a whole number or a list, each of it a text, not "
        ):
            Mixed(asked=value)


@dataclass(frozen=True, kw_only=True)
class Planned(Settings):
    """Settings of which one lists things that have no word."""

    plans: Annotated[Sequence[str | Toy], Option("Plans.")] = ()


def test_a_class_in_a_list_is_called_by_its_name() -> None:
    assert Planned(plans=["a", Toy()]).plans[0] == "a"
    for value in (3, "plan.json", {"encoder": "band"}, ["a", 3]):
        with pytest.raises(
            InputError, match="^plans must be a list, each of it a text or Toy, not "
        ):
            Planned(plans=value)


def test_no_choice_is_none_on_the_command_line_and_in_python() -> None:
    (bleu,) = (one for one in option_fields(ImportanceSettings) if one.name == "bleu")
    assert ImportanceSettings.value_of(bleu, None) == bleu.read("none") == ()
    assert ImportanceSettings().bleu == (FIRST,)


def test_a_command_gives_what_was_typed() -> None:
    found: list[Toy] = []

    @with_options(Toy)
    def command(**options: object) -> None:
        found.append(chosen(Toy, options))

    program = typer.Typer()
    program.command()(command)
    run = typer.main.get_command(program)
    run([], standalone_mode=False)
    run(["--names", "b+a", "--part", "0", "--narrow"], standalone_mode=False)
    assert found == [Toy(), Toy(names=["b", "a"], share=0.0, wide=False)]


@dataclass(frozen=True, kw_only=True)
class Pairs(Settings):
    """Settings whose values are pairs or anything at all."""

    pairs: Annotated[
        Sequence[tuple[Sequence[int], str]],
        Option("Pairs.", argument=True, example="((1, 2), 'a')"),
    ] = dataclasses.field(kw_only=False, default=())
    models: Annotated[Sequence[str | Any], Option("Models.")] = ()


@options_of(Pairs)
def paired(_: str, settings: Pairs) -> Pairs:
    """The settings."""
    return settings


def test_values_behind_the_source_are_one_list_as_on_the_command_line() -> None:
    one, other = ((1, 2), "a"), ((3, 4), "b")
    assert paired("x", one, other) == paired("x", [one, other]) == Pairs([one, other])
    assert paired("x", one).pairs == paired("x", pairs=one).pairs == (one,)
    assert paired("x", models=Path("a")).models == (Path("a"),)
    for positions, named in (([one], {"pairs": [other]}), ([[one], other], {})):
        with pytest.raises(
            TypeError, match=r"^paired\(\) takes pairs one by one behind its source, or"
        ):
            paired("x", *positions, **named)
    with pytest.raises(
        InputError, match=r"each of it 2 values, such as \(\(1, 2\), 'a'\), not \[3\]\.$"
    ):
        paired("x", [3])


@dataclass(frozen=True, kw_only=True)
class Spoken(Settings):
    """Settings of which some are words behind the source."""

    count: Annotated[int, Option("Count.", least=1, argument=True)] = dataclasses.field(
        kw_only=False
    )
    words: Annotated[Sequence[str], Option("Words.", argument=True)] = dataclasses.field(
        kw_only=False, default=()
    )
    loud: Annotated[bool, Option("Loud.")] = False


def spoken(*words: str) -> Spoken:
    """What a command of a source and `Spoken` is given."""
    found: list[Spoken] = []

    @with_options(Spoken)
    def command(source: str, **options: object) -> None:
        assert source == "here"
        found.append(chosen(Spoken, options))

    program = typer.Typer()
    program.command()(command)
    typer.main.get_command(program)(["here", *words], standalone_mode=False)
    return found[0]


def test_an_argument_is_a_word_behind_the_source() -> None:
    assert spoken("2") == Spoken(2)
    assert spoken("2", "a", "--loud", "b") == Spoken(2, ["a", "b"], loud=True)
    with pytest.raises(InputError, match=r"^COUNT must be at least 1, not 0\.$"):
        spoken("0")
    with pytest.raises(Exception, match="Missing parameter: count"):
        spoken()
