"""Processes that train together must train the same model on the same pairs."""

import json
from pathlib import Path

from attnlab.corpora.corpus import ParallelCorpus
from attnlab.errors import InputError
from attnlab.processes import Processes
from attnlab.translation.preparing import Prepared
from attnlab.translation.tokenizer import Tokenizers, checksum


def refuse_differences(
    processes: Processes,
    prepared: Prepared,
    corpus: ParallelCorpus,
    tokenizers: Tokenizers,
    checkpoint: Path | None,
) -> None:
    """Raises InputError where processes would not train the same model on the same pairs."""
    facts = {
        "settings": json.dumps(prepared.settings.as_dict()),
        "corpus": corpus.checksum,
        "tokenizers": [checksum(one) for one in (tokenizers.source, tokenizers.target)],
        "checkpoint": checkpoint and checkpoint.name,
        "precision": "bf16" if prepared.arguments.bf16 else "fp32",
        "number of processes": prepared.arguments.world_size,
    }
    for number, other in enumerate(processes.gather(facts)):
        for name, fact in facts.items():
            if other[name] != fact:
                msg = (
                    f"Process {number} has another {name} than process {processes.index}; give all of "
                    "them the same options and files."
                )
                raise InputError(msg)
    if prepared.arguments.world_size != processes.count:
        msg = (
            f"There are {processes.count} processes, but transformers sees "
            f"{prepared.arguments.world_size}; start them with torchrun or accelerate launch."
        )
        raise InputError(msg)
