"""Names of schedules. Imports nothing, so that the command line starts quickly."""

from __future__ import annotations

CLOCKED_SCHEDULES = ("fill_drain", "1f1b", "interleaved")  # those that have a clock table
STALE_SCHEDULES = ("decoupled",)  # stages work on different batches and update at once, so gradients are late
SCHEDULES = ("synchronous", *CLOCKED_SCHEDULES, *STALE_SCHEDULES)
SEARCHED_SCHEDULES = ("1f1b", "fill_drain")  # those of strategy pipeline, the default first
