"""A model evaluated by its loss and its translations on held-out sentences, whatever is done to its heads.

All that stands under the hooks of `attnlab.ablation` counts: ablated heads, gates, watched outputs. Greedy
decoding with a cache goes through the same projections as the loss under teacher forcing.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from attnlab.ablation import Projections, projections_of
from attnlab.core import BATCH_SIZE, InputError, ShortRepr, usable_device
from attnlab.evaluation.shared_settings import Progress, TextSettings
from attnlab.evaluation.sources import Subject, first_pairs, load_subject, source_of
from attnlab.models import IGNORED_LABEL, Source, Tokenizers, translate_ids
from attnlab.reading import (
    Encoding,
    Observed,
    Text,
    TokenizedText,
    both_tokenizers,
    encode,
    most_positions,
    observe,
    sites_of,
    tokenize,
)


@dataclass(frozen=True)
class Example:
    """Token ids of one sentence.

    Attributes:
        text: what they stand for.
        source: what the encoder reads; empty for a model of one stack.
        target: a start token and every token that is predicted, in order.
    """

    text: Text
    source: tuple[int, ...]
    target: tuple[int, ...]


@dataclass(frozen=True)
class ScoredBatch:
    """Sentences of like length, padded; `target` is read up to the last token, `labels` are predicted.

    Attributes:
        numbers: indices of the sentences in the evaluator's order.
        inputs: what the model is called with.
        labels: ids that the rows of the decoder predict, -100 where there is padding.
    """

    numbers: tuple[int, ...]
    inputs: dict[str, Any]
    labels: Int[Tensor, "batch target"]


def examples_of(
    model: Any, tokenizer: Any, texts: Sequence[TokenizedText], most_tokens: int
) -> tuple[Example, ...]:
    """The texts that have tokens and fit.

    Raises:
        InputError: no texts, no pairs for an encoder-decoder, or none that the model can take.
    """
    both = both_tokenizers(tokenizer)
    if not texts:
        msg = "There are no sentences to evaluate the model on; hand in at least one."
        raise InputError(msg)
    limit = min(most_tokens, both.source.model_max_length)
    special = [set(one.all_special_ids) - {one.unk_token_id} for one in both]
    examples = []
    for one in texts:
        ids, target = _read_and_predicted(model, one)
        full = (not ids or set(ids) - special[0]) and set(target) - special[1]
        if full and len(target) > 1 and max(len(ids), len(target)) <= limit:
            examples.append(Example(one.text, ids, target))
    if not examples:
        msg = (
            f"None of the {len(texts)} sentences can be used: all are empty or over {limit} tokens."
        )
        raise InputError(msg)
    return tuple(examples)


def _read_and_predicted(model: Any, text: TokenizedText) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What the encoder reads, and what is predicted with the start token in front."""
    if not model.config.is_encoder_decoder:
        return (), text.source.ids
    if text.target is None:
        msg = (
            "An encoder-decoder is evaluated on pairs; hand in source, tab and translation on each "
            "line."
        )
        raise InputError(msg)
    start, labels = model.config.decoder_start_token_id, text.target.ids
    begun = start is None or labels[:1] == (start,)
    return text.source.ids, labels if begun else (start, *labels)


def scored_batches(
    examples: Sequence[Example], size: int, tokenizer: Any, model: Any
) -> Iterator[ScoredBatch]:
    """Sentences of like length together, longest first."""
    pad, pad_target = (one.pad_token_id or 0 for one in both_tokenizers(tokenizer))
    order = sorted(
        range(len(examples)), key=lambda n: (-len(examples[n].target), -len(examples[n].source), n)
    )
    for first in range(0, len(order), size):
        numbers = order[first : first + size]
        rows = [examples[number] for number in numbers]
        read = _padded([row.target[:-1] for row in rows], pad_target)
        labels = _padded([row.target[1:] for row in rows], IGNORED_LABEL)
        real = (labels != IGNORED_LABEL).long()
        if model.config.is_encoder_decoder:
            lengths = torch.tensor([len(row.source) for row in rows])
            source = _padded([row.source for row in rows], pad)
            inputs = {
                "input_ids": source,
                "attention_mask": (torch.arange(source.shape[1]) < lengths[:, None]).long(),
                "decoder_input_ids": read,
                "decoder_attention_mask": real,
            }
        else:
            inputs = {"input_ids": read, "attention_mask": real}
        placed = {name: tensor.to(model.device) for name, tensor in inputs.items()}
        yield ScoredBatch(tuple(numbers), placed, labels.to(model.device))


