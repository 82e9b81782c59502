"""Swappable attention mechanisms and their registry."""

from attnlab.attention.mechanism import Mechanism
from attnlab.attention.registry import make

__all__ = ["Mechanism", "make"]
