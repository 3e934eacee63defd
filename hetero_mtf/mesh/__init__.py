"""Mesh-TensorFlow on unequal slices."""

from hetero_mtf.mesh.implementation import UnevenMeshImpl
from hetero_mtf.mesh.lowering import Lowering

__all__ = ["Lowering", "UnevenMeshImpl"]
