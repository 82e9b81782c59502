"""One file per mechanism: its specification and the module that carries it out."""
