"""Live things: worker processes, emulated devices, sessions, containers and their clean-up."""

from hetero_mtf.runtime.cluster import Cluster

__all__ = ["Cluster"]
