"""Scores beyond a single proportion: precision and F1, reliability, curves, groups of scans, and folds."""
