"""Schedules whose stages work on different batches at once, and update by gradients that are late."""
