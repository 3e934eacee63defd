"""One call of a Keras operation in memory.

Keras is not imported here: networks in files are read with the same records, and without it.
"""

from __future__ import annotations

import dataclasses
from typing import Any

MASK_OUTPUT = -1  # stands for the mask of the first output


@dataclasses.dataclass(frozen=True)
class LiveCall:
    """One output of one call of a Keras operation.

    Parameters
    ----------
    operation : the keras.Operation, such as a layer.
    node : the call's Keras node, which has its arguments.
    output : which of its outputs, in the flat order; `MASK_OUTPUT` for the mask of the first.
    masked : (inputs,) for each tensor among the arguments, which of the further inputs is its mask; None for no mask.
    batches : extents that stand for the batch: None, and that which the model's inputs were given.
    symbol : the symbolic tensor of this output, which has a shape and a dtype; the output itself where it is not said.
    """

    operation: Any
    node: Any
    output: int = 0
    masked: tuple[int | None, ...] = ()
    batches: frozenset[int | None] = frozenset({None})
    symbol: Any = None

    def __post_init__(self) -> None:
        if self.symbol is None and self.node is not None:
            object.__setattr__(self, "symbol", self.node.outputs[self.output])

    def has_batch(self, symbol: Any) -> bool:
        """Return whether the first dimension of a symbolic tensor is the batch."""
        return bool(symbol.shape) and symbol.shape[0] in self.batches
