"""The rules of the code base that a machine can hold."""

import ast
import re
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "attnlab"
LAYERS = [
    "core", "matrices", "attention", "grammar", "corpora", "models", "reading", "labels", "ablation",
    "alignment", "budget", "evaluation", "figures", "results", "questions", "studies", "cli",
]  # fmt: skip
LIGHT = {"time", "attnlab", "typer", "rich"} | sys.stdlib_module_names
# Offered by two modules of one package, and what a front cannot offer.
AMBIGUOUS = {"__version__"}
MODULES = sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def front_of(package: str) -> dict[str, str]:
    """The module of each name that a package offers to others."""
    path = PACKAGE / package / "__init__.pyi"
    if not path.exists():
        return {}
    return {
        alias.name: f"attnlab.{package}.{node.module}"
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def test_no_offered_name_is_that_of_a_module_beside_it() -> None:
    # Old versions of lazy_loader hand out the module then, once it is imported.
    for package in LAYERS:
        modules = {path.stem for path in (PACKAGE / package).iterdir()}
        assert not modules & front_of(package).keys(), package


FRONTS = {f"attnlab.{package}": front_of(package) for package in LAYERS}


def imported_by(path: Path, top_only: bool = False) -> set[str]:
    """Names of modules that a file imports, inside functions too unless `top_only`."""
    tree = tree_of(path)
    nodes = tree.body if top_only else list(ast.walk(tree))
    names = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            front = FRONTS.get(str(node.module), {})
            if not front:
                names.add(node.module or "")
            names |= {front.get(alias.name, f"{node.module}.{alias.name}") for alias in node.names}
    return names


def modules_used_by(path: Path) -> set[str]:
    """The package's modules that a file imports, inside functions and for type checkers too.

    A text that is a module's name counts, since `import_module` takes one; but not in what declares a
    question, which those modules import.
    """
    known = set(map(name_of, MODULES)) - {name_of(path)}
    found = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            front = FRONTS.get(str(node.module), {})
            names = {front.get(alias.name, f"{node.module}.{alias.name}") for alias in node.names}
            found |= {name if name in known else str(node.module) for name in names}
        elif isinstance(node, ast.Constant) and str(node.value).startswith("attnlab."):
            found |= set() if path.match("questions/*/question.py") else {str(node.value)}
    return found & known


def circles(graph: dict[str, set[str]]) -> list[str]:
    """The modules that lead back to themselves."""
    reached: dict[str, set[str]] = {}
    for start, targets in graph.items():
        seen: set[str] = set()
        waiting = list(targets)
        while waiting:
            module = waiting.pop()
            if module not in seen:
                seen.add(module)
                waiting.extend(graph.get(module, ()))
        reached[start] = seen
    return sorted(module for module, seen in reached.items() if module in seen)


def test_circles_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}
    assert circles(graph) == ["b", "c"]


def test_no_module_imports_itself_by_way_of_others() -> None:
    graph = {name_of(path): modules_used_by(path) for path in MODULES}
    assert graph["attnlab"] >= {"attnlab.results.load_any", "attnlab.models.training"}
    assert not circles(graph)


def layer_of(module: str) -> int | None:
    parts = module.split(".")
    if len(parts) < 2 or parts[0] != "attnlab" or parts[1] not in LAYERS:
        return None
    return LAYERS.index(parts[1])


def test_imports_go_one_way() -> None:
    assert layer_of("attnlab.core.files") == 0 < layer_of("attnlab.matrices.bands")
    for path in MODULES:
        mine = layer_of(name_of(path))
        for module in imported_by(path):
            theirs = layer_of(module)
            if mine is not None and theirs is not None:
                assert theirs <= mine, f"{path} imports {module}, which stands above it"


WITH_FRONTS = [*MODULES, *sorted((ROOT / "experiments").rglob("*.py"))]


def test_what_a_package_offers_is_imported_from_it() -> None:
    for path in WITH_FRONTS:
        own = name_of(path).split(".")[:2]
        for node in ast.walk(tree_of(path)):
            if not isinstance(node, ast.ImportFrom) or node.level:
                continue
            package = ".".join(str(node.module).split(".")[:2])
            if package.split(".") == own or node.module == package or not FRONTS.get(package):
                continue
            # A name that a module of the package bears too cannot be offered.
            modules = {path.stem for path in (PACKAGE / package.split(".")[1]).iterdir()}
            inside = {alias.name for alias in node.names} - modules - AMBIGUOUS
            assert not inside, f"{path} imports {inside} from {node.module}, not from {package}"


def test_every_name_of_a_front_is_there() -> None:
    for package, names in FRONTS.items():
        for name, home in names.items():
            assert getattr(import_module(package), name) is getattr(import_module(home), name)


