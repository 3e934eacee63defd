"""Mesh-TensorFlow's own operations on unequal slices: each file registers the lowering of one family.

What is not here is lowered as Mesh-TensorFlow does it (`lowering.AS_THEY_ARE`), or refused by name.
"""

from hetero_mtf.mesh.stock import convolution, loop, pool, rearrangement, reduction, selection, shift, slicewise, total, variable

__all__ = ["convolution", "loop", "pool", "rearrangement", "reduction", "selection", "shift", "slicewise", "total", "variable"]
