"""A model evaluated by its loss and its translations on held-out sentences, whatever is done to its heads.

All that stands under the hooks of `attnlab.ablation` counts: ablated heads, gates, watched outputs. Greedy
decoding with a cache goes through the same projections as the loss under teacher forcing.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlab.ablation import Means, Projections, Replacement, ablate_each, projections_of
from attnlab.attention import mark_ids
from attnlab.core import (
    BATCH_SIZE,
    SITES,
    Head,
    InputError,
    Progress,
    ShortRepr,
    input_device,
    usable_device,
)
from attnlab.corpora import ParallelCorpus
from attnlab.evaluation.loss_kinds import DISTANCES, LossKind
from attnlab.evaluation.losses import (
    MASK_SEED,
    FinalStates,
    all_labelled,
    cross_entropy,
    final_states,
    loss_of,
    mask_tokens,
    state_distances,
)
from attnlab.evaluation.shared_settings import Steps, TextSettings
from attnlab.evaluation.sources import Texts, first_texts, model_and_texts
from attnlab.models import IGNORED_LABEL, Model, Source, Tokenizers, translate_ids
from attnlab.reading import (
    GREEDY,
    Sentences,
    Text,
    check_embedded,
    few_tokens,
    inputs_of,
    read_sentences,
    ready_to_show,
    source_of,
    without_cache,
)


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


def scored_batches(sentences: Sentences, size: int, model: Any) -> Iterator[ScoredBatch]:
    """Sentences of like length together, longest first, on the device of the model."""
    places = {row.number: place for place, row in enumerate(sentences.usable)}
    for batch in sentences.batches(size, weights_a_cell=1):
        longest = max(len(row.labels) for row in batch)
        labels = [[*row.labels, *[IGNORED_LABEL] * (longest - len(row.labels))] for row in batch]
        yield ScoredBatch(
            tuple(places[row.number] for row in batch),
            inputs_of(model, sentences.axes(batch, model.device)),
            torch.tensor(labels, device=input_device(model.device)),
        )


@dataclass(frozen=True, repr=False)
class Evaluator(ShortRepr):
    """A model with the sentences that it is evaluated on, made by `evaluator_of`.

    Attributes:
        loaded: in eval mode, with its tokenizer.
        sentences: those on which it has a loss.
        loss: what it is evaluated by.
        find_projections: finds where its heads are apart, once for all evaluators of the model.
        batches: the sentences in batches of like length, longest first.
        batch_size: most sentences in one forward pass.
        seed: of the tokens that are masked, where the loss is theirs.
        corpus: the corpus that other sentences can come from, if there is one, loaded when first called.
        untouched: final states of the model as it was, where the loss is their distance.
        texts: what the sentences were read from, where `load_evaluator` found it.
    """

    loaded: Model
    sentences: Sentences
    loss: LossKind
    find_projections: Callable[[], Projections]
    batches: tuple[ScoredBatch, ...]
    batch_size: int
    seed: int = MASK_SEED
    corpus: Callable[[], ParallelCorpus] | None = None
    untouched: FinalStates | None = None
    texts: Texts = Texts(())

    def __len__(self) -> int:
        return len(self.sentences)

    @property
    def model(self) -> Any:
        """The transformers model."""
        return self.loaded.model

    @property
    def projections(self) -> Projections:
        """The projections before which its heads are apart, found at first use.

        Raises:
            AttnlabError: heads of the model cannot be told apart, see `projections_of`.
        """
        return self.find_projections()

    def sites_among(self, sites: Sequence[str] | None) -> tuple[str, ...]:
        """The sites of its heads, those that are asked for; None for all.

        Raises:
            InputError: it has no heads at one of them.
        """
        available = dict.fromkeys(site for site, _ in self.projections)
        missing = [site for site in sites or () if site not in available]
        if missing:
            msg = f"The model has no {missing[0]} attention; it has: {', '.join(available)}."
            raise InputError(msg)
        return tuple(site for site in SITES if site in (available if sites is None else sites))

    @property
    def dropped(self) -> int:
        """Number of sentences left out, since they are empty, too long or without a token to predict."""
        return sum(group.count for group in self.sentences.dropped)

    @property
    def scores(self) -> bool:
        """Whether the loss is that of tokens, and no distance from the untouched model."""
        return self.untouched is None

    @property
    def translates(self) -> bool:
        """Whether the model is an encoder-decoder, so that it can be evaluated by BLEU too."""
        return bool(self.model.config.is_encoder_decoder)

    @property
    def references(self) -> list[str]:
        """The translations that were handed in; none for a model of one stack."""
        pairs = [text for text in self.sentences.usable_texts if isinstance(text, tuple)]
        return [target for _, target in pairs] if self.translates else []

    @property
    def tokens(self) -> Float[Tensor, " sentence"]:
        """Number of tokens that each sentence's loss sums over."""
        counts = [
            len(sentence.labels) - sentence.labels.count(IGNORED_LABEL)
            for sentence in self.sentences.usable
        ]
        return torch.tensor(counts, dtype=torch.float64)

    def run(self, batch: ScoredBatch) -> Any:
        """The model's outputs, under teacher forcing where it has a decoder."""
        return self.model(**batch.inputs, **without_cache(self.model), return_dict=True)

    def real(self, batch: ScoredBatch, site: str) -> Bool[Tensor, "batch query"]:
        """True where a query of `site` is a real token."""
        if site == "encoder":
            return batch.inputs["attention_mask"].bool()
        return batch.labels != IGNORED_LABEL

    def example_losses(self, batch: ScoredBatch) -> Float[Tensor, " example"]:
        """Each sentence's loss summed over its tokens; differentiable."""
        if self.untouched is None:
            return cross_entropy(self.run(batch).logits, batch.labels)
        states = final_states(self.model, batch.inputs)
        numbers = [self.sentences.usable[place].number for place in batch.numbers]
        before = self.untouched.of(numbers, states)
        return state_distances(states, before, batch.labels, self.loss)

    @torch.inference_mode()
    def losses(self) -> Float[Tensor, " sentence"]:
        """Each sentence's loss summed over its tokens, in order."""
        losses = torch.zeros(len(self), dtype=torch.float64)
        for batch in self.batches:
            losses[list(batch.numbers)] = self.example_losses(batch).cpu()
        return losses

    def whole_losses(self) -> Float[Tensor, " sentence"]:
        """`losses` of the model as it stands, before something in it is replaced.

        Raises:
            InputError: one of them is no number, as where weights are none or float16 overflows.
        """
        losses = self.losses()
        if not bool(losses.isfinite().all()):
            msg = (
                f"The loss of {self.loaded.label} is no finite number on these sentences; look for weights "
                "that are NaN or infinite, or load the model in float32."
            )
            raise InputError(msg)
        return losses

    def check_finite(self) -> None:
        """Raises InputError where a loss of the model as it stands is no number, before longer work."""
        self.whole_losses()

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
        if not isinstance(self.loaded.tokenizer, Tokenizers):
            return self._generated(progress)
        return translate_ids(
            self.model,
            self.loaded.tokenizer,
            [sentence.source for sentence in self.sentences.usable],
            beams=1,
            max_tokens=self.sentences.most_tokens,
            progress=progress,
        )

    @torch.inference_mode()
    def _generated(self, progress: Progress | None) -> list[str]:
        decode = self.loaded.both_tokenizers.target.batch_decode
        texts, done = [""] * len(self), 0
        for batch in self.batches:
            pairs = [self.sentences.usable[place] for place in batch.numbers]
            written = self.model.generate(
                batch.inputs["input_ids"],
                attention_mask=batch.inputs["attention_mask"],
                **self.sentences.forced_beginning(pairs, self.model.device),
                **GREEDY,
                max_length=self.sentences.most_tokens,
            )
            decoded = decode(written, skip_special_tokens=True)
            for number, text in zip(batch.numbers, decoded, strict=True):
                texts[number] = text
            done += len(decoded)
            if progress is not None:
                progress("Translating", done, len(texts))
        return texts

    def reading_once(self) -> "Evaluator":
        """The same evaluator with what the encoder makes of the sources kept, for `losses` alone.

        It spares half the work where heads of the encoder are left as they are; a change of theirs
        would go unseen. Mechanisms of cross-attention may be installed later.
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
                mark_ids(encoded, batch.inputs["input_ids"])
            inputs = {name: given for name, given in batch.inputs.items() if name != "input_ids"}
            read.append(replace(batch, inputs={**inputs, "encoder_outputs": encoded}))
        return replace(self, batches=tuple(read))

    def losses_without(
        self,
        heads: Sequence[Head],
        replacement: Replacement,
        steps: Steps,
        means: Means | None = None,
    ) -> dict[Head, Float[Tensor, " sentence"]]:
        """Losses of all sentences with each head replaced alone; behind the encoder this is run once.

        Args:
            heads: in any order.
            replacement: what stands in for them.
            steps: told of each head.
            means: mean outputs by layer, which `mean` needs.
        """
        losses: dict[Head, Tensor] = {}
        for reader, of_encoder in ((self, True), (self.reading_once(), False)):
            part = [head for head in heads if (head.site == "encoder") == of_encoder]
            evaluate = steps.of(reader.losses)
            losses |= ablate_each(self.projections, part, replacement, evaluate, means)
        return {head: losses[head] for head in heads}

    def on(self, texts: Sequence[Text], origin: str = "sentences handed in") -> "Evaluator":
        """The same model evaluated on other sentences.

        Where the loss is the distance of final states, that to those of the model as it stands now.

        Raises:
            InputError: it has no loss on any of them.
        """
        read = read_sentences(self.loaded, texts, origin)
        sentences = _labelled(self.loaded, read, self.loss, self.seed)
        batches = tuple(scored_batches(sentences, self.batch_size, self.model))
        untouched = None if self.untouched is None else _untouched(self.model, sentences, batches)
        return replace(self, sentences=sentences, batches=batches, untouched=untouched)

    def half(self, first: int) -> "Evaluator":
        """The same model evaluated on every other of its sentences, from the one with index `first`."""
        return self._part_evaluator(self.sentences.half(first))

    def first(self, count: int) -> "Evaluator":
        """The same model evaluated on so many of its sentences, the first ones, at most."""
        return self._part_evaluator(replace(self.sentences, usable=self.sentences.usable[:count]))

    def _part_evaluator(self, sentences: Sentences) -> "Evaluator":
        batches = tuple(scored_batches(sentences, self.batch_size, self.model))
        return replace(self, sentences=sentences, batches=batches)

    def on_split(self, split: str, count: int) -> "Evaluator":
        """The same model evaluated on the first pairs of another part of its corpus.

        Pairs whose source this evaluator has are left out, so that what is fitted on the one can be
        evaluated on the other.

        Args:
            split: name of the part.
            count: how many at most.

        Raises:
            InputError: there is no corpus, no such part, or nothing is left of it.
            AttnlabError: a run's own corpus is no longer the one of its training.
        """
        if self.corpus is None:
            msg = (
                f"There is no corpus whose {split} part could be used; give a run of attnlab, or "
                "name a corpus."
            )
            raise InputError(msg)
        corpus = self.corpus()
        held_out = {source_of(sentence.text) for sentence in self.sentences.texts}
        texts = first_texts(self.loaded, corpus, split, count, without=held_out)
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
    loss: str | None = None,
    seed: int = MASK_SEED,
) -> Evaluator:
    """The model at `source` with held-out sentences to evaluate it on.

    Args:
        source: a run or its folder, a folder or hub name of a transformers model, or a pair (model,
            tokenizer). The model is put in eval mode and on `device`.
        sentences: how many sentences at most, or the sentences themselves: pairs (source, target)
            for an encoder-decoder.
        text: a file of sentences (encoder-decoder: source, tab, translation).
        corpus: a corpus as for `attnlab train`; a run brings its own.
        pair: languages of `corpus`; None: those of the run, or `en-it`.
        batch_size: most sentences in one forward pass.
        device: where the model runs; None: a GPU if there is one.
        loss: see `loss_of`.
        seed: see `mask_tokens`.

    Raises:
        InputError: the source or the sentences cannot be used.
    """
    TextSettings(batch_size=batch_size)  # refuses what it cannot be
    on = usable_device(device)
    model, texts = model_and_texts(
        source, sentences=sentences, text=text, corpus=corpus, pair=pair, scores=True
    )
    model.move_to(on)
    read = read_sentences(model, texts.texts, texts.origin)
    evaluator = evaluator_of(model, read, batch_size, texts.corpus, loss, seed=seed)
    return replace(evaluator, texts=texts)


def scored(model: Model, sentences: Sentences, loss: LossKind = "next tokens") -> Sentences:
    """The sentences on which the model has a loss: of a run pairs no longer than those it was trained on.

    Raises:
        InputError: it has none on any of them.
    """
    if model.model.config.is_encoder_decoder and not sentences.paired:
        msg = (
            "An encoder-decoder is evaluated on pairs; hand in source, tab and translation on each "
            "line."
        )
        raise InputError(msg)
    if loss != "next tokens":
        sentences = all_labelled(sentences)
    return sentences.scored(model.most_tokens, next_tokens=loss == "next tokens")


def loss_kind(model: Model, sentences: Sentences, requested: str | None = None) -> LossKind:
    """The loss that the model is evaluated by, see `loss_of`; found on a few tokens."""
    return loss_of(model, _scores_next(model, sentences), requested)


def _labelled(model: Model, sentences: Sentences, loss: LossKind, seed: int) -> Sentences:
    """The sentences on which the model has a loss, masked where it is that of masked tokens."""
    labelled = scored(model, sentences, loss)
    if loss != "masked tokens":
        return labelled
    masked = mask_tokens(labelled, model.both_tokenizers.source.mask_token_id, seed)
    check_embedded(model, masked)
    return masked


def evaluator_of(
    model: Model,
    sentences: Sentences,
    batch_size: int = BATCH_SIZE,
    corpus: Callable[[], ParallelCorpus] | None = None,
    loss: str | None = None,
    *,
    seed: int = MASK_SEED,
) -> Evaluator:
    """A model with sentences to evaluate it on, where it stands; put in eval mode.

    Args:
        model: with its tokenizer.
        sentences: those on which it has no loss are left out, see `scored`.
        batch_size: most sentences in one forward pass.
        corpus: see `Evaluator`.
        loss: see `loss_of`.
        seed: see `mask_tokens`.

    Raises:
        InputError: none of the sentences can be used.
    """
    model.model.eval()
    kind = loss_kind(model, sentences, loss)
    usable = _labelled(model, sentences, kind, seed)
    batches = tuple(scored_batches(usable, batch_size, model.model))
    return Evaluator(
        loaded=model,
        sentences=usable,
        loss=kind,
        find_projections=cache(partial(_projections, model.model, usable)),
        batches=batches,
        batch_size=batch_size,
        seed=seed,
        corpus=corpus,
        untouched=_untouched(model.model, usable, batches) if kind in DISTANCES else None,
    )


@torch.inference_mode()
def _untouched(model: Any, sentences: Sentences, batches: Sequence[ScoredBatch]) -> FinalStates:
    """The final states of the model as it stands, in memory."""
    states_by_sentence = {}
    for batch in batches:
        states = final_states(model, batch.inputs)
        for place, sentence_states in zip(batch.numbers, states, strict=True):
            sentence = sentences.usable[place]
            # A label may be missing at the end, a state is not.
            states_by_sentence[sentence.number] = sentence_states[: len(sentence.labels)].clone()
    return FinalStates(states_by_sentence)


def _projections(model: Any, sentences: Sentences) -> Projections:
    """Projections of the heads, found on a few tokens; source and target differ in length, as sites do."""
    # Whether heads are apart is seen by gradients, whatever mode the caller is in.
    with torch.inference_mode(mode=False):
        axes = sentences.axes([few_tokens(sentences)], model.device)
        given: dict[str, Any] = inputs_of(model, axes)
        given |= {**without_cache(model), "output_attentions": True, "return_dict": True}
        return projections_of(model, lambda: model(**given))


@torch.inference_mode()
def _scores_next(model: Model, sentences: Sentences) -> bool:
    """Whether the model scores tokens, and no score depends on a later token."""
    inner = model.model
    if inner.config.is_encoder_decoder:
        return inner.get_output_embeddings() is not None
    ids = inputs_of(inner, sentences.axes([few_tokens(sentences)], inner.device))["input_ids"]
    other = ids.clone()
    other[0, -1] = (ids[0, -1] + 1) % inner.config.vocab_size
    # Dropout would look like a later token that is seen.
    with ready_to_show(inner):
        before, after = (
            getattr(inner(input_ids=tokens), "logits", None) for tokens in (ids, other)
        )
    if before is None or after is None or before.ndim != 3:
        return False
    # A score that is no number says nothing of later tokens; that there is one is said of the loss.
    change = (after - before)[:, :-1].nan_to_num().abs().max()
    return bool(change <= 1e-5 * before.nan_to_num().abs().max())
