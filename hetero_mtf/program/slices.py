"""Reads and writes of sliced variables as whole tensors, which make the state independent of the plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from hetero_mtf.graph.variable_keys import layer_of
from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.implementation import UnevenMeshImpl
from hetero_mtf.mesh.operations.mixing import NOT_MIXED, Mixing
from hetero_mtf.mesh.variables import SliceVariables
from hetero_mtf.planning.memory.worker_memory import TRANSFER_BYTES


class SliceAccess:
    """Reads and writes whole values of sliced variables through a session.

    A call creates all its operations before it runs any: a session goes through its whole graph each time the graph has grown.

    Parameters
    ----------
    variables : the variables, including those created later.
    mixing : the variables that processors hold copies of that differ (butterfly mixing): a value is then their weighted average.
        The variables are named by `variable_key` and `slot_key` where there are any.
    """

    def __init__(self, variables: SliceVariables, mixing: Mixing = NOT_MIXED) -> None:
        self.variables = variables
        self.mixing = mixing
        self._reads: dict[tuple[str, int], tf.Tensor] = {}
        self._writes: dict[tuple[str, int], tuple[tf.Tensor, tf.Operation]] = {}

    def read(self, session: tf.compat.v1.Session, names: Sequence[str], copies: bool = False) -> dict[str, np.ndarray]:
        """Return whole values by name, each in the shape of the joined slices.

        Parameters
        ----------
        session : tf.compat.v1.Session on the variables' graph.
        names : names of variables that exist.
        copies : whether all processors' copies, (processors, ...), are returned where these differ, not their average.
        """
        fetches = {name: [self._read(name, p) for p in self._holders(name)] for name in names}
        values: dict[str, np.ndarray] = {}
        for group in self._groups(names):
            for name, pieces in session.run({name: fetches[name] for name in group}).items():
                values[name] = np.stack(pieces) if copies and self._weights(name) else self._join(name, pieces)
        return values

    def write(self, session: tf.compat.v1.Session, values: Mapping[str, np.ndarray], copies: bool = False) -> None:
        """Assign whole values by name, each slice to its processor.

        Parameters
        ----------
        session : tf.compat.v1.Session on the variables' graph.
        values : name -> array with as many elements as the variable, in its order.
        copies : whether the values are those that `read` returned with `copies`.
        """
        writes = {name: [self._write(name, p) for p in range(len(self.variables.layout(name)[3]))] for name in values}
        for group in self._groups(list(values)):
            feeds: dict[tf.Tensor, np.ndarray] = {}
            for name in group:
                placeholders = [placeholder for placeholder, _ in writes[name]]
                apart = copies and bool(self._weights(name))
                feeds.update(zip(placeholders, values[name]) if apart else self._feeds(name, values[name], placeholders))
            session.run([write for name in group for _, write in writes[name]], feeds)

    def _weights(self, name: str) -> tuple[int, ...]:
        """Return the weights of the processors' copies of a variable; empty where these are the same."""
        return self.mixing.of(layer_of(name)) if self.mixing else ()

    def _feeds(self, name: str, value: np.ndarray, placeholders: Sequence[tf.Tensor]) -> dict[tf.Tensor, np.ndarray]:
        shape, impl, _, _ = self.variables.layout(name)
        full_value = np.reshape(value, shape.to_integer_list)
        return {placeholder: full_value[_window(impl, shape, pnum)] for pnum, placeholder in enumerate(placeholders)}

    def _groups(self, names: Sequence[str]) -> Iterator[list[str]]:
        group: list[str] = []
        size = 0
        for name in names:
            shape, impl, dtype, _ = self.variables.layout(name)
            bytes_needed = impl.laid_out_size(shape) * dtype.size
            if group and size + bytes_needed > TRANSFER_BYTES:
                yield group
                group, size = [], 0
            group.append(name)
            size += bytes_needed
        if group:
            yield group

    def _holders(self, name: str) -> list[int]:
        """Return one processor for each distinct slice; all of them where their copies differ."""
        if self._weights(name):
            return list(range(len(self._weights(name))))
        shape, impl, _, handles = self.variables.layout(name)
        seen: dict[tuple[tuple[int, int], ...], int] = {}
        for pnum in range(len(handles)):
            window = tuple(zip(impl.slice_begin(shape, pnum), impl.processor_shape(shape, pnum)))
            if all(length for _, length in window) or not window:
                seen.setdefault(window, pnum)
        return list(seen.values())

    def _join(self, name: str, pieces: Sequence[np.ndarray]) -> np.ndarray:
        shape, impl, dtype, _ = self.variables.layout(name)
        if self._weights(name):
            return np.average(np.stack(pieces), axis=0, weights=self._weights(name)).astype(dtype.as_numpy_dtype)
        full_value = np.zeros(shape.to_integer_list, dtype.as_numpy_dtype)
        for pnum, piece in zip(self._holders(name), pieces):
            full_value[_window(impl, shape, pnum)] = piece
        return full_value

    def _read(self, name: str, pnum: int) -> tf.Tensor:
        key = name, pnum
        if key not in self._reads:
            _, impl, dtype, handles = self.variables.layout(name)
            with tf.device(impl.devices[pnum]):
                self._reads[key] = tf.raw_ops.ReadVariableOp(resource=handles[pnum], dtype=dtype)
        return self._reads[key]

    def _write(self, name: str, pnum: int) -> tuple[tf.Tensor, tf.Operation]:
        key = name, pnum
        if key not in self._writes:
            shape, impl, dtype, handles = self.variables.layout(name)
            placeholder = tf.compat.v1.placeholder(dtype, impl.processor_shape(shape, pnum))
            with tf.device(impl.devices[pnum]):
                self._writes[key] = placeholder, tf.raw_ops.AssignVariableOp(resource=handles[pnum], value=placeholder)
        return self._writes[key]


def _window(impl: UnevenMeshImpl, shape: mtf.Shape, pnum: int) -> tuple[slice, ...]:
    begins, lengths = impl.slice_begin(shape, pnum), impl.processor_shape(shape, pnum)
    return tuple(slice(begin, begin + length) for begin, length in zip(begins, lengths))
