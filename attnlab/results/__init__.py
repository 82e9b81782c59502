"""Questions that can be asked of a model, and their results: tables, notes, figures, a page and a folder."""
