"""All attention heads of a model on one sentence, as one page: computed for it, or kept by an analysis."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeGuard, cast

import torch
from markupsafe import Markup
from torch import Tensor, nn

from attnlab.core import (
    AttnlabError,
    InputError,
    Note,
    address_of,
    arguments_told,
    briefly,
    check_value,
    counted,
    holds_result,
    layer_name,
    no_such_head,
    versions,
    write_text,
)
from attnlab.models import Model, Source, handed_in, model_of
from attnlab.reading import (
    ATTENTION,
    CONTRIBUTION,
    TOLERANCES,
    WEIGHTS_OPTION,
    Audio,
    Capture,
    KeptMatrices,
    Observed,
    Sentences,
    Text,
    kept_weights,
    lowered,
    matrices_of_text,
    observe,
    ready_to_show,
    sentences_of,
    translated,
)
from attnlab.results.page.kept_sentences import kept_viewer, plain_heads, sentence_text
from attnlab.results.page.rendering import (
    Overview,
    StoredVectors,
    ViewerData,
    render_page,
    stored_vectors,
)
from attnlab.results.provenance import call_in_words, versions_in_words, words_of_showing
from attnlab.results.result import Result
from attnlab.results.result_files import check_file_free, check_page_name

# Of the matrices of one text; a page holds far less.
_MOST_BYTES = 2**29
# Of its queries and keys, a byte each.
_MOST_VECTOR_BYTES = 4_000_000


@dataclass(frozen=True)
class HeadViewer:
    """A page of heads, which a notebook shows in a frame.

    Attributes:
        page: as HTML; it needs nothing else.
        shown: the name of the head that it opens with, or none.
        height: of the frame, in pixels.
    """

    page: str
    shown: str | None
    height: int

    def __repr__(self) -> str:
        what = self.shown or "all heads"
        return f"HeadViewer({what}, {len(self.page) / 2**20:.1f} MiB)"

    def _repr_html_(self) -> str:
        frame = Markup(
            '<iframe srcdoc="{}" sandbox="allow-scripts allow-downloads" title="Attention heads" '
            'style="width:100%;height:{}px;border:0"></iframe>'
        )
        return str(frame.format(self.page, self.height))

    def __getattr__(self, name: str) -> Any:
        """Raises AttributeError with what there is to call.

        Raises:
            AttributeError: always.
        """
        msg = (
            f"A page of heads has no {briefly(name)}; write(path) writes it, and page is its HTML."
        )
        raise AttributeError(msg)

    def write(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Writes the page to a file.

        Raises:
            InputError: its name does not end in `.html`, or the file is there and not to be replaced, or of
                a model.
            AttnlabError: it could not be written.
        """
        check_page_name(path)
        check_file_free(path, {}, overwrite=overwrite, option="path")
        write_text(Path(path), self.page)


@arguments_told
def show(
    source: Source | Result | Capture | Sequence[Tensor] | Mapping[str, Any],
    text: Text | tuple[Audio, str] | list[str] | tuple[list[str], list[str]] | None = None,
    other: str | None = None,
    *,
    head: str | tuple[str | int, ...] | None = None,
    sentence: int | None = None,
    device: str | None = None,
    weights: str = ATTENTION,
    height: int = 820,
) -> HeadViewer:
    """All attention heads of a model on one text, or those of an analysis, as a page that a notebook shows.

    Cost: a forward pass, and of an encoder-decoder without a translation what it takes to write one.

    Args:
        source: a run or its folder, a transformers folder, the name of a model on the hub, what
            `attnlab.load` returned, a pair (model, tokenizer), or a result of `analyze` with kept matrices
            or its folder, or a capture with them; or the weights of one text that a model returned, a
            tensor a layer, or all that it returned with them.
        text: a text, or a pair: (text, translation) for an encoder-decoder, (audio, transcript) for
            Whisper, two sentences for a model of one stack whose tokenizer has a form for them. Without a
            translation an encoder-decoder reads its own greedy one. Of weights the list of tokens, or
            (those of queries, those of keys).
        other: the second of a pair, in place of a pair as `text`.
        head: the one to begin with, such as `encoder.0.3`; without it all of them.
        sentence: of an analysis or a capture, the number of the kept sentence to begin with, from 0; None:
            the first.
        device: the name of a device; None: a GPU if there is one and the model is read here.
        weights: what the matrices of a model show: `attention` weights, or the share of each key in the
            `contribution` of its row (docs/heads.md, section 12).
        height: of the frame in a notebook, in pixels.

    Raises:
        InputError: a text or contributions that cannot be read, or the result of another question or
            without kept matrices, or no such head, sentence or device.
    """
    opened = _opened(source)
    text = text if other is None else _pair(text, other)
    check_value("weights", weights, str)
    WEIGHTS_OPTION.refuse("weights", weights)
    if _are_tensors(opened) or isinstance(opened, Result | Capture):
        if weights != ATTENTION:
            msg = (
                "A result shows the matrices that it kept; leave weights out, or hand in the model."
            )
            raise InputError(msg, options=["weights"])
        return _of_matrices(opened, text, head, sentence, height)
    if text is None or sentence is not None:
        msg = "A model needs a text, as in attnlab.show(model, 'A text.'), and takes no number of a sentence."
        raise InputError(msg)
    loaded = model_of(cast("Source", opened), scores=False)
    loaded.move_to_named(device, source)
    return _of_model(loaded, cast("Text | tuple[Audio, str]", text), head, height, weights)


