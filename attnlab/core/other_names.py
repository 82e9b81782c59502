"""Names that other libraries have for what attnlab does; who types one is told attnlab's own."""

_BY_NAME = {
    "analyze": "analyse classify heads label statistics",
    "attention": "mechanism mechanisms",
    "capture": "activations attentions cache extract run_with_cache trace",
    "compare": "benchmark replace",
    "detect": "detect_head head_detector induction",
    "export": "convert save",
    "importance": "ablate ablation head_importance prune_heads",
    "inspect": "embeddings tokenize tokens",
    "load": "automodel from_pretrained hookedtransformer read",
    "plan": "optimize search",
    "report": "browse html open page",
    "rollout": "attention_flow attention_rollout flow",
    "score": "bleu eval evaluate test",
    "show": "attention attention_patterns bertviz draw head_view model_view neuron_view plot view visualize",
    "size": "flops parameters params",
    "table": "csv",
    "train": "finetune fit",
    "translate": "generate predict",
}
_OURS = {other: name for name, others in _BY_NAME.items() for other in others.split()}


def our_name(other: str) -> str | None:
    """The name in attnlab for what another library calls `other`; None where nothing is known.

    >>> our_name("head_view"), our_name("HookedTransformer"), our_name("model-view"), our_name("x")
    ('show', 'load', 'show', None)
    """
    return _OURS.get(other.lower().replace("-", "_"))
