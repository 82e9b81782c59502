"""The report page: what stands on it, and the viewer in it."""
