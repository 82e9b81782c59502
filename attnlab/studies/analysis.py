"""What the heads of a model do on some sentences, as tables: what `attnlab analyze` computes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from attnlab.errors import InputError
from attnlab.heads.batches import Text
from attnlab.heads.capture import Passage, stream
from attnlab.heads.keeping import KeptMatrices, MatrixKeeper
from attnlab.heads.statistics import HeadStatistics
from attnlab.heads.taps import SITES
from attnlab.studies.fits import BandFits, OffsetProfiles
from attnlab.studies.sources import Subject, load_subject

Progress = Callable[[str, int, int], None]
SENTENCES = 200
FIT_SENTENCES = 100
KEPT_MATRICES = 3


@dataclass(frozen=True)
class Analysis:
    """Tables of one analysis.

    Attributes:
        heads: one row a head, see `HeadStatistics.heads`.
        distances: one row a pair of heads of one layer: Jensen-Shannon distance.
        fits: one row a head, sentence and approximation, see `BandFits`.
        matrices: the matrices of the first sentences, with their tokens.
        about: what was analyzed, in words, in the order to print it.
        warnings: what a reader must know before trusting a number.
    """

    heads: pd.DataFrame
    distances: pd.DataFrame
    fits: pd.DataFrame
    matrices: KeptMatrices
    about: Mapping[str, str]
    warnings: tuple[str, ...] = field(default_factory=tuple)


def analyze(
    source: str | Path | tuple[Any, Any],
    *,
    sentences: int | Sequence[Text] = SENTENCES,
    text: Path | None = None,
    corpus: str | None = None,
    pair: str = "en-it",
    sites: Sequence[str] | None = None,
    keep_matrices: int = KEPT_MATRICES,
    fit_sentences: int = FIT_SENTENCES,
    batch_size: int = 32,
    device: str | None = None,
    progress: Progress | None = None,
) -> Analysis:
    """Statistics, band distances and a few whole matrices of every head of a model.

    Args:
        source: a run folder, a transformers folder or hub name, or a pair (model, tokenizer).
        sentences: how many held-out sentences, or the sentences themselves.
        text: a file with one sentence a line, instead of the run's own corpus.
        corpus: a corpus by name or path, instead of the run's own.
        pair: languages of `corpus`.
        sites: any of encoder, decoder, cross; None for all there are.
        keep_matrices: how many of the first sentences to keep whole.
        fit_sentences: how many of the first sentences to measure against bands.
        batch_size: most sentences in one forward pass.
        device: where the model runs, such as `cpu` or `cuda`; None: a GPU if there is one.
        progress: called with (what is being done, sentences done, sentences in all).

    Raises:
        InputError: the source, the sentences or a site cannot be used.
        AttnlabError: a layer whose weights are no attention weights.
    """
    _refuse(sites, batch_size=batch_size, keep_matrices=keep_matrices, fit_sentences=fit_sentences)
    place = _place(device)
    subject = _subject(source, sentences, text, corpus, pair)
    model = subject.model.to(place)
    texts = subject.texts
    if not model.config.is_encoder_decoder:
        texts = tuple(t[0] if isinstance(t, tuple) else t for t in texts)
    statistics, profiles = HeadStatistics(), OffsetProfiles()
    keeper, fits = MatrixKeeper(keep_matrices, 64 * 2**20), BandFits(profiles, fit_sentences)

    def run(what: str, some: Sequence[Text], consumers: Sequence[Any]) -> Passage:
        tell = None if progress is None else (lambda done, total: progress(what, done, total))
        return stream(
            model, subject.tokenizer, some, consumers,
            sites=sites, batch_size=batch_size, progress=tell,
        )  # fmt: skip

    passage = run("Capturing heads", texts, [statistics, profiles, keeper])
    if fit_sentences > 0:
        # A second pass, because the mean over the other sentences is known only after the first.
        run("Measuring bands", texts[:fit_sentences], [fits])
    kept = keeper.kept()
    return Analysis(
        heads=statistics.heads(),
        distances=statistics.distances(),
        fits=fits.fits(),
        matrices=kept,
        about=_about(source, subject, passage, len({number for number, _ in kept.tokens})),
        warnings=tuple(_warnings(passage, len(texts), statistics, kept, keep_matrices)),
    )


def _refuse(sites: Sequence[str] | None, **numbers: int) -> None:
    for site in sites or ():
        if site not in SITES:
            msg = f"There is no site '{site}'; choose from: {', '.join(SITES)}."
            raise InputError(msg)
    for name, number in numbers.items():
        if number < (1 if name == "batch_size" else 0):
            msg = f"--{name.replace('_', '-')} must be a positive number, not {number}."
            raise InputError(msg)


def _place(device: str | None) -> torch.device:
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        msg = f"Device '{device}' cannot be used here ({str(error).splitlines()[0]}); try cpu."
        raise InputError(msg) from error
    return torch.device(device)


def _subject(
    source: str | Path | tuple[Any, Any],
    sentences: int | Sequence[Text],
    text: Path | None,
    corpus: str | None,
    pair: str,
) -> Subject:
    if isinstance(source, tuple):
        if isinstance(sentences, int):
            msg = "A model without a folder brings no sentences; hand them in as sentences=[...]."
            raise InputError(msg)
        return Subject(*source, tuple(sentences), "sentences handed in")
    return load_subject(source, sentences=sentences, text=text, corpus=corpus, pair=pair)


def _about(
    source: str | Path | tuple[Any, Any], subject: Subject, passage: Passage, kept: int
) -> dict[str, str]:
    import transformers

    from attnlab import __version__

    model = subject.model
    layers = ", ".join(f"{site}: {count}" for site, count in passage.layers.items())
    parameters = sum(parameter.numel() for parameter in model.parameters())
    described = {
        "Source": type(model).__name__ if isinstance(source, tuple) else str(source),
        "Model": f"{type(model).__name__}, {parameters:,} parameters",
        **subject.details,
        "Layers": layers,
        "Sentences": f"{passage.sentences} from {subject.origin}",
        "Matrices kept": f"{kept} sentences",
        "Decoder input": "the reference translation (teacher forcing)"
        if "decoder" in passage.layers and model.config.is_encoder_decoder
        else "",
        "Device": str(model.device),
        "Versions": f"attnlab {__version__}, torch {torch.__version__}, "
        f"transformers {transformers.__version__}",
    }
    return {name: value for name, value in described.items() if value}


def _warnings(
    passage: Passage, texts: int, statistics: HeadStatistics, kept: KeptMatrices, wanted: int
) -> list[str]:
    found = [
        f"{count} of {texts} sentences were left out: {reason}."
        for reason, count in passage.dropped.items()
    ]
    if not passage.streamed:
        found.append(
            "This model's layers could not be read one at a time, so all layers of a batch were "
            "held in memory at once."
        )
    empty = int(statistics.heads()["empty_rows"].sum())
    if empty:
        found.append(f"{empty} rows of attention saw no key at all and count with entropy 0.")
    if kept.left_out:
        found.append(
            f"{len(kept.left_out)} of the {wanted} sentences to keep were too large for 64 MiB."
        )
    if passage.sentences < 30:
        found.append(
            f"Only {passage.sentences} sentences: means may be far from those of a corpus."
        )
    return found
