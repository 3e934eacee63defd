"""The error family: every error the project raises on purpose is a `HeteroError`.

An error message is one sentence: what is wrong, the values, a semicolon, what to do.
"""

from __future__ import annotations


class HeteroError(ValueError):
    """Base of all errors raised on purpose; its text is meant for the user."""


class UnsupportedError(HeteroError):
    """A model, layer or option needs something that is not supported yet."""


class LayoutError(HeteroError):
    """A layout or its sizes cannot be honoured for a layer or an operation."""


class PlanError(HeteroError):
    """A plan is malformed, impossible, or made for something else."""


class ProfileError(HeteroError):
    """A profile is malformed, or was measured for another network or cluster."""


class ClusterError(HeteroError):
    """A cluster cannot be described, started or reached."""


class WorkerError(ClusterError):
    """A worker process died or stopped answering."""


class DataError(HeteroError):
    """A data set is missing, truncated or of the wrong form."""


class ReportError(DataError):
    """A data set has several faults; its text has a line for each of them."""


class CheckpointError(HeteroError):
    """A checkpoint cannot be written, read, or belongs to another network."""


class NotFiniteError(HeteroError):
    """Training made a loss, weights or optimizer slots that are NaN or infinite."""


class NothingToSplitError(PlanError):
    """A strategy has no plan for this network or cluster; another one has."""
