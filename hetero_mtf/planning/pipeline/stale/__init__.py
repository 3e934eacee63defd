"""Pipelines without a flush: how long a step takes, and which stages are the best."""
