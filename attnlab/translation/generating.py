"""What a language model writes, and how well it predicts a part of its corpus."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from attnlab.errors import InputError
from attnlab.translation.batches import LengthGroupedBatches, TokenPairs, collator
from attnlab.translation.configuration import IGNORED_LABEL
from attnlab.translation.encoding import encode_rows
from attnlab.translation.randomness import seeded
from attnlab.translation.runs.run import Run
from attnlab.translation.scoring import perplexity
from attnlab.translation.settings import GenerationSettings

BATCH_TOKENS = 4096


@torch.inference_mode()
def generate(
    run: Run, prompt: str | None = None, settings: GenerationSettings | None = None
) -> list[str]:
    """Texts that a language model writes behind `prompt`, which is their beginning.

    The global random state is the same afterwards.

    Raises:
        InputError: the run is no language model, or the prompt is empty or as long as a text may be.
    """
    chosen = settings or GenerationSettings()
    model, tokenizer = run.language_model, run.tokenizers.source
    if prompt is not None and not prompt.strip():
        msg = "The prompt is empty; leave it out to let the model begin."
        raise InputError(msg)
    # Without the end token, behind which nothing comes.
    ids = [tokenizer.bos_token_id] if prompt is None else tokenizer(prompt)["input_ids"][:-1]
    most = chosen.max_tokens or run.settings.corpus.max_tokens
    if len(ids) >= most:
        msg = f"The prompt has {len(ids)} tokens, which leaves nothing to write of {most}."
        raise InputError(msg)
    sampling: dict[str, Any] = {"do_sample": False, "num_return_sequences": 1}
    if chosen.temperature > 0:
        sampling = {
            "do_sample": True,
            "temperature": chosen.temperature,
            # 0 means all to transformers, whose own default is 50.
            "top_k": chosen.top_k or 0,
            "num_return_sequences": chosen.samples,
        }
    with seeded(chosen.seed):
        written = model.generate(
            torch.tensor([ids], device=model.device), num_beams=1, max_length=most, **sampling
        )
    return tokenizer.batch_decode(written, skip_special_tokens=True)


@torch.inference_mode()
def score_language_model(
    run: Run, *, split: str = "test", progress: Callable[[str, int, int], None] | None = None
) -> dict[str, Any]:
    """Loss per token in nats, perplexity and bits per character on a part of the run's corpus.

    The end of a text counts as a token; its beginning is given. Texts longer than the run's limit are
    left out, as in training, and counted in `dropped`. Bits per character can be compared between
    models of different vocabularies.

    Raises:
        InputError: there is no such part, no text of it is short enough, or the run is no language
            model.
        AttnlabError: the corpus is no longer the one of the training.
    """
    model, rows = run.language_model, run.corpus().part(split)
    limit = run.settings.corpus.max_tokens
    encoded = encode_rows(rows, run.tokenizers, limit, f"Encoding {split}", "source")
    if not len(encoded):
        msg = f"None of the {len(rows)} texts of the {split} part has at most {limit} tokens."
        raise InputError(msg)
    texts = TokenPairs(encoded)
    lengths = np.asarray(texts.source_lengths)
    collate = collator(run.settings)
    loss, tokens, done = 0.0, 0, 0
    for batch in LengthGroupedBatches(lengths, lengths, batch_tokens=BATCH_TOKENS, shuffle=False):
        inputs = collate([texts[index] for index in batch])
        count = int((inputs["labels"] != IGNORED_LABEL).sum())
        here = {name: tensor.to(model.device) for name, tensor in inputs.items()}
        loss += float(model(**here).loss) * count
        tokens, done = tokens + count, done + len(batch)
        if progress is not None:
            progress("Scoring", done, len(texts))
    characters = sum(len(rows[index]["source"]) for index in encoded["row"][:])
    return {
        "split": split,
        "loss_nats": loss / tokens,
        "perplexity": perplexity(loss / tokens),
        "bits_per_character": loss / math.log(2) / characters,
        "tokens": tokens,
        "sentences": len(texts),
        "dropped": len(rows) - len(texts),
    }
