"""Devices, links, memory pools and clusters as frozen records, and their discovery."""

from hetero_mtf.devices.records import ClusterRecord, Device, Link, MemoryPool

__all__ = ["ClusterRecord", "Device", "Link", "MemoryPool"]
