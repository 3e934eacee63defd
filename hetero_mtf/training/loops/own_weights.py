"""The weights of a model in Keras's loops: written back after steps on the cluster, and taken from it where someone assigned others."""

from __future__ import annotations

import dataclasses

import numpy as np

from hetero_mtf.training.run.run import Run


class OwnWeights:
    """Keeps a model's weights, slots and number of steps equal to those on the cluster, in both directions.

    Parameters
    ----------
    run : trains on the cluster; its Keras side is of the model.
    watched : whether someone sees the model; else nothing is written and read.
    """

    def __init__(self, run: Run, watched: bool = True) -> None:
        self._run, self._keras_side, self.watched = run, run.keras_side, watched
        self._ahead = False  # whether the cluster has taken steps that the model does not have yet
        self._values, self._step = (self._keras_side.read(), self._keras_side.step) if watched else ({}, 0)

    def note_step(self) -> None:
        """Note that the cluster has taken a step."""
        self._ahead = True

    def write_back(self) -> None:
        """Write what the cluster has into the model and its optimizer, where the cluster has taken steps since the last time."""
        if self._ahead and self.watched:
            self._keras_side.write(self._run.values(), self._run.state.step, self._run.state.loss_scale)
            self._ahead = False
            self._values, self._step = self._keras_side.read(), self._keras_side.step

    def read_changes(self) -> None:
        """Go on with what was assigned to the model, its slots or its number of steps since they were last written."""
        if not self.watched:
            return
        run, step = self._run, self._keras_side.step
        if not self._ahead and step != self._step:
            run.state, self._step = dataclasses.replace(run.state, step=step), step
        before, present = run.state.loss_scale, self._keras_side.loss_scale
        if not self._ahead and before is not None and present is not None:
            run.state = dataclasses.replace(run.state, loss_scale=dataclasses.replace(present, skipped=before.skipped))
        now = self._keras_side.read()
        changed = {key: value for key, value in now.items() if not _same(value, self._values[key])}
        if changed:
            self._values = {**self._values, **changed}
            run.overwrite(changed)


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    """Return whether two values of a variable are equal; those in the same memory are, as nothing was assigned between them."""
    in_place = one.__array_interface__["data"] == other.__array_interface__["data"] and one.shape == other.shape
    return in_place or np.array_equal(one, other, equal_nan=True)
