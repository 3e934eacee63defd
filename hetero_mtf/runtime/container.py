"""A container: where the servers of a cluster keep the variables of one trainer, apart from those of others."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from types import TracebackType


class Container:
    """A name of its own for one trainer's variables; build the graph under `graph.container(container.name)`.

    Sessions on one server share variables by name and leave them there when they close. A container keeps trainers
    apart, and releasing it frees the memory. The with-statement releases it at the end.

    Parameters
    ----------
    prefix : start of the name, for people; letters, digits, "_", "-" and ".".
    reset : called once with the name when the container is released.
    """

    def __init__(self, prefix: str, reset: Callable[[str], None]) -> None:
        self.name = f"{prefix}-{uuid.uuid4().hex[:12]}"
        self._reset: Callable[[str], None] | None = reset

    def release(self) -> None:
        """Free the variables on every worker. Releasing twice is harmless."""
        reset, self._reset = self._reset, None
        if reset is not None:
            reset(self.name)

    def __enter__(self) -> Container:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None) -> None:
        self.release()
