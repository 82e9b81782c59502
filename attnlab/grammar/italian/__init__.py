"""The embedded grammar in Italian."""
