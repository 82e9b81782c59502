"""From any model to per-head attention: sentences, batches, passes, statistics, kept matrices."""
