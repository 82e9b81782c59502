"""The penalties of a pruning; apart, so that a command knows them before anything heavy is loaded."""

# Nats per token for an open head: from nearly all heads left to nearly none.
PENALTIES = (0.01, 0.03, 0.1, 0.3, 1.0)
