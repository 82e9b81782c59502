"""Throw-away additions to the package, one of each kind that CONTRIBUTING.md has a recipe for."""

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from distributions import ROOT


@dataclass(frozen=True)
class Addition:
    """What a contributor writes.

    Attributes:
        row: what CONTRIBUTING.md calls it.
        files: how many files of the package it may touch; of a question, as many as its folder has.
        new: the text of each new file, by its path in the package.
        edits: for each file that is there, texts of it and what stands there instead.
    """

    row: str
    files: int
    new: Mapping[str, str] = field(default_factory=dict)
    edits: Mapping[str, Iterable[tuple[str, str]]] = field(default_factory=dict)


def copied_package(folder: Path) -> Path:
    """A copy of the package in `folder`."""
    ignored = shutil.ignore_patterns("__pycache__")
    return Path(shutil.copytree(ROOT / "attnlab", folder / "attnlab", ignore=ignored))


def add(addition: Addition, package: Path) -> None:
    """Makes the addition in a copy of the package."""
    for name, text in addition.new.items():
        path = package / name
        assert not path.exists(), f"{name} is there already"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for name, changes in addition.edits.items():
        path = package / name
        text = path.read_text(encoding="utf-8")
        for before, after in changes:
            assert text.count(before) == 1, f"{name} has no single place for: {after}"
            text = text.replace(before, after)
        path.write_text(text, encoding="utf-8")


def behind(text: str, line: str) -> tuple[str, str]:
    """A change that puts `line` behind `text`."""
    return text, text + line


def before(text: str, line: str) -> tuple[str, str]:
    """A change that puts `line` before `text`."""
    return text, line + text


