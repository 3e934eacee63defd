"""Limits of refinement, apart from what refines, so that help texts load nothing else."""

TIME_LIMIT_S = 30.0
"""Seconds after which no further plan is tried by default."""
