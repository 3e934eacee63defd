"""Schedules without a flush: each stage trains on batches of its own, with gradients that are late."""
