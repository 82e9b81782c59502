"""Messages of the library name arguments, which a notebook and the command line share, and no flags."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "attnlab"
# Made for readers of pages and terminals, who have the command line.
AT_THE_EDGE = {"cli", "results"}
# A whole command that is to be typed has its flags.
COMMAND = re.compile(r"attnlab (train|study|plan) [^,;.]*(\.{3}[^,;.]*)?")
FLAG = re.compile(r" --[a-z]")


def text_of(node: ast.AST) -> str:
    """A string with `X` for each value in it; of other expressions their strings, one after another."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.FormattedValue):
        return "X"
    return (
        " ".join(map(text_of, ast.iter_child_nodes(node)))
        if not isinstance(node, ast.JoinedStr)
        else "".join(map(text_of, node.values))
    )


def messages_in(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The texts of errors: in `raise`, in a name that holds a message, and in what makes an error."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign | ast.Call | ast.Raise):
            continue
        named = isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id in {"msg", "advice", "SHORTEN"}
            for target in node.targets
        )
        made = isinstance(node, ast.Call) and (
            ast.unparse(node.func).endswith("Error")
            or re.search(r"(^|[._])check_", ast.unparse(node.func))
        )
        if named or made or isinstance(node, ast.Raise):
            yield node.lineno, text_of(node)


def flags_in(source: str) -> list[tuple[int, str]]:
    """The messages with a flag outside a whole command."""
    return [
        (line, text)
        for line, text in messages_in(ast.parse(source))
        if FLAG.search(" " + COMMAND.sub("", text))
    ]


def test_no_message_of_the_library_names_a_flag() -> None:
    found = {
        f"{path.relative_to(PACKAGE)}:{line}": text
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.relative_to(PACKAGE).parts[0] not in AT_THE_EDGE
        for line, text in flags_in(path.read_text(encoding="utf-8"))
    }
    assert not found


def test_a_flag_in_a_message_is_found_and_a_whole_command_is_none() -> None:
    assert flags_in('msg = f"{folder} holds a run; add --overwrite."')
    assert flags_in('raise InputError("give a run, or --corpus NAME")')
    assert flags_in('check_has_sentences(source, "--text FILE")')
    assert not flags_in('msg = f"train it anew with: attnlab train {folder} --overwrite"')
    assert flags_in('msg = f"go on with attnlab train {folder} --resume, or add --overwrite"')
