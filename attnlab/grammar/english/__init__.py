"""The embedded grammar in English."""