def _are_tensors(opened: object) -> TypeGuard[Sequence[Tensor]]:
    """Whether it is a tensor a layer, as a model returns its weights."""
    layers = opened if isinstance(opened, list | tuple) else ()
    return bool(layers) and all(isinstance(layer, Tensor) for layer in layers)


def _of_matrices(
    opened: object,
    text: object,
    head: str | tuple[str | int, ...] | None,
    sentence: int | None,
    height: int,
) -> HeadViewer:
    """The page of weights that are there already: of a model's output, a capture or a result."""
    if _are_tensors(opened):
        return _of_kept(kept_weights(opened, text), head, None, height)
    if text is not None:
        msg = "A result shows the sentences that it kept; leave text out, or hand in the model."
        raise InputError(msg)
    if isinstance(opened, Capture):
        return _of_kept(opened.kept, head, sentence, height, opened.notes)
    return _of_result(cast("Result", opened), head, sentence, height)


def _opened(source: object) -> object:
    """The weights in what a model returned, the result in a folder, or what was given.

    Raises:
        InputError: it is a model without its tokenizer.
    """
    if isinstance(source, nn.Module):
        handed_in(source)
    if isinstance(source, Mapping) and "attentions" in source:
        return source["attentions"]
    if isinstance(source, str | Path) and holds_result(source):
        return Result.load(source)
    return source


def _pair(text: object, other: str) -> tuple[str, str]:
    if not isinstance(text, str):
        msg = f"A second text goes with a text, not with {briefly(text)}; give a pair alone."
        raise InputError(msg)
    return text, other


def _of_model(
    loaded: Model,
    text: Text | tuple[Audio, str],
    head: str | tuple[str | int, ...] | None,
    height: int,
    weights: str,
) -> HeadViewer:
    given = text if isinstance(text, tuple) else (text,)
    if any(isinstance(side, str) and not side.strip() for side in given):
        msg = "The text is empty; give a sentence."
        raise InputError(msg)
    if loaded.lowercase:
        # Of attnlab's own models, which read text alone.
        text = lowered(cast("Text", text))
    sentences = sentences_of(loaded, [text])
    texts = [side.name if isinstance(side, Audio) else side for side in given]
    options = {"head": None if head is None else str(head)}
    if weights != ATTENTION:
        options["weights"] = weights
    repeat = words_of_showing(loaded, texts, options)
    about = {
        # The name of an audio is no path to it.
        **({} if isinstance(given[0], Audio) else {"Repeat with": repeat}),
        **loaded.facts,
        "Versions": versions_in_words(versions(("torch", "transformers"))),
    }
    if loaded.model.config.is_encoder_decoder and len(texts) == 1 and loaded.model.can_generate():
        sentences = _translated(loaded, sentences)
        ids = sentences.usable[0].target or ()
        texts.append(loaded.both_tokenizers.target.decode(ids, skip_special_tokens=True))
        about["Translation"] = "by the model itself, greedy"
    kept, notes = matrices_of_text(loaded, sentences, _MOST_BYTES, weights)
    texts += map(str, notes)
    what = "Contributions of keys in" if weights == CONTRIBUTION else "Attention of"
    title = f"{what} {loaded.label}"
    viewer = kept_viewer(
        kept,
        title,
        lambda _: list(plain_heads(kept)),
        analyzed=False,
        second=sentences.texts[0].source.second,
    )
    assert viewer is not None  # noqa: S101 - a text that is read has matrices
    if weights == ATTENTION:
        viewer = _with_vectors(viewer, loaded, sentences, kept)
    return _viewer(title, about, viewer, head=head, height=height, texts=tuple(texts))


class _TooLargeError(Exception):
    """Queries and keys take more room than a page has for them."""


