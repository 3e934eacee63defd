"""Names of strategies and of gradient synchronization. Imports nothing, so that the command line starts quickly."""

from __future__ import annotations

PIPELINE = "pipeline"  # the strategy of several stages
STRATEGY_NAMES = ("single", "equal", "filters", "batch", "hybrid", "grid", "layers", PIPELINE)
PIPELINE_STRATEGIES = ("auto", PIPELINE)  # those that may plan several stages
EARLIER_NAMES = {"even": "equal"}  # of strategies and allocators -> the present ones
GRADIENT_SYNCS = ("all_reduce", "butterfly_mixing")
