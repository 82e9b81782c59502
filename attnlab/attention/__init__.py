"""Swappable attention mechanisms, their registry, plans, and the bridge to transformers models."""

from attnlab.attention.bridge import install, install_written, use
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
    "make",
    "plan_of",
    "use",
    "write_plan",
]
