"""What heads do: one file a label, words and treebanks."""
