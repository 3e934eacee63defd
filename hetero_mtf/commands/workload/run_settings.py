"""What a training is run with: its options, over what a resumed state was trained with, over what a model's file was compiled with."""

from __future__ import annotations

import dataclasses
from typing import Any

from hetero_mtf.commands.options.requests import TrainRequest
from hetero_mtf.commands.options.shared import OptimizerChoice
from hetero_mtf.commands.workload.chosen_optimizer import optimizer_of
from hetero_mtf.commands.workload.compiled_settings import Compiled, compiled_settings, take_over_optimizer
from hetero_mtf.commands.workload.model_source import is_keras_file
from hetero_mtf.commands.workload.run_notes import RunNotes
from hetero_mtf.commands.workload.workload import Workload
from hetero_mtf.data.dataset import Dataset
from hetero_mtf.errors import DataError


@dataclasses.dataclass(frozen=True)
class ChosenRun:
    """What a training is run with.

    Parameters
    ----------
    workload : model and data with loss, metrics and samples to validate on.
    optimizer : the optimizer.
    notes : what is stored with its states.
    lines : what is taken from where, for people.
    compiled : the settings of the model's file whose optimizer is taken over with its steps and slots; None for none.
    """

    workload: Workload
    optimizer: OptimizerChoice
    notes: RunNotes
    lines: tuple[str, ...]
    compiled: Compiled | None = None

    def make_optimizer(self, steps: int) -> Any:
        """Return the Keras optimizer to train with.

        Parameters
        ----------
        steps : steps of the training, over which the learning rate falls.
        """
        if self.compiled is not None:
            return take_over_optimizer(self.workload.model, self.compiled, self.optimizer, self.workload.loss)
        return optimizer_of(self.optimizer, steps)


def chosen_run(request: TrainRequest, workload: Workload, before: RunNotes) -> ChosenRun:
    """Return what a training is run with.

    Parameters
    ----------
    request : the options.
    workload : model and data.
    before : what is stored with the state that training goes on from.

    Raises
    ------
    HeteroError
        If loss, metrics, data and model do not fit each other, or something in the model's file is not Keras's own.
    """
    workload, split, lines = _validated(request, workload, before)
    choice, optimizer = request.objective_choice, request.optimizer_choice
    if before.loss is not None or before.metrics:
        choice = choice.over(before.choice(str(request.resume)))
    compiled = compiled_settings(request.model) if is_keras_file(request.model) else None
    if compiled is not None:
        left = {"loss": choice.loss is None, "metrics": not choice.metrics, "optimizer": request.optimizer is None and not request.momentum}
        taken = {what for what, open_ in left.items() if open_}
        compiled.check(taken)
        lines += filter(None, [compiled.text(taken)])
        choice = choice.over(compiled.objective(workload.graph.layers[workload.graph.outputs[0]].output_shape))
        if "optimizer" in taken and compiled.optimizer is not None:
            optimizer = compiled.optimizer_choice(optimizer)
        else:
            compiled = None
    same = (choice.loss, choice.metrics) == (before.loss, before.metrics)
    notes = RunNotes(choice.loss, choice.metrics, request.precision, split, before.watched if same else {})
    goes_on = compiled if request.learning_rate is None and request.decay == "none" else None
    return ChosenRun(workload.choosing(choice), optimizer, notes, tuple(lines), goes_on)


def _validated(request: TrainRequest, workload: Workload, before: RunNotes) -> tuple[Workload, float | None, list[str]]:
    """Return the data with samples to validate on, the part of the training samples that they are, and lines on them."""
    split, earlier = request.callbacks.validation_split, before.validation_split
    if request.resume is not None and split is not None and split != earlier:
        was = "without --validation-split" if earlier is None else f"with --validation-split {earlier:g}"
        wrong = f"{request.resume} was trained {was} and the option is {split:g}: other samples would be trained on"
        raise DataError(wrong, "leave the option out")
    part, data = earlier if split is None else split, workload.data
    if part is not None and isinstance(data, Dataset):
        total = data.counts["train"]
        data = data.with_validation(part)
        line = f"validating on the last {data.counts['validation']} of the {total} training samples of {data.name}"
        return dataclasses.replace(workload, data=data), part, [line]
    count = data.counts.get("validation", 0) if isinstance(data, Dataset) else 0
    return workload, None, [f"validating on the {count} validation samples of {data.name}"] if count else []
