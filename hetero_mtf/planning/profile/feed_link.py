"""FeedLink: how fast the training program hands batches to a device of another host."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class FeedLink:
    """The link from the training program to a device's host, over which the device gets its part of every batch.

    A batch is sent while the step before it runs.

    Parameters
    ----------
    device : index of the device; devices of one host share the link.
    bytes_per_s : bytes a second to this host alone.
    together_bytes_per_s : bytes a second to all hosts at once, where these share the program's own link; the same for every device.
    """

    device: int
    bytes_per_s: float
    together_bytes_per_s: float
