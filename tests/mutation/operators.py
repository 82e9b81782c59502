"""Small faults to put into source code: one changed operator, constant, option or statement each.

A mutant is the syntax tree of a file with one node changed. Docstrings, annotations, messages and
the texts of class attributes are left alone: no test should depend on them.
"""

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
TWINS = [
    ("min", "max"), ("amin", "amax"), ("argmin", "argmax"), ("any", "all"), ("sum", "mean"),
    ("floor", "ceil"), ("minimum", "maximum"), ("cumsum", "cumprod"),
    ("zeros", "ones"), ("zeros_like", "ones_like"),
]  # fmt: skip
TWIN_OF = dict(TWINS) | {second: first for first, second in TWINS}


@dataclass(frozen=True)
class Mutant:
    """One fault; the faulty tree is made when it is asked for, since there are thousands of faults.

    Attributes:
        line: where it stands in the file.
        before: the code that was changed.
        after: what stands there instead.
        source: the whole file without the fault.
        node: which of the nodes that run is changed.
        choice: which of the changes that are possible there.
    """

    line: int
    before: str
    after: str
    source: str
    node: int
    choice: int

    def tree(self) -> ast.Module:
        """The syntax tree of the whole file with the fault."""
        tree = ast.parse(self.source)
        target = next(islice(_code(tree), self.node, None))
        replacement = next(islice(_replacements(target), self.choice, None))
        _replace(tree, target, copy.deepcopy(replacement))
        return ast.fix_missing_locations(tree)

    def __str__(self) -> str:
        return f"{self.line}: {self.before}  ->  {self.after}"


def mutants(source: str) -> Iterator[Mutant]:
    """Every fault that can be put into `source`, in the order of the code.

    >>> [str(fault) for fault in mutants("x = a < b + 1")]
    ['1: a < b + 1  ->  a <= b + 1', '1: b + 1  ->  b - 1', '1: 1  ->  2']
    """
    for number, node in enumerate(_code(ast.parse(source))):
        before = ast.unparse(node)
        for choice, replacement in enumerate(_replacements(node)):
            line = getattr(node, "lineno", 0)
            after = _short(ast.unparse(ast.fix_missing_locations(replacement)))
            yield Mutant(line, _short(before), after, source, number, choice)


def _short(code: str) -> str:
    return " ".join(code.split())[:100]


def _code(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run: no annotations, docstrings, messages, imports or decorators."""
    for child in ast.iter_child_nodes(tree):
        if _left_alone(child):
            continue
        yield child
        yield from _code(child)


def _left_alone(node: ast.AST) -> bool:
    if isinstance(node, (ast.Import, ast.ImportFrom, ast.JoinedStr, ast.arg, ast.Raise)):
        return True
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True
    if isinstance(node, ast.Assign):
        return any(isinstance(name, ast.Name) and name.id == "msg" for name in node.targets)
    if isinstance(node, ast.AnnAssign):
        return node.value is None
    return isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes))


def _replacements(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in COMPARISONS:
            yield _with(node, ops=[COMPARISONS[type(operator)]()])
        case ast.BinOp(op=operator) if type(operator) in ARITHMETIC and not _is_annotation(node):
            yield _with(node, op=ARITHMETIC[type(operator)]())
        case ast.BoolOp(op=operator):
            yield _with(node, op=ast.Or() if isinstance(operator, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not() | ast.Invert() | ast.USub(), operand=operand):
            yield operand
        case ast.IfExp(test=test):
            yield _with(node, test=ast.UnaryOp(ast.Not(), test))
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value + 1)
        case ast.Constant(value=float(value)):
            yield ast.Constant(value * 1.5 + (value == 0))
        case ast.Attribute(attr=name) if name in TWIN_OF:
            yield _with(node, attr=TWIN_OF[name])
        case ast.Name(id=name, ctx=ast.Load()) if name in TWIN_OF:
            yield _with(node, id=TWIN_OF[name])
        case ast.Call(keywords=keywords) if keywords:
            for left_out in keywords:
                if left_out.arg is not None:
                    rest = [keyword for keyword in keywords if keyword is not left_out]
                    yield _with(node, keywords=rest)
        case ast.If(test=test):
            yield _with(node, test=ast.UnaryOp(ast.Not(), test))
        case ast.AugAssign() | ast.Expr():
            yield ast.Pass()


def _is_annotation(node: ast.BinOp) -> bool:
    """Whether `a | b` is a union of types."""
    names = [item.id for item in ast.walk(node) if isinstance(item, ast.Name)]
    nothing = any(isinstance(item, ast.Constant) and item.value is None for item in ast.walk(node))
    return isinstance(node.op, ast.BitOr) and (
        nothing
        or (
            bool(names)
            and all(name[0].isupper() or name in {"str", "int", "float"} for name in names)
        )
    )


def _with(node: ast.AST, **changes: object) -> ast.AST:
    copied = copy.copy(node)
    for name, value in changes.items():
        setattr(copied, name, value)
    return copied


def _replace(tree: ast.AST, target: ast.AST, replacement: ast.AST) -> None:
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if value is target:
                setattr(parent, name, replacement)
                return
            if isinstance(value, list):
                for index, item in enumerate(value):
                    if item is target:
                        value[index] = replacement
                        return
