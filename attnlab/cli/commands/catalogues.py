"""`attnlab corpora`, `mechanisms` and `doctor`: what can be used here."""

import shutil
from typing import Annotated, Any

import typer
from rich.padding import Padding
from rich.text import Text

from attnlab.cli.output import busy_share, output, print_json, results
from attnlab.cli.progress import progress_bars
from attnlab.core import (
    BUSY_SHARE,
    LIBRARIES,
    OPTIONAL,
    InputError,
    counted,
    new_table,
    print_table,
    usable_processors,
    variables_to_set,
    version_of,
    versions,
)


def corpora(
    corpus: Annotated[
        str | None,
        typer.Argument(help="Corpus to look at: a path, embedded, or a name on the hub."),
    ] = None,
    pair: Annotated[
        str | None,
        typer.Option(help="Source and target language (default: en-it, or the first there is)."),
    ] = None,
    document: Annotated[
        int, typer.Option(help="Number of consecutive sentences that are joined into a document.")
    ] = 1,
) -> None:
    """Prints the table of corpora, or of the parts of one."""
    if corpus is None:
        if pair is not None or document != 1:
            msg = "--pair and --document are of one corpus; name it: attnlab corpora NAME."
            raise InputError(msg)
        _print_corpora()
    else:
        _print_summary(corpus, pair, document)


def _print_corpora() -> None:
    from attnlab.corpora import catalogue

    if output().as_json:
        print_json(corpora=[vars(entry) for entry in catalogue()])
        return
    prose = ("languages or form", "size")
    table = new_table("--corpus", *prose, "network", prose=prose)
    for entry in catalogue():
        network = "not needed" if entry.offline else "needed once"
        table.add_row(entry.name, entry.languages, entry.size, network)
    print_table(table)
    results().print(
        "Files may end in .gz. Choose languages with --pair, and see a corpus with: "
        "attnlab corpora PATH"
    )


def _print_summary(name: str, pair: str | None, document: int) -> None:
    from attnlab.corpora import DEFAULT_PAIR, list_pairs, load_corpus, summarise_corpus

    pairs = list_pairs(name)
    chosen = pair or next(iter(pairs), DEFAULT_PAIR)
    with progress_bars() as tell:
        corpus = load_corpus(name, pair=chosen, document=document, progress=tell)
    summary = summarise_corpus(corpus)
    if output().as_json:
        print_json(splits=summary, pairs=list(pairs), checksum=corpus.checksum)
        return
    console = results()
    console.print(
        f"{name}, {corpus.source_language}-{corpus.target_language}, "
        f"checksum {corpus.checksum[:12]}"
    )
    if len(pairs) > 1:
        console.print(f"Pairs: {', '.join(pairs)}")
    numbers = ("pairs", "mean words", "95 % at most")
    table = new_table("split", "language", *numbers, numbers=numbers)
    for _, row in summary.iterrows():
        counts = (f"{row['pairs']:,}", f"{row['words_mean']:.1f}", f"{row['words_percentile_95']}")
        table.add_row(row["split"], row["language"], *counts)
    print_table(table)


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
    """Prints the table of mechanisms, or the cost of one."""
    if mechanism is None:
        _print_catalogue()
    else:
        _print_cost(mechanism)


def _print_catalogue() -> None:
    from attnlab.attention import catalogue

    table = new_table(
        "mechanism", "causal", "cross", "linear cost", "rows with keys sum to 1", "learns"
    )
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
    from attnlab.attention import cost_of, parse

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


def doctor() -> None:
    """Prints versions, devices, optional parts and how busy the machine is."""
    facts = _facts()
    if output().as_json:
        print_json(**facts)
        return
    table = new_table("part", "version")
    for name, version in facts["versions"].items():
        table.add_row(name, version or f"missing; run: pip install {name}")
    print_table(table)
    console = results()
    console.print(f"\nDevices: {', '.join(facts['devices'])}", soft_wrap=True, highlight=False)
    console.print(
        f"Processor threads: {facts['threads']}; {counted(facts['processors'], 'processor')} may be used, of "
        f"which other processes have {facts['busy']:.0%}"
    )
    if facts["set_in_python"]:
        variables = " ".join(f"{name}={value}" for name, value in facts["set_in_python"].items())
        console.print(f"In Python set {variables} before torch is imported; commands do.")
    console.print(f"Free disk here: {facts['free_gib']:.0f} GiB\n")
    optional = new_table("optional part", "version", "for", "extra", prose=("for",))
    for part in facts["optional"]:
        version = part["version"] or "missing"
        optional.add_row(part["name"], version, part["purpose"], part["extra"])
    print_table(optional)
    missing = [part["name"] for part in facts["optional"] if part["version"] is None]
    if missing:
        console.print(f"Install what is missing by its name, such as: pip install {missing[0]}")


def _facts() -> dict[str, Any]:
    optional, busy = {part.name for part in OPTIONAL}, busy_share()
    libraries = {name: version_of(name) for name in LIBRARIES if name not in optional}
    return {
        "versions": versions(()) | libraries,
        "devices": _devices() if libraries["torch"] else ["none: torch is missing"],
        "threads": _threads() if libraries["torch"] else 0,
        "processors": usable_processors(),
        "busy": busy,
        "set_in_python": variables_to_set(busy=busy >= BUSY_SHARE),
        "free_gib": shutil.disk_usage(".").free / 2**30,
        "optional": [vars(part) | {"version": version_of(part.name)} for part in OPTIONAL],
    }


def _threads() -> int:
    import torch

    return torch.get_num_threads()


def _devices() -> list[str]:
    """The processor, and every GPU with its memory."""
    import torch

    devices = ["cpu"]
    for index in range(torch.cuda.device_count()):
        gpu = torch.cuda.get_device_properties(index)
        devices.append(f"cuda:{index} ({gpu.name}, {gpu.total_memory / 2**30:.0f} GiB)")
    if torch.backends.mps.is_available():
        devices.append("mps")
    return devices
