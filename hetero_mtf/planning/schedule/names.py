"""Names of schedules. Imports nothing, so that the command line starts quickly."""

from __future__ import annotations

CLOCKED_SCHEDULES = ("fill_drain", "1f1b", "interleaved")  # those that have a clock table
STALE_SCHEDULES = ("decoupled", "1f1b_2bw")  # without a flush: stages work on different batches, and gradients are late
TWO_BATCHES = "two_batches"  # the batch in two halves through one stage, neither of which waits for the other
HALVES = 2  # microbatches of two_batches
SCHEDULES = ("synchronous", *CLOCKED_SCHEDULES, *STALE_SCHEDULES, TWO_BATCHES)
SEARCHED_SCHEDULES = ("1f1b", "fill_drain")  # those of strategy pipeline, the default first
BACKWARDS = ("replay", "stored")  # what the backward pass of a schedule without a flush uses
