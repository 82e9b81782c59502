"""A model on three parts of its corpus: what learns, what chooses, and what is reported on."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from attnlab.extraction.batches import Encoding, encode
from attnlab.extraction.observing import Observed, observe, sites_of
from attnlab.studies.evaluation import Evaluator
from attnlab.studies.settings import Progress


class Parts(NamedTuple):
    """The model on three parts of its corpus; no source is in two of them."""

    test: Evaluator
    validation: Evaluator
    calibration: Evaluator


def parts_of(test: Evaluator, calibration: int, validation: int) -> Parts:
    """Training sentences to learn on and validation sentences to choose on, beside the test sentences.

    Args:
        test: the model on its test sentences.
        calibration: number of training sentences at most.
        validation: number of validation sentences at most.

    Raises:
        InputError: there is no corpus, or nothing is left of a part.
        AttnlabError: the corpus is no longer the one of the training.
    """
    learning = test.on_split("train", calibration)
    return Parts(test, test.on_split("validation", validation, learning), learning)


def encoded(evaluator: Evaluator) -> Encoding:
    """The sentences of a part as the model reads them."""
    texts = [one.text for one in evaluator.examples]
    return encode(evaluator.model, evaluator.tokenizer, texts)


def observe_sentences(
    what: str,
    evaluator: Evaluator,
    receive: Callable[[Observed], None],
    *,
    sites: Sequence[str] | None,
    progress: Progress | None,
) -> None:
    """Hands every layer of every batch of the sentences to `receive`.

    Args:
        what: is being done, for `progress`.
        evaluator: the model with the sentences.
        receive: called with each layer.
        sites: those that are wanted; None: all.
        progress: called with (what, done, in all).
    """
    encoding = encoded(evaluator)
    tell = None if progress is None else (lambda *done: progress(what, *done))
    chosen = sites_of(evaluator.model, encoding, sites)
    observe(
        evaluator.model, encoding, chosen, receive, batch_size=evaluator.batch_size, progress=tell
    )