MECHANISM = Addition(
    "mechanism",
    2,
    {
        "attention/mechanisms/near.py": '''
from dataclasses import dataclass
from typing import Any, ClassVar

from attnlab.attention.mechanisms.softmax import MaskedSoftmax
from attnlab.attention.specification import Specification
from attnlab.matrices.supports import offsets


@dataclass(frozen=True)
class Near(Specification):
    """The keys at most `reach` away, scored."""

    name: ClassVar[str] = "near"
    reach: Any = 1

    def __post_init__(self) -> None:
        self.check_integer("reach", 0)


class NearAttention(MaskedSoftmax):
    """Softmax over the keys at most `reach` away."""

    specification = Near
    source = "a test"
    positions = "offsets"

    @classmethod
    def at_budget(cls, keys, *, causal):
        return Near(keys - 1 if causal else keys // 2)

    def pairs(self, query, key, context):
        shape = query.shape[-2], key.shape[-2]
        offset = offsets(*shape, first_query=context.first_query, device=query.device)
        near = offset.abs() <= self.spec.reach
        return (near & (offset <= 0) if self.causal else near)[None, None]
'''
    },
    {
        "attention/registry.py": [
            behind(
                "from attnlab.attention.mechanisms.longformer import LongformerAttention\n",
                "from attnlab.attention.mechanisms.near import NearAttention\n",
            ),
            before("        NoAttention,\n    )", "        NearAttention,\n"),
        ]
    },
)
LABEL = Addition(
    "label of heads",
    2,
    {
        "labels/first.py": """
from attnlab.labels.counts import REPORTED, count_ratio
from attnlab.labels.label import HeadLabel
from attnlab.labels.label_columns import Rule
from attnlab.labels.verdict import ratio_condition, verdicts_of

RULE = Rule(0.01, 2, "sentences")


def count(view):
    rows = view.facts.scope.rows
    mass = (view.layer.wide[..., 0] * rows[:, None]).sum(-1).double()
    return count_ratio(mass, rows.sum(-1)[:, None].expand_as(mass).double(), view.facts.scope.groups)


def decide(counts, seed):
    found = ratio_condition("mean_mass_on_first", counts, RULE.threshold, seed=seed)
    of_half = counts.by_half()
    rows, counted = of_half.denominator[REPORTED].long(), of_half.sentences[REPORTED]
    return verdicts_of("first", RULE, [""] * len(rows), [found], denominator=rows, counted=counted)


FIRST_LABEL = HeadLabel(
    name="first", count=count, decide=decide, precedence=-1, against_untrained=False
)
"""
    },
    {
        "labels/counting.py": [
            before(
                "from attnlab.labels.label import (\n",
                "from attnlab.labels.first import FIRST_LABEL\n",
            ),
            behind("OWN_LABELS = (\n", "    FIRST_LABEL,\n"),
        ]
    },
)
FAMILY = Addition(
    "family of matrices",
    2,
    {
        "matrices/last_key.py": """
import torch

from attnlab.matrices.batched import checked_weights, in_chunks, sizes_of
from attnlab.matrices.column import Column
from attnlab.matrices.fit import complete
from attnlab.matrices.residual import SparseError


@in_chunks
def fit_last(H, *, causal=False, error_nnz=0, error_bound=float("inf"), sizes=None):
    H = checked_weights(H, sizes)
    last = sizes_of(H, sizes)[..., 1] - 1
    chosen = torch.arange(H.shape[-1]) == last[..., None]
    P = torch.where(chosen[..., None, :], H, 0)
    return complete(
        H,
        P,
        family="last",
        values="free",
        parameters=Column(last.expand(H.shape[:-2])),
        support_size=sizes_of(H, sizes)[..., 0],
        allowed=SparseError(error_nnz, error_bound),
        sizes=sizes,
        lower_bound=torch.zeros(H.shape[:-2]),
    )
"""
    },
    {
        "matrices/families.py": [
            before(
                '        Family(\n            name="column_band",',
                """        Family(
            name="last",
            label="last key",
            fit="attnlab.matrices.last_key:fit_last",
            options=(),
            by_default=True,
            column=Column("last", "last key + E", "Relative distance of the last column, and E.", 2),
        ),
""",
            )
        ]
    },
)
OPTION = Addition(
    "option of a study",
    1,
    edits={
        "studies/random_searches.py": [
            (
                '    seed: Annotated[\n        int, Option("Seed',
                """    reach: Annotated[int, Option("Reach of a band.", least=0)]
    seed: Annotated[
        int, Option("Seed""",
            ),
            behind(
                "    noise: Annotated[float, NOISE] = 0.2\n",
                '    reach: Annotated[int, Option("Reach of a band.", least=0)] = 3\n',
            ),
            behind("            noise=options.noise,\n", "            reach=options.reach,\n"),
            (
                "H, window=WINDOW, num_pos=NUM_POS, attempts",
                "H, window=settings.reach, num_pos=NUM_POS, attempts",
            ),
        ]
    },
)
STUDY = Addition(
    "study of many cells",
    2,
    {
        "studies/squares.py": '''
from dataclasses import dataclass
from typing import Annotated

from attnlab.core import Option, Settings
from attnlab.studies.study import Study


@dataclass(frozen=True, kw_only=True)
class SquareSettings(Settings):
    """A number."""

    number: Annotated[int, Option("Its root.")]


@dataclass(frozen=True, kw_only=True)
class SquareOptions(Settings):
    """How many."""

    count: Annotated[int, Option("How many.", least=1)] = 3


def rows(settings):
    import pandas as pd

    return pd.DataFrame({"square": [settings.number**2]})


SQUARES = Study(
    name="squares",
    summary="What is the square of each number?",
    options=SquareOptions,
    cells=lambda options: [SquareSettings(number=n) for n in range(options.count)],
    settings=SquareSettings,
    rows=rows,
)
'''
    },
    {
        "studies/computing.py": [
            before(
                "from attnlab.studies.study import Cell",
                "from attnlab.studies.squares import SQUARES\n",
            ),
            ("(RANDOM_SEARCH, SUBSTITUTION,", "(SQUARES, RANDOM_SEARCH, SUBSTITUTION,"),
        ]
    },
)
COLUMN = Addition(
    "column of a table",
    3,
    edits={
        "questions/neighbours/columns.txt": [
            before(
                "group            | group",
                "length | letters | | | Number of letters of the neighbour.\n",
            )
        ],
        "questions/neighbours/question.py": [("rank neighbour", "rank neighbour length")],
        "questions/neighbours/neighbours.py": [
            behind(
                "    table = nearest(embeddings, settings.words, settings.count)\n",
                '    table.insert(3, "length", table["neighbour"].str.len())\n',
            )
        ],
    },
)
FIGURE = Addition(
    "figure",
    2,
    edits={
        "questions/neighbours/question.py": [
            ('figures=("map",)', 'figures=("map", "cosines")'),
        ],
        "questions/neighbours/view.py": [
            before(
                "    return Contents(figures)",
                '    figures.append(DrawnFigure("cosines", draw_cosines(result.neighbours), "By rank."))\n',
            ),
            before(
                "def terminal(",
                '''def draw_cosines(table: pd.DataFrame) -> Figure:
    """The cosines by rank."""
    with style():
        figure = blank(3, 2)
        panel(figure, 0.5, 0.2, 2, 1.5).plot(table["rank"], table["cosine"], "o")
    return figure


''',
            ),
        ],
    },
)
QUESTION = Addition(
    "question to a model",
    3,
    {
        "questions/norms/__init__.py": """
from attnlab.results import Listed

LISTED = Listed(name="norms", panel="Weights", help="Measure the norm of every weight matrix.")
""",
        "questions/norms/question.py": '''
from dataclasses import dataclass
from typing import Annotated

from attnlab.core import Column, Option, Settings, Table
from attnlab.questions.norms import LISTED
from attnlab.results import Question

NORMS = Table(
    "norms.csv",
    "weight matrix",
    (
        Column("weights", "weights", "Name of a weight matrix."),
        Column("norm", "norm_2", "Its Frobenius norm.", 2),
    ),
    keys=("weights",),
)


@dataclass(frozen=True, kw_only=True)
class NormSettings(Settings):
    """What `attnlab norms` can be told."""

    smallest: Annotated[float, Option("Smallest norm to list.", least=0)] = 0.0


QUESTION = Question(
    **vars(LISTED),
    what="norms of weights",
    settings=NormSettings,
    tables=(NORMS,),
    run="attnlab.questions.norms.norms:norms",
    view="attnlab.questions.norms.norms",
    figures=("norms",),
)
''',
        "questions/norms/norms.py": '''
import pandas as pd

from attnlab.core import options_of
from attnlab.figures import blank, panel, style
from attnlab.models import model_of
from attnlab.questions.norms.question import NormSettings
from attnlab.results import Contents, DrawnFigure, Result, ShownTable


@options_of(NormSettings)
def norms(source, settings):
    """The norm of every weight matrix.

    Args:
        source: a model.
        settings: as keyword arguments.
    """
    weights = model_of(source, scores=False).model.named_parameters()
    found = {name: float(one.detach().norm()) for name, one in weights if one.ndim == 2}
    found = {name: norm for name, norm in found.items() if norm >= settings.smallest}
    table = pd.DataFrame({"weights": list(found), "norm": list(found.values())})
    return Result("norms", "Norms", {"norms": table}, {})


def contents(result):
    with style():
        figure = blank(3, 2)
        panel(figure, 0.5, 0.1, 2, 1.5).plot(result.norms["norm"])
    drawn = [DrawnFigure("norms", figure, "Norms in order.")]
    return Contents(drawn, {}, [ShownTable("norms.csv", "Every matrix")])


def answers(result):
    return ["Norms."]
''',
    },
)
LANGUAGE = Addition(
    "language of the grammar",
    1,
    {
        "grammar/shouted/__init__.py": """
from attnlab.grammar.english.english_sentences import english_tokens

CODE = "xx"


def tokens(sentence):
    found = english_tokens(sentence)
    for token in found:
        token.form = token.form.upper()
    return found
"""
    },
)
CORPUS = Addition(
    "corpus format",
    1,
    edits={
        "corpora/readers.py": [
            before(
                "_READERS = {\n",
                """def _read_turns(path: Path, _: Languages) -> Iterable[tuple[str, str]]:
    lines = read_sentences(path)
    return zip(lines, lines, strict=True)


""",
            ),
            behind(
                "_READERS = {\n", '    "turns": Reader("a line, its translation", _read_turns),\n'
            ),
        ]
    },
)
LINKS = Addition(
    "form of files of links",
    1,
    edits={
        "alignment/link_formats.py": [
            ('"xlwa", "giza"]', '"xlwa", "giza", "tabbed"]'),
            before('    "tsv": "xlwa",\n', '    "tabbed": "tabbed",\n'),
            before(
                '    if form in ("xlwa", "giza"):\n',
                """    if form == "tabbed":
        changed = Path(path).read_text("utf-8").replace("\\t", " ").splitlines()
        return (
            LinkedPair(*pair, gold_links([tuple(map(int, one.split("/"))) for one in line.split()]))
            for pair, line in zip(pairs or (), changed, strict=True)
        )
""",
            ),
        ]
    },
)
DISTANCE = Addition(
    "distance",
    1,
    edits={
        "matrices/distances.py": [
            before(
                "Distance = Callable[",
                '''def largest_difference(H: Tensor, X: Tensor) -> Tensor:
    """The largest |h - x|."""
    return (H - X).abs().amax((-2, -1))


''',
            ),
            behind(
                '    "frobenius": frobenius_distance,\n', '    "largest": largest_difference,\n'
            ),
        ]
    },
)
COMMAND = Addition(
    "command",
    2,
    {
        "cli/commands/greeting.py": '''
from typing import Annotated

import typer

from attnlab.cli.output import print_text


def greet(name: Annotated[str, typer.Argument(help="Of whom.")]) -> None:
    """Prints a greeting."""
    print_text(f"Hello, {name}.")
'''
    },
    {
        "cli/commands/__init__.py": [
            behind(
                "COMMANDS = (\n",
                """    CommandEntry(
        name="greet", panel="Words", help="Greet somebody.", file="greeting", tables=False
    ),
""",
            )
        ]
    },
)
TOKENIZER = Addition(
    "tokenizer",
    1,
    edits={
        "models/tokenizer.py": [
            before(
                "BLANK_TOKENIZERS = {",
                '''def blank_small_words() -> "Tokenizer":
    """Words in small letters."""
    from tokenizers import normalizers

    tokenizer = blank_words()
    tokenizer.normalizer = normalizers.Lowercase()
    return tokenizer


''',
            ),
            ('"word": blank_words}', '"word": blank_words, "small-word": blank_small_words}'),
        ]
    },
)
ADDITIONS = (
    MECHANISM, LABEL, FAMILY, OPTION, STUDY, COLUMN, FIGURE, QUESTION, LANGUAGE, CORPUS, LINKS, DISTANCE,
    COMMAND, TOKENIZER,
)  # fmt: skip
