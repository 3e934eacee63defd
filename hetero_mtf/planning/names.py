"""Names that plans, options and files have: strategies, schedules, allocators. Imports nothing, so that the command line starts quickly."""

from __future__ import annotations

PIPELINE = "pipeline"  # the strategy of several stages
STRATEGY_NAMES = ("single", "equal", "filters", "batch", "hybrid", "grid", "space", "layers", PIPELINE)
PIPELINE_STRATEGIES = ("auto", PIPELINE)  # those that may plan several stages
EARLIER_NAMES = {"even": "equal"}  # of strategies and allocators -> the present ones
GRADIENT_SYNCS = ("all_reduce", "butterfly_mixing")

CLOCKED_SCHEDULES = ("fill_drain", "1f1b", "interleaved")  # those that have a clock table
STALE_SCHEDULES = ("decoupled", "1f1b_2bw")  # without a flush: stages work on different batches, and gradients are late
SCHEDULES = ("synchronous", *CLOCKED_SCHEDULES, *STALE_SCHEDULES)
SEARCHED_SCHEDULES = ("1f1b", "fill_drain")  # those of strategy pipeline, the default first
BACKWARDS = ("replay", "stored")  # what the backward pass of a schedule without a flush uses

YARDSTICKS = ("equal", "proportional")  # not searched for; they are what others are compared with
ALLOCATORS = ("auto", "exact", "genetic", *YARDSTICKS)
STEP, LARGEST_LOAD = "step", "largest_load"
OBJECTIVES = (STEP, LARGEST_LOAD)

STEPS, FIRST, NEVER = MEASURES = ("steps", "first", "never")  # plans are measured by training steps, before the first, not at all
