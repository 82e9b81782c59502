"""How Sphinx builds these pages: `make docs`."""

import os
import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
# Notebooks run elsewhere; the gallery reads results/.
os.environ["ATTNLAB_REPOSITORY"] = str(ROOT)

from attnlab import __version__  # noqa: E402

project = "attnlab"
author = "The attnlab developers"
copyright = "the attnlab developers"
version = release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
]
# Notebooks are built from their text; their files are there to download.
exclude_patterns = ["_build", "*/runs", "**/*.ipynb"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
# Docstrings write code in single backticks.
default_role = "code"
# Blocks that do not name a language are formulas or plain text.
highlight_language = "none"

# The notebooks run at every build, in a folder of their own: a snippet that fails fails the build.
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 900
nb_merge_streams = True
# Progress bars and the like; an error stops the build.
nb_output_stderr = "remove"

autodoc_typehints = "description"
autodoc_typehints_description_target = "all"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False

copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True

html_theme = "furo"
html_title = f"attnlab {__version__}"
html_static_path = ["_static"]
html_css_files = ["tables.css"]
html_show_sphinx = False

PAGES = "|".join(path.stem for path in Path(__file__).parent.glob("*.md"))
CITATION = re.compile(rf"\b({PAGES})\.md((?:,? (?:sections?|traps?) \d+)?)")
# Formulas in docstrings hold vertical bars, which would name a substitution.
CODE = re.compile(r"(``.+?``|`.+?`)")
FILE_BESIDE = re.compile(r"\]\(([\w./]+\.(?:csv|json|png|svg))\)")
RESULT_BESIDE = re.compile(r"\]\(\.\./([\w-]+)/README\.md\)")
FOLDER_BESIDE = re.compile(r"\[(\w+)\]\(\w+\)")
RESULT_PAGE = re.compile(r"\]\(((?:\.\./)*)\.\./(?:results|benchmarks)/([\w-]+)/README\.md\)")
TITLE = re.compile(r"^(# .+)$", flags=re.MULTILINE)
NOTEBOOK = re.compile(r"\[([^\]]+)\]\(([\w/]+\.ipynb)\)")
RESULT = re.compile(r"^\| \[([\w-]+)\]\(\1/README\.md\) \| (.+) \|$", flags=re.MULTILINE)


def mend_docstring(
    _app: Sphinx, _what: str, _name: str, _obj: object, _options: object, lines: list[str]
) -> None:
    """Links what a docstring cites, such as math.md section 4; escapes bars outside of code.

    Types with shapes come out of napoleon as text, in which `*batch` would begin an emphasis.
    """
    literal: int | None = None
    for number, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if literal is not None and (not line.strip() or indent > literal):
            continue
        literal = indent if line.rstrip().endswith("::") else None
        if line.lstrip().startswith((":type:", ":vartype")):
            field, colon, kind = line.lstrip()[1:].partition(":")
            lines[number] = f"{' ' * indent}:{field}{colon} ``{kind.strip()}``"
            continue
        if not line.lstrip().startswith(">>>"):
            parts = CODE.split(line)
            parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
            lines[number] = CITATION.sub(r":doc:`\1.md\2 </\1>`", "".join(parts))


def write_results(app: Sphinx) -> None:
    """Writes a page for each folder of results and benchmarks, and the tables of both, from the READMEs."""
    folder = Path(app.srcdir) / "results"
    folder.mkdir(exist_ok=True)
    for kind in ("results", "benchmarks"):
        rows = ["| page | what it shows |", "|---|---|"]
        for name, shows in RESULT.findall((ROOT / kind / "README.md").read_text(encoding="utf-8")):
            text = (ROOT / kind / name / "README.md").read_text(encoding="utf-8")
            title = text.partition("\n")[0].lstrip("# ")
            rows.append(f"| [{title}](results/{name}) | {shows} |")
            page = RESULT_BESIDE.sub(r"](\1)", FOLDER_BESIDE.sub(r"`\1`", text))
            page = FILE_BESIDE.sub(rf"](../../{kind}/{name}/\1)", page)
            (folder / f"{name}.md").write_text(page, encoding="utf-8")
        (folder / f"{kind}.txt").write_text("\n".join(rows), encoding="utf-8")


def link_results(_app: Sphinx, name: str, source: list[str]) -> None:
    """Links the pages that `write_results` writes in place of the READMEs in the repository."""
    if not name.startswith("results/"):
        source[0] = RESULT_PAGE.sub(r"](\1results/\2.md)", source[0])


def offer_notebooks(app: Sphinx, name: str, source: list[str]) -> None:
    """Lets readers download the file of a notebook, from its own page and from pages that link it."""
    source[0] = NOTEBOOK.sub(r"{download}`\1 <\2>`", source[0])
    file = Path(app.srcdir) / f"{name}.ipynb"
    if file.exists():
        offer = rf"\1\n\n{{download}}`Download as a notebook <{file.name}>`"
        source[0] = TITLE.sub(offer, source[0], count=1)


def setup(app: Sphinx) -> None:
    """Tells Sphinx what is to be done with docstrings, results and notebooks."""
    app.connect("builder-inited", write_results)
    app.connect("source-read", link_results)
    app.connect("source-read", offer_notebooks)
    app.connect("autodoc-process-docstring", mend_docstring, priority=900)