def _padded(rows: Sequence[Sequence[int]], value: int) -> Int[Tensor, "row token"]:
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[value] * (longest - len(row))] for row in rows])


MOST_TOKENS = 512


@dataclass(frozen=True, repr=False)
class Evaluator(ShortRepr):
    """A model with the sentences that it is evaluated on, made by `load_evaluator`.

    Attributes:
        model: in eval mode; it scores next tokens.
        tokenizer: its tokenizer, or an object with tokenizers `.source` and `.target`.
        projections: where its heads are apart.
        examples: the sentences, those left out that are empty or too long.
        batches: the same in batches of like length, longest first.
        origin: where the sentences come from, in words.
        dropped: how many sentences were left out.
        most_tokens: most tokens of a side of a pair, and of a translation.
        batch_size: most sentences in one forward pass.
        subject: the model's history, as `load_subject` gives it.
    """

    model: Any
    tokenizer: Any
    projections: Projections
    examples: tuple[Example, ...]
    batches: tuple[ScoredBatch, ...]
    origin: str
    dropped: int
    most_tokens: int
    batch_size: int
    subject: Subject

    @property
    def translates(self) -> bool:
        """Whether the model is an encoder-decoder, so that it can be evaluated by BLEU too."""
        return bool(self.model.config.is_encoder_decoder)

    @property
    def references(self) -> list[str]:
        """The translations that were handed in; none for a model of one stack."""
        pairs = [one.text for one in self.examples if isinstance(one.text, tuple)]
        return [target for _, target in pairs] if self.translates else []

    @property
    def tokens(self) -> Float[Tensor, " sentence"]:
        """How many tokens each sentence's loss sums over."""
        return torch.tensor([len(one.target) - 1.0 for one in self.examples], dtype=torch.float64)

    def run(self, batch: ScoredBatch) -> Any:
        """The model's outputs under teacher forcing."""
        return self.model(**batch.inputs, use_cache=False, return_dict=True)

    def real(self, batch: ScoredBatch, site: str) -> Bool[Tensor, "batch query"]:
        """True where a query of `site` is a real token."""
        if site == "encoder":
            return batch.inputs["attention_mask"].bool()
        return batch.labels != IGNORED_LABEL

    def example_losses(self, batch: ScoredBatch) -> Float[Tensor, " example"]:
        """Each sentence's summed cross-entropy without label smoothing, in nats; differentiable."""
        logits = self.run(batch).logits
        exact = logits.to(torch.promote_types(logits.dtype, torch.float32))
        found = F.cross_entropy(
            exact.flatten(0, 1),
            batch.labels.flatten(),
            ignore_index=IGNORED_LABEL,
            reduction="none",
        )
        return found.view(batch.labels.shape).double().sum(1)

    @torch.inference_mode()
    def losses(self) -> Float[Tensor, " sentence"]:
        """Each sentence's summed cross-entropy without label smoothing, in nats, in order."""
        found = torch.zeros(len(self.examples), dtype=torch.float64)
        for batch in self.batches:
            found[list(batch.numbers)] = self.example_losses(batch).cpu()
        return found

    def translations(self, progress: Progress | None = None) -> list[str]:
        """Greedy translations in order, as `attnlab score --beams 1` writes them.

        Args:
            progress: called with ("Translating", sentences done, in all).

        Raises:
            InputError: the model is no encoder-decoder.
        """
        if not self.translates:
            msg = (
                f"{type(self.model).__name__} has one stack and translates nothing; evaluate it by "
                "its loss alone."
            )
            raise InputError(msg)
        if isinstance(self.tokenizer, Tokenizers):
            sources = [one.source for one in self.examples]
            limit = self.most_tokens
            return translate_ids(
                self.model, self.tokenizer, sources, beams=1, max_tokens=limit, progress=progress
            )
        return self._generated(progress)

    @torch.inference_mode()
    def _generated(self, progress: Progress | None) -> list[str]:
        decode = both_tokenizers(self.tokenizer).target.batch_decode
        texts, done = [""] * len(self.examples), 0
        for batch in self.batches:
            written = self.model.generate(
                batch.inputs["input_ids"],
                attention_mask=batch.inputs["attention_mask"],
                num_beams=1,
                do_sample=False,
                max_length=self.most_tokens,
            )
            found = decode(written, skip_special_tokens=True)
            for number, text in zip(batch.numbers, found, strict=True):
                texts[number] = text
            done += len(found)
            if progress is not None:
                progress("Translating", done, len(texts))
        return texts

    def reading_once(self) -> "Evaluator":
        """The same evaluator with what the encoder makes of the sources kept, for `losses` alone.

        It spares half the work where heads of the encoder are left as they are; a change of theirs
        would go unseen.
        """
        if not self.translates:
            return self
        read = []
        for batch in self.batches:
            with torch.inference_mode():
                encoded = self.model.get_encoder()(
                    input_ids=batch.inputs["input_ids"],
                    attention_mask=batch.inputs["attention_mask"],
                )
            inputs = {name: given for name, given in batch.inputs.items() if name != "input_ids"}
            read.append(replace(batch, inputs={**inputs, "encoder_outputs": encoded}))
        return replace(self, batches=tuple(read))

    def on(self, texts: Sequence[Text], origin: str = "sentences handed in") -> "Evaluator":
        """The same model evaluated on other sentences.

        Raises:
            InputError: no sentence that the model can take.
        """
        tokenized = tokenize(self.model, self.tokenizer, texts)
        examples = examples_of(self.model, self.tokenizer, tokenized, self.most_tokens)
        return self._of(examples, origin, len(texts) - len(examples))

    def half(self, first: int) -> "Evaluator":
        """The same model evaluated on every other of its sentences, from the one with index `first`."""
        return self._of(self.examples[first::2], self.origin, 0)

    def _of(self, examples: tuple[Example, ...], origin: str, dropped: int) -> "Evaluator":
        batches = tuple(scored_batches(examples, self.batch_size, self.tokenizer, self.model))
        return replace(self, examples=examples, batches=batches, origin=origin, dropped=dropped)

    @property
    def sources(self) -> frozenset[str]:
        """The sentences, of pairs their sources."""
        return frozenset(source_of(one.text) for one in self.examples)

    def on_split(self, split: str, sentences: int, *without: "Evaluator") -> "Evaluator":
        """The same model evaluated on the first pairs of another part of its corpus.

        Pairs whose source this evaluator has are left out, so that what is fitted on the one can be
        evaluated on the other.

        Args:
            split: name of the part.
            sentences: how many at most.
            without: others whose sources are left out too.

        Raises:
            InputError: there is no corpus, no such part, or nothing is left of it.
            AttnlabError: a run's own corpus is no longer the one of its training.
        """
        if self.subject.corpus is None:
            msg = (
                f"There is no corpus whose {split} part could be used; give a run of attnlab, or "
                "name a corpus."
            )
            raise InputError(msg)
        corpus = self.subject.corpus()
        held_out = self.sources.union(*(one.sources for one in without))
        texts = first_pairs(corpus, split, sentences, without=held_out)
        return self.on(texts, f"the {split} part of {corpus.name}")


