"""What a cluster is implemented by."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from hetero_mtf.devices.records import ClusterRecord
from hetero_mtf.errors import WorkerError


class Backend(Protocol):
    """The implementation of a cluster: in process, emulated or remote."""

    @property
    def record(self) -> ClusterRecord: ...

    @property
    def hosts(self) -> tuple[str, ...]: ...

    @property
    def target(self) -> str: ...

    @property
    def left_out(self) -> frozenset[int]: ...

    def fault(self, wait_s: float = 0.0) -> WorkerError | None: ...

    def leave_out(self, workers: Collection[int]) -> None: ...

    def returned(self) -> tuple[int, ...]: ...

    def unresponsive(self, limit_s: float) -> WorkerError | None: ...

    def close(self, freed: bool = True) -> None: ...
