"""Names of schedules. Imports nothing, so that the command line starts quickly."""

from __future__ import annotations

CLOCKED_SCHEDULES = ("fill_drain", "1f1b", "interleaved")  # those that have a clock table
SCHEDULES = ("synchronous", *CLOCKED_SCHEDULES)
SEARCHED_SCHEDULES = ("1f1b", "fill_drain")  # those of strategy pipeline, the default first
