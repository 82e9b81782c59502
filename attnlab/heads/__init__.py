"""Capture of attention heads, what they do, how much they matter."""

from attnlab.heads.capture import capture

__all__ = ["capture"]
