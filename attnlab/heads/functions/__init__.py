"""What heads do: one file a label, each with counts that add up over batches and a verdict."""
