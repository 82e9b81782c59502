"""`attnlab mechanisms`: which attention mechanisms there are, what each can do, and what one costs."""

from typing import Annotated

import typer
from rich.padding import Padding
from rich.text import Text

from attnlab.cli.output import new_table, output, print_json, print_table, results

LENGTHS = (32, 128, 512, 2048)
HEAD_DIM = 64


def mechanisms(
    mechanism: Annotated[
        str | None,
        typer.Argument(
            help='Mechanism to look at, as it is written in --attention: "band(window=3)".'
        ),
    ] = None,
) -> None:
    """List the attention mechanisms with their options and abilities, or show what one costs."""
    if mechanism is None:
        _print_catalogue()
    else:
        _print_cost(mechanism)


def _print_catalogue() -> None:
    from attnlab.attention.registry import catalogue

    table = new_table("mechanism", "causal", "cross", "linear cost", "rows sum to 1", "learns")
    entries = catalogue()
    if output().as_json:
        print_json(mechanisms=[vars(entry) | {"traits": vars(entry.traits)} for entry in entries])
        return
    for entry in entries:
        traits = entry.traits
        flags = (
            traits.causal,
            traits.cross,
            traits.subquadratic,
            traits.stochastic,
            traits.learned,
        )
        table.add_row(entry.name, *("yes" if yes else "no" for yes in flags))
    print_table(table)
    console = results()
    for entry in entries:
        options = f"({entry.options})" if entry.options else ""
        console.print(f"\n{entry.name}{options}")
        lines = [f"{entry.summary} [{entry.source}]"]
        lines += [f"{option}: {', '.join(words)}" for option, words in entry.choices.items()]
        console.print(Padding(Text("\n".join(lines)), (0, 0, 0, 4)))
    console.print()
    console.print(
        "Write one as in encoder=band(window=3); an option with no value has to be given. "
        'See what one costs with: attnlab mechanisms "band(window=3)"'
    )


def _print_cost(text: str) -> None:
    from attnlab.attention.registry import cost_of, parse

    costs = {
        tokens: (cost_of(text, tokens, HEAD_DIM), cost_of("full", tokens, HEAD_DIM))
        for tokens in LENGTHS
    }
    if output().as_json:
        rows = [
            {"tokens": tokens, **vars(cost), "full_multiply_adds": full.multiply_adds}
            for tokens, (cost, full) in costs.items()
        ]
        print_json(mechanism=str(parse(text)), head_dim=HEAD_DIM, costs=rows)
        return
    console = results()
    console.print(f"{parse(text)}, one head of {HEAD_DIM}, against full attention")
    headings = ("tokens", "million multiply-adds", "share of full", "kept for training (kB)")
    table = new_table(*headings, numbers=headings)
    for tokens, (cost, full) in costs.items():
        share = cost.multiply_adds / full.multiply_adds
        numbers = (f"{cost.multiply_adds / 1e6:.2f}", f"{share:.1%}", f"{cost.bytes / 1e3:.0f}")
        table.add_row(str(tokens), *numbers)
    print_table(table)
