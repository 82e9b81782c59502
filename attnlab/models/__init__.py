"""The run directory: what training leaves behind, and how it is read and replaced."""
