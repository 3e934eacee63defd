"""Processes that others start: how they begin, and end with them."""
