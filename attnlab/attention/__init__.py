"""Swappable attention mechanisms, their registry, plans, and the bridge to transformers models.

Nothing heavy is imported here; each name is looked up in its module when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attnlab.attention.bridge.installing import install, use
    from attnlab.attention.bridge.saved import install_written, load_with_plan
    from attnlab.attention.calibration import calibrate, load_frequencies
    from attnlab.attention.mechanism import Mechanism
    from attnlab.attention.plan import AttentionPlan, load_plan, plan_of, write_plan
    from attnlab.attention.registry import make

__all__ = [
    "AttentionPlan",
    "Mechanism",
    "calibrate",
    "install",
    "install_written",
    "load_frequencies",
    "load_plan",
    "load_with_plan",
    "make",
    "plan_of",
    "use",
    "write_plan",
]

_HOMES = {
    "AttentionPlan": "plan",
    "Mechanism": "mechanism",
    "calibrate": "calibration",
    "install": "bridge.installing",
    "install_written": "bridge.saved",
    "load_frequencies": "calibration",
    "load_plan": "plan",
    "load_with_plan": "bridge.saved",
    "make": "registry",
    "plan_of": "plan",
    "use": "bridge.installing",
    "write_plan": "plan",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        msg = f"module 'attnlab.attention' has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(f"attnlab.attention.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
