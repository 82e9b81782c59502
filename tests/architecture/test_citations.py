"""Every definition that the code cites stands in docs/, under the number that is cited."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")}
# Files that commands and scripts write.
WRITTEN = {
    "README.md", "tables.md",
}  # fmt: skip
NUMBERS = r"\d+(?:(?:, | and )\d+)*"
CITED = re.compile(rf"\b([a-z]+\.md)(?:,? (sections?|traps?) ({NUMBERS}))?")
SOURCES = sorted(
    path for folder in ("attnlab", "experiments", "tests") for path in (ROOT / folder).rglob("*.py")
)


def citations(text: str) -> list[tuple[str, str, str]]:
    """File, kind of heading and number of everything that is cited in a source."""
    without_links = re.sub(r"\]\([^)\s]*\)", "]", text)
    found = CITED.findall(re.sub(r"\s+(?:#\s+)?", " ", without_links))
    return [
        (name, kind.rstrip("s"), number)
        for name, kind, numbers in found
        for number in re.findall(r"\d+", numbers) or [""]
    ]


def has_heading(text: str, kind: str, number: str) -> bool:
    heading = {"section": rf"^## {number}\. ", "trap": rf"^### Trap {number}: "}[kind]
    return re.search(heading, text, flags=re.MULTILINE) is not None


def test_citations_lead_to_a_heading() -> None:
    for path in (*SOURCES, *(ROOT / "docs").glob("*.md")):
        for name, kind, number in citations(path.read_text(encoding="utf-8")):
            assert name in DOCS or name in WRITTEN, f"{path} cites {name}, which is not in docs/"
            said = f"{path} cites {kind} {number} of {name}, which has none"
            assert not kind or has_heading(DOCS[name], kind, number), said


def test_a_wrong_number_is_noticed() -> None:
    assert citations("see math.md sections 3 and\n    4; heads.md, trap 3") == [
        ("math.md", "section", "3"), ("math.md", "section", "4"), ("heads.md", "trap", "3"),
    ]  # fmt: skip
    assert has_heading(DOCS["math.md"], "section", "3")
    assert not has_heading(DOCS["math.md"], "section", "11")
    assert not has_heading(DOCS["heads.md"], "trap", "12")
