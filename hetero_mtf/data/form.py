"""Form: how a model's samples, labels and weights are packed, and how to flatten them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from hetero_mtf.errors import DataError
from hetero_mtf.graph.structure import Structure

Flat = Any  # one array where there is one value, else a tuple of arrays


@dataclasses.dataclass(frozen=True)
class Form:
    """Flattens what users pack as their model packs it.

    Parameters
    ----------
    inputs, outputs : the model's packing.
    targets : (outputs,) whether an output has a loss, and so needs labels.
    ranks : (inputs,) dimensions of each input's batch; empty where they are not known.
    number_ranks : (outputs,) dimensions of a batch of class numbers for each output's loss, 0 where it takes others; empty where they are
        not known.
    """

    inputs: Structure
    outputs: Structure
    targets: tuple[bool, ...]
    ranks: tuple[int, ...] = ()
    number_ranks: tuple[int, ...] = ()

    def x(self, value: Any, where: str = "") -> Flat:
        """Return samples in the order of the model's inputs.

        Parameters
        ----------
        value : packed as the model's inputs, or a dict by their names, which may hold more, as in Keras.
        where : how the message calls the place, such as " of batch 3".

        Raises
        ------
        DataError
            If they are packed in another way.
        """
        wrapped = self.inputs.alone and self.ranks and isinstance(value, (list, tuple)) and len(value) == 1
        if wrapped and getattr(value[0], "ndim", 0) == self.ranks[0]:
            return value[0]
        return _flat(self.inputs.flatten(value, f"x{where}", spare=True))

    def y(self, value: Any, where: str = "") -> Flat:
        """Return labels in the order of the model's outputs, None for an output that needs none and has none.

        Outputs without a loss may be left out, as in Keras.

        Parameters
        ----------
        value, where : as for `x`.

        Raises
        ------
        DataError
            If they are packed in another way, or one that is needed is missing.
        """
        target_leaves = self._of_targets(value) if self.outputs.matched(value) is None else None
        leaves = self.outputs.flatten(value, f"y{where}") if target_leaves is None else target_leaves
        for name, has_loss, leaf in zip(self.outputs.names, self.targets, leaves):
            if has_loss and leaf is None:
                raise DataError(f"y{where} is missing for output {name}, which has a loss", "pass its targets")
        return _flat(leaves)

    def weight(self, value: Any, where: str = "") -> Flat:
        """Return sample weights: one array for all outputs, or a tuple with one or None each.

        Parameters
        ----------
        value, where : as for `x`.

        Raises
        ------
        DataError
            If they are packed in another way.
        """
        several = isinstance(value, (list, tuple)) and any(item is None or getattr(item, "shape", ()) for item in value)
        if self.outputs.count == 1:
            return self.outputs.flatten(value, f"sample_weight{where}")[0] if isinstance(value, Mapping) else value
        return tuple(self.outputs.flatten(value, f"sample_weight{where}")) if several or isinstance(value, Mapping) else value

    def holds_arrays(self, x: Any, y: Any, labels: bool) -> bool:
        """Return whether `x`, which is no array, packs arrays rather than being a stream of batches.

        Parameters
        ----------
        x, y : what the user handed over.
        labels : whether labels are needed; a list that comes without is a stream then.
        """
        if isinstance(x, Mapping):
            return True
        if self.inputs.count == 1 or not isinstance(x, (list, tuple)):
            return False
        arrays = len(x) == self.inputs.count and all(hasattr(item, "shape") for item in x)
        return y is not None or (arrays and not labels)

    def _of_targets(self, value: Any) -> tuple[Any, ...] | None:
        """Return labels that were given for the outputs with a loss only."""
        needed = [at for at, has in enumerate(self.targets) if has]
        if len(needed) == len(self.targets):
            return None
        names = [self.outputs.names[at] for at in needed]
        labels: Sequence[Any] | None = None
        if isinstance(value, Mapping):
            labels = [value[name] for name in names] if set(value) == set(names) else None
        elif isinstance(value, (list, tuple)) and len(value) == len(needed) and len(needed) > 1:
            labels = value
        elif len(needed) == 1 and hasattr(value, "shape"):
            labels = [value]
        return None if labels is None else tuple(labels[needed.index(at)] if at in needed else None for at in range(len(self.targets)))


def _flat(leaves: tuple[Any, ...]) -> Flat:
    return leaves[0] if len(leaves) == 1 else leaves