def load_evaluator(
    source: Source,
    *,
    sentences: int | Sequence[Text],
    text: str | Path | None = None,
    corpus: str | None = None,
    pair: str | None = None,
    batch_size: int = BATCH_SIZE,
    device: str | None = None,
) -> Evaluator:
    """The model at `source` with held-out sentences to evaluate it on.

    Args:
        source: a run or its folder, a folder or hub name of a transformers encoder-decoder or of a language
            model that reads from left to right, or a pair (model, tokenizer). The model is put in
            eval mode and on `device`.
        sentences: how many sentences at most, or the sentences themselves: pairs (source, target)
            for an encoder-decoder.
        text: a file of sentences (encoder-decoder: source, tab, translation).
        corpus: a corpus as for `attnlab train`; a run brings its own.
        pair: languages of `corpus`; None: those of the run, or `en-it`.
        batch_size: most sentences in one forward pass.
        device: where the model runs; None: a GPU if there is one.

    Raises:
        InputError: the source or the sentences cannot be used, or the model predicts no tokens.
    """
    TextSettings(batch_size=batch_size)  # refuses what it cannot be
    on = usable_device(device)
    subject = load_subject(
        source, sentences=sentences, text=text, corpus=corpus, pair=pair, scores=True
    )
    subject.model.to(on)
    return evaluator_of(subject, batch_size)


