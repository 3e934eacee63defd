"""Cutting a chain of blocks into stages: the problem, its bounds, and the exact, genetic and simple allocators."""