def _with_vectors(
    viewer: ViewerData, loaded: Model, sentences: Sentences, kept: KeptMatrices
) -> ViewerData:
    """The viewer with the queries and keys of every head, or why it has none."""
    vectors = list[StoredVectors]()
    matrices = {
        layer_name(site, layer): kept.matrices[0, site, layer] for _, site, layer in kept.matrices
    }

    def receive(layer: Observed) -> None:
        # As many as in this layer are in each, so that the first one tells.
        if len(matrices) * (layer.query[0].numel() + layer.key[0].numel()) > _MOST_VECTOR_BYTES:
            raise _TooLargeError
        shown = matrices[layer_name(layer.site, layer.layer)]
        again = layer.weights[0, :, : shown.shape[1]].to(shown)
        if not torch.allclose(
            again, shown, atol=TOLERANCES.get(loaded.model.dtype, 1e-4)
        ) or not bool(layer.query.any()):
            msg = f"{layer.site} layer {layer.layer} weighs keys otherwise than by their products."
            raise AttnlabError(msg)
        for name, side in (("queries", layer.query), ("keys", layer.key)):
            address = f"{name}.0.{layer_name(layer.site, layer.layer)}"
            vectors.append(stored_vectors(address, side[0].cpu()))

    sites = list(dict.fromkeys(site for _, site, _ in kept.matrices))
    try:
        with ready_to_show(loaded.model):
            observe(loaded.model, sentences, sites, receive)
    except _TooLargeError:
        most = f"{_MOST_VECTOR_BYTES / 1e6:g} MB"
        why = (
            f"Queries and keys are left out, since they take more than {most}; show a shorter text."
        )
        return replace(viewer, without_vectors=why)
    except AttnlabError:
        why = "The queries and keys of this model cannot be read, so their products are not shown."
        return replace(viewer, without_vectors=why)
    return replace(viewer, vectors=tuple(vectors))


def _translated(loaded: Model, sentences: Sentences) -> Sentences:
    """The sentence with the translation that the model writes greedily.

    Raises:
        InputError: it is empty.
    """
    with torch.inference_mode():
        written = next(translated(loaded.model, sentences, 1))
    if not written:
        msg = "The model writes an empty translation of this text; give one beside it."
        raise InputError(msg)
    return replace(sentences, usable=tuple(written))


def _of_result(
    result: Result, head: str | tuple[str | int, ...] | None, sentence: int | None, height: int
) -> HeadViewer:
    if not result.asked.keeps_matrices:
        msg = (
            f"A result of {result.question} keeps no matrices; show one of analyze, or the model with a "
            "text."
        )
        raise InputError(msg)
    kept = sorted({number for number, _ in result.matrices.tokens})
    if not kept:
        msg = "No matrices were kept; analyze with keep_matrices of at least 1."
        raise InputError(msg, options=["keep_matrices"])
    sentence = kept[0] if sentence is None else sentence
    if sentence not in kept:
        numbers = ", ".join(map(str, kept))
        msg = f"The matrices of sentence {sentence} were not kept; choose from: {numbers}."
        raise InputError(msg)
    made = result.contents().viewer
    viewer = None if made is None else made()
    if viewer is None or sentence in viewer.left_out:
        msg = f"Sentence {sentence} is too long for a page; choose a shorter one, or analyze fewer."
        raise InputError(msg)
    about = {
        **result.about,
        "Sentences": f"{counted(len(kept), 'sentence')} of the analysis, those whose matrices it kept",
        **call_in_words(result.call, result.making),
    }
    return _viewer("Attention heads", about, viewer, head=head, sentence=sentence, height=height)


def _of_kept(
    kept: KeptMatrices,
    head: str | tuple[str | int, ...] | None,
    sentence: int | None,
    height: int,
    notes: Sequence[Note] = (),
) -> HeadViewer:
    if kept.heads is not None or kept.rows:
        msg = "A page shows all heads and rows; capture without heads and rows."
        raise InputError(msg)
    title = "Attention heads"
    viewer = kept_viewer(kept, title, lambda _: list(plain_heads(kept)), analyzed=False)
    number = next(iter(kept.sentences), None) if sentence is None else sentence
    if viewer is None or number not in kept.sentences:
        msg = "No matrices of that sentence were kept; capture with a larger keep_matrices."
        raise InputError(msg)
    texts = (sentence_text(kept, number), *map(str, notes))
    return _viewer(title, {}, viewer, head=head, sentence=number, height=height, texts=texts)


def _viewer(
    title: str,
    about: Mapping[str, str],
    viewer: ViewerData,
    *,
    head: str | tuple[str | int, ...] | None,
    height: int,
    sentence: int = 0,
    texts: tuple[str, ...] = (),
) -> HeadViewer:
    name = None if head is None else address_of(head, viewer.heads)
    if name is not None and name not in viewer.heads:
        raise no_such_head(name, viewer.heads)
    start = "" if name is None else f"head={name}&"
    page = render_page(
        title, about, [], [],
        overview=Overview(answers=texts), viewer=viewer, start=f"#{start}sentence={sentence}",
    )  # fmt: skip
    return HeadViewer(page, name, height)