def evaluator_of(
    subject: Subject,
    batch_size: int = BATCH_SIZE,
    texts: Sequence[TokenizedText] | None = None,
) -> Evaluator:
    """A loaded model with its own texts to evaluate it on, where it stands; put in eval mode.

    A run is evaluated on pairs no longer than those it was trained on, any other model on what it can
    read up to `MOST_TOKENS`; longer texts and empty ones are left out.

    Args:
        subject: from `load_subject`.
        batch_size: most sentences in one forward pass.
        texts: the subject's texts, or the first of them, where they are tokenized already.

    Raises:
        InputError: none of the texts can be used, or the model predicts no tokens.
    """
    model, run = subject.model.eval(), subject.run
    longest = MOST_TOKENS if run is None else run.settings.corpus.max_tokens
    most = min(most_positions(model.config), longest)
    if texts is None:
        texts = tokenize(model, subject.tokenizer, subject.texts)
    examples = examples_of(model, subject.tokenizer, texts, most)
    return Evaluator(
        model=model,
        tokenizer=subject.tokenizer,
        projections=_projections(model, examples[0]),
        examples=examples,
        batches=tuple(scored_batches(examples, batch_size, subject.tokenizer, model)),
        origin=subject.origin,
        dropped=len(texts) - len(examples),
        most_tokens=most,
        batch_size=batch_size,
        subject=subject,
    )


def _projections(model: Any, first: Example) -> Projections:
    """Found on a few tokens; source and target differ in length to tell the sites apart.

    Raises:
        InputError: the model predicts no next tokens, so that there is no loss.
    """
    device = model.device
    target = torch.tensor([(first.target * 5)[:5]], device=device)
    if model.config.is_encoder_decoder:
        given = {
            "input_ids": torch.tensor([(first.source * 3)[:3]], device=device),
            "decoder_input_ids": target,
        }
    else:
        given = {"input_ids": target}
        if not _predicts(model, target):
            msg = (
                f"{type(model).__name__} does not predict the next token, so there is no loss to "
                "evaluate its heads by; give an encoder-decoder or a language model that reads from "
                "left to right."
            )
            raise InputError(msg)
    return projections_of(
        model, lambda: model(**given, use_cache=False, output_attentions=True, return_dict=True)
    )


@torch.inference_mode()
def _predicts(model: Any, ids: Int[Tensor, "1 token"]) -> bool:
    """Whether the model scores tokens, and no score depends on a later token."""
    before = getattr(model(input_ids=ids), "logits", None)
    if before is None:
        return False
    other = ids.clone()
    other[0, -1] = (ids[0, -1] + 1) % model.config.vocab_size
    after = model(input_ids=other).logits
    change = (after - before)[:, :-1].abs().max()
    return before.ndim == 3 and bool(change <= 1e-5 * before.abs().max())


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
