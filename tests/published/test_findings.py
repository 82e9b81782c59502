"""The page of findings comes out of the tables again, is short, and shows a figure for each claim."""

import re

from attnlab.figures import svg
from experiments.findings.run import DOCS, FIGURES, PAGE, figures, page
from experiments.shared.readme import RESULTS

INTERVAL = r"[+-]?\d+\.\d+ \[[+-]?\d+\.\d+, [+-]?\d+\.\d+\]"
LINK = re.compile(r"\]\(\.\./results/([\w-]+)/README\.md\)")


def section(heading: str) -> str:
    """What stands below a heading of the page."""
    return PAGE.read_text("utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]


def lines(heading: str) -> list[str]:
    return re.findall(r"^\* (.+)$", section(heading), flags=re.MULTILINE)


def test_the_page_is_what_the_tables_say() -> None:
    assert page(RESULTS) == PAGE.read_text("utf-8")


def test_figures_are_what_the_tables_say() -> None:
    for name, figure in figures(RESULTS).items():
        path = DOCS / FIGURES / f"{name}.svg"
        assert path.read_text("utf-8").endswith(svg(figure, name)), name


def test_the_page_is_read_in_three_minutes() -> None:
    assert len(PAGE.read_text("utf-8").split()) <= 900
    assert len(lines("The thesis's questions")) == 6
    assert len(lines("Expected, not confirmed")) <= 10


def test_every_claim_has_a_number_models_bleu_what_overturns_it_a_page_and_a_figure() -> None:
    claims = section("Five claims").split("### ")[1:]
    assert len(claims) == 5
    shown = [re.findall(r"!\[.+\]\(figures/(\w+)\.svg\)", claim) for claim in claims]
    assert sorted(name for names in shown for name in names) == sorted(figures(RESULTS))
    for claim in claims:
        assert re.search(INTERVAL, claim) or "no interval" in claim, claim
        assert re.search(r"BLEU \d+\.\d to \d+\.\d|no BLEU", claim), claim
        assert re.search(r"\d+ (?:pairs of )?models|\d+ text architectures", claim), claim
        assert "would overturn it" in claim, claim
        assert len(LINK.findall(claim)) == 1, claim


def test_a_loss_comes_with_bleu_or_percent_of_perplexity() -> None:
    assert not re.search(r"\bnats\b", PAGE.read_text("utf-8"))


def test_figures_of_the_readme_stand_among_the_findings() -> None:
    text = (PAGE.parents[1] / "README.md").read_text("utf-8").split("## Results\n")[1]
    said = " ".join(re.findall(r"^\* .+", text, flags=re.MULTILINE))
    numbers = re.findall(r"\d+(?:\.\d+)?", said)
    assert len(numbers) > 8
    assert set(numbers) <= {*re.findall(r"\d+(?:\.\d+)?", section("Five claims"))}
