"""Activations that are kept from a forward pass to its backward pass, some steps later.

The backward pass is built on a second forward pass, of the earlier batch. Then whatever it reads of that pass is replaced by what the
first pass had computed and kept; of the second pass nothing is left but operations that a gradient cannot do without.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hetero_mtf.errors import LayoutError
from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.operations.history import History, HistoryWrite


class StoredActivations:
    """What the forward pass of a stage computes, kept.

    Parameters
    ----------
    operations : those of the forward pass.
    history : (name, tensor like its own, length) -> history on the stage's mesh.
    age : steps between the passes.
    """

    def __init__(self, operations: Sequence[mtf.Operation], history: Callable[[str, Tensor, int], History], age: int) -> None:
        self._operations = list(operations)
        self._histories: list[tuple[Tensor, History]] = []
        self._read_of: dict[Tensor, Tensor] = {}
        for number, tensor in enumerate(tensor for operation in self._operations for tensor in operation.outputs):
            stored = history(f"activation{number}", tensor, age)
            self._histories.append((tensor, stored))
            self._read_of[tensor] = stored.read(age)
        self._used: set[Tensor] = set()

    def substitute(self, again: Sequence[mtf.Operation], backward: Sequence[mtf.Operation], targets: Sequence[Tensor]) -> None:
        """Have a backward pass read what is kept instead of the pass that it was built on.

        Parameters
        ----------
        again : operations of that pass, one for each of the first one.
        backward : operations of the backward pass.
        targets : tensors for which the backward pass is run.

        Raises
        ------
        LayoutError
            If the two forward passes are not alike.
        """
        kept_of = self._kept_of(again)
        inside, seen = {*again, *backward}, set()
        waiting = [tensor.operation for tensor in targets]
        while waiting:
            operation = waiting.pop()
            if operation in seen or operation not in inside:
                continue
            seen.add(operation)
            operation._inputs = [kept_of.get(tensor, tensor) for tensor in operation.inputs]
            self._used.update(operation.inputs)
            needed = getattr(operation, "needs", None)
            waiting += [*(tensor.operation for tensor in operation.inputs), *([needed] if needed is not None else [])]

    def writes(self) -> list[HistoryWrite]:
        """Return the operations that keep what backward passes read."""
        return [history.write(tensor) for tensor, history in self._histories if self._read_of[tensor] in self._used]

    def _kept_of(self, again: Sequence[mtf.Operation]) -> dict[Tensor, Tensor]:
        if [type(one) for one in self._operations] != [type(other) for other in again]:
            raise LayoutError(f"a forward pass has {len(self._operations)} operations, built again {len(again)}", "please report this")
        pairs = [(new, old) for one, other in zip(self._operations, again) for old, new in zip(one.outputs, other.outputs)]
        return {new: self._read_of[old] for new, old in pairs}
