"""Sums over processors: what stays pending, and what shares an all-reduce."""
