"""One file a mechanism: its specification and the module that carries it out."""
