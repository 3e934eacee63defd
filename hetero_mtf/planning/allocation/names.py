"""Names of allocators and of objectives. Imports nothing, so that the command line starts quickly."""

from __future__ import annotations

YARDSTICKS = ("equal", "proportional")  # not searched for; they are what others are compared with
ALLOCATORS = ("auto", "exact", "genetic", *YARDSTICKS)
STEP, LARGEST_LOAD = "step", "largest_load"
OBJECTIVES = (STEP, LARGEST_LOAD)
