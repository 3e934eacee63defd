"""The error family: every error the project raises on purpose is a `HeteroError`.

An error message is one sentence: what is wrong, the values, a semicolon, what to do. The two parts are fields of the error, for code that
says one of them elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence


class HeteroError(ValueError):
    """Base of all errors raised on purpose; its text is meant for the user.

    Parameters
    ----------
    reason : what is wrong, with the values.
    remedy : what to do; "" where the reason says it, or nothing helps.

    Examples
    --------
    >>> fault = HeteroError("the batch has 3 samples for 4 devices", "take a larger one")
    >>> print(fault)
    the batch has 3 samples for 4 devices; take a larger one
    >>> fault.reason
    'the batch has 3 samples for 4 devices'
    """

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(reason, remedy)  # what an error is made of again in another process
        self.reason, self.remedy = reason, remedy

    def __str__(self) -> str:
        return f"{self.reason}; {self.remedy}" if self.remedy else self.reason


class UnsupportedError(HeteroError):
    """A model, layer or option needs something that is not supported yet."""


def refuse(faults: Sequence[str]) -> None:
    """Raise an error for what a model needs and is not supported: all of it at once. Without faults do nothing.

    Parameters
    ----------
    faults : (faults,) sentences; a repeated one counts once.

    Raises
    ------
    UnsupportedError
        If there is a fault.
    """
    texts = list(dict.fromkeys(faults))
    if len(texts) == 1:
        raise UnsupportedError(texts[0])
    if texts:
        raise UnsupportedModelError(texts)


class UnsupportedOptionError(UnsupportedError):
    """A layer has an option with a value that is not supported.

    Parameters
    ----------
    reason, remedy : as in `HeteroError`.
    option : name of the option.
    """

    def __init__(self, reason: str, remedy: str, option: str) -> None:
        super().__init__(reason, remedy)
        self.args = (reason, remedy, option)
        self.option = option


class UnsupportedModelError(UnsupportedError):
    """A model needs several things that are not supported; its text has a line for each of them.

    Parameters
    ----------
    faults : (faults,) what is not supported, and what to do instead.
    """

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("\n".join([f"the model needs {len(faults)} things that are not supported; change each of them:", *faults]))
        self.args = (tuple(faults),)
        self.faults = tuple(faults)


class LayoutError(HeteroError):
    """A layout or its sizes cannot be honoured for a layer or an operation."""


class PlanError(HeteroError):
    """A plan is malformed, impossible, or made for something else."""


class ProfileError(HeteroError):
    """A profile is malformed, or was measured for another network or cluster."""


class ClusterError(HeteroError):
    """A cluster cannot be described, started or reached."""


class WorkerError(ClusterError):
    """A worker process died or stopped answering.

    Parameters
    ----------
    reason, remedy : as in `HeteroError`.
    lost : groups of workers, by their numbers, of each of which at least one cannot be used: (1,) is a worker that is gone, (0, 1) are two
        that do not reach each other. Empty where it is not known which.
    """

    def __init__(self, reason: str, remedy: str = "", lost: Sequence[Sequence[int]] = ()) -> None:
        super().__init__(reason, remedy)
        self.lost = tuple(map(tuple, lost))
        self.args = (reason, remedy, self.lost)


class DeviceMemoryError(ClusterError):
    """A device ran out of memory.

    Parameters
    ----------
    reason, remedy : as in `HeteroError`.
    device : its name; "" where that is not known.
    """

    def __init__(self, reason: str, remedy: str = "", device: str = "") -> None:
        super().__init__(reason, remedy)
        self.args = (reason, remedy, device)
        self.device = device


class DataError(HeteroError):
    """A data set is missing, truncated or of the wrong form."""


class ReportError(DataError):
    """A data set has several faults; its text has a line for each of them."""


class ConfigError(HeteroError):
    """A file of options cannot be read, or has faults, of which its text has a line each."""


class CheckpointError(HeteroError):
    """A checkpoint cannot be written, read, or belongs to another network."""


class NotFiniteError(HeteroError):
    """Training made a loss, weights or optimizer slots that are NaN or infinite."""


class NothingToSplitError(PlanError):
    """A strategy has no plan for this network or cluster; another one has."""