def test_packages_are_the_ones_of_the_design() -> None:
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert folders == set(LAYERS)


def test_no_circle() -> None:
    names = {name_of(path) for path in MODULES}
    edges = {
        name_of(path): {name for name in imported_by(path, top_only=True) if name in names}
        for path in MODULES
    }
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, f"import circle: {' -> '.join((*trail, module))}"
        if module in done:
            return
        for other in edges[module] - {module}:
            visit(other, (*trail, module))
        done.add(module)

    for module in edges:
        visit(module, ())


def test_command_line_imports_nothing_heavy_at_the_top() -> None:
    # What commands and options are made from, see `test_what_declares_and_the_program_import_nothing_heavy`.
    light = {
        "attnlab.ablation.replacements", "attnlab.corpora.rows", "attnlab.evaluation.named_inputs",
        "attnlab.results.listing", "attnlab.results.question", "attnlab.results.result",
        "attnlab.studies.study",
    }  # fmt: skip
    for path in (PACKAGE / "cli").rglob("*.py"):
        for module in imported_by(path, top_only=True):
            parts = module.split(".")
            assert parts[0] in LIGHT, f"{path} imports {module} at the top"
            if parts[0] == "attnlab" and len(parts) > 1 and parts[1] in LAYERS:
                is_light = any(module == name or module.startswith(f"{name}.") for name in light)
                is_light |= any(part.endswith(("settings", "question")) for part in parts)
                assert parts[1] in {"core", "cli"} or is_light, (
                    f"{path} imports {module} at the top"
                )


HEAVY = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
    heavy = {"torch", "transformers", "pandas", "numpy", "datasets", "matplotlib"} & set(sys.modules)
    if heavy:
        sys.exit(f"{name} imports {heavy}")
"""


LISTING = """
import contextlib, io, sys
from attnlab.cli.app import main
sys.argv = ["attnlab", *sys.argv[1:]]
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()) as listed:
    main()
assert "analyze" in listed.getvalue()
print(*(name for name in sys.modules if name.partition(".")[0] in {"attnlab", "pydantic", "pandas"}))
"""


def modules_loaded_by(*words: str) -> set[str]:
    """Modules of attnlab, pydantic and pandas that a command has loaded when it ends."""
    done = subprocess.run(
        [sys.executable, "-c", LISTING, *words],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    return set(done.stdout.split())


def test_the_list_of_commands_needs_little_of_the_package() -> None:
    loaded = modules_loaded_by("--help")
    assert len(loaded) <= 45
    assert not {name for name in loaded if name.endswith(("question", "settings", "pydantic"))}


def test_the_help_of_a_question_needs_no_other() -> None:
    loaded = modules_loaded_by("analyze", "--help")
    declared = {name for name in loaded if re.fullmatch(r"attnlab\.questions\..*\.question", name)}
    assert declared == {"attnlab.questions.analyze.question"}


def test_what_declares_and_the_program_import_nothing_heavy() -> None:
    endings = ("settings", "question", "terminal")
    declaring = [name_of(path) for path in MODULES if path.stem.endswith(endings)]
    assert len(declaring) > 10
    done = subprocess.run(
        [sys.executable, "-c", HEAVY, "attnlab", "attnlab.cli.app", *declaring],
        capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_no_pickle() -> None:
    for path in MODULES:
        assert not {"pickle", "dill", "joblib"} & imported_by(path), path


@pytest.mark.parametrize("name", ["utils", "helpers", "common", "misc"])
def test_no_drawer_for_odds_and_ends(name: str) -> None:
    assert not list(PACKAGE.rglob(f"{name}.py"))
    assert not list(PACKAGE.rglob(name))


def test_no_two_files_have_one_name() -> None:
    names = [path.name for path in MODULES if path.name != "__init__.py"]
    # Each question has one of these.
    of_questions = {"question.py", "view.py"}
    twice = {name for name in names if names.count(name) > 1} - of_questions
    assert not twice


@pytest.mark.slow
def test_files_results_labels_and_pages_need_no_model_of_transformers(tmp_path: Path) -> None:
    file = tmp_path / "heads.npz"
    np.savez(file, heads=np.full((1, 2, 4, 4), 0.25))
    code = """
import importlib, sys
from attnlab.labels import HeadStructure
from attnlab.questions.analyze.analysis import analyze
from attnlab.questions.approximate.approximation import approximate
from attnlab.results import Result, notes_on_weights
for name in ("align", "analyze", "compare", "plan"):
    importlib.import_module(f"attnlab.questions.{name}.view")
analyze(sys.argv[1])
sys.exit("transformers.modeling_utils" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code, str(file)], cwd=ROOT, check=False)
    assert done.returncode == 0, (
        "it takes seconds that who looks at files and results would wait for"
    )
