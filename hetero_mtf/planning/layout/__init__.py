"""Layouts, blocks and stages, and the resharding between layouts."""
