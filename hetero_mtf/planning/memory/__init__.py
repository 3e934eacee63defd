"""Bytes of layers, workers and stages, and what memory is short of them."""
