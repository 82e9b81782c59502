"""What a reader must know before trusting a result, as values.

Each package declares its own in a module `notes`; `attnlab.reporting.notes` makes sentences of them.
"""


class Note:
    """A fact about how a result came about; subclasses are frozen dataclasses with its values."""
