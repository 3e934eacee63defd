"""The devices of this process."""

from __future__ import annotations

from collections.abc import Collection

from hetero_mtf.devices.records import ClusterRecord
from hetero_mtf.errors import WorkerError


class InProcess:
    """The devices of this process, on TensorFlow's runtime in it."""

    hosts: tuple[str, ...] = ()
    target = ""
    left_out: frozenset[int] = frozenset()

    def __init__(self, record: ClusterRecord) -> None:
        self.record = record

    def fault(self, wait_s: float = 0.0) -> WorkerError | None:
        """Return None: there are no workers."""
        return None

    def leave_out(self, workers: Collection[int]) -> None:
        """Do nothing: there are no workers."""

    def returned(self) -> tuple[int, ...]:
        """Return nothing: there are no workers."""
        return ()

    def unresponsive(self, limit_s: float) -> WorkerError | None:
        """Return None: there are no workers."""
        return None

    def close(self, freed: bool = True) -> None:
        """Do nothing: there are no workers."""
