"""A file for each command: its arguments, the call, what it prints."""
