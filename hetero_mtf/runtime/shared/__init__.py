"""Memory that a client shares with workers of its host, in which they read batches."""
