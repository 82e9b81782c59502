"""What heads do: one file per label, words and treebanks."""
