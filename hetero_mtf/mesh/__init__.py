"""Mesh-TensorFlow on unequal slices.

`mtf` is Mesh-TensorFlow itself, which cannot be imported by its own name on today's TensorFlow.
"""

from hetero_mtf.mesh import stock
from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.implementation import UnevenMeshImpl
from hetero_mtf.mesh.lowering import Lowering, lower

__all__ = ["Lowering", "UnevenMeshImpl", "lower", "mtf", "stock"]
