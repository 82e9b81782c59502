"""bertviz: the page of one sentence."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from experiments.peers.inputs import PAGE_TOKENS, page_text
from experiments.peers.serving import Describe, Prepare, Work, serve
from experiments.peers.sides.loading import load_model, load_tokenizer


def page(view: Callable[..., Any], tokens: int) -> Prepare:
    """A view of all layers and heads, as text of a page."""

    def prepare(folder: Path) -> Work:
        model, tokenizer = load_model(folder / "bert"), load_tokenizer(folder / "bert")
        text = page_text(folder, tokens)

        @torch.inference_mode()
        def work() -> Describe:
            ids = tokenizer(text)["input_ids"]
            attentions = model(torch.tensor([ids]), output_attentions=True).attentions
            words = tokenizer.convert_ids_to_tokens(ids)
            html = view(attentions, words, html_action="return").data
            return lambda: {"bytes": len(html.encode())}

        return work

    return prepare


if __name__ == "__main__":
    from bertviz import head_view, model_view

    views = {"head_view": head_view, "model_view": model_view}
    serve(
        {
            f"{name}_{tokens}": page(view, tokens)
            for name, view in views.items()
            for tokens in PAGE_TOKENS
        }
    )
