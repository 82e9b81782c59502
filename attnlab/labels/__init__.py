"""What heads do: a file a label, their counts and verdicts, words and treebanks."""
