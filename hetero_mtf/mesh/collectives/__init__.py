"""Collectives among processors whose slices may be unequal.

Every function takes one tensor per processor and the processors' device strings, and returns one
tensor per processor. Reductions give bitwise equal results on all processors.
"""

from hetero_mtf.mesh.collectives.gather import all_gather, all_to_all, reduce_scatter
from hetero_mtf.mesh.collectives.method_choice import Collectives, all_reduce
from hetero_mtf.mesh.collectives.placement import chunk_sizes

__all__ = ["Collectives", "all_gather", "all_reduce", "all_to_all", "chunk_sizes", "reduce_scatter"]
