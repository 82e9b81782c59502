"""Swappable attention mechanisms, their registry, plans, and the bridge to transformers models."""

import lazy_loader

__getattr__, _, _ = lazy_loader.attach_stub(__name__, __file__)
# What users are promised; other packages import more.
__all__ = [
    "AttentionPlan",
    "Mechanism",
    "cache_bytes",
    "calibrate",
    "install",
    "install_written",
    "load_frequencies",
    "load_plan",
    "load_with_plan",
    "make",
    "model_with_layer_types",
    "plan_of",
    "streaming_cache",
    "use",
    "write_plan",
]


def __dir__() -> list[str]:
    return sorted(__all__)
