"""Pipelines: device groups, replicas, prediction and search."""
