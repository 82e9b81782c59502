"""The page of a result: sections, tables, figures, and its scripts."""
