"""Mesh-TensorFlow's own operations on unequal slices: each file registers the lowering of one family.

What is not here is lowered as Mesh-TensorFlow does it (`lowering.AS_THEY_ARE`), or refused by name.
"""

from hetero_mtf.mesh.stock import convolution, pool, rearrangement, reduction, selection, shift, slicewise, total, variable
from hetero_mtf.mesh.stock import while_loop as loop

__all__ = ["convolution", "loop", "pool", "rearrangement", "reduction", "selection", "shift", "slicewise", "total", "variable"]
