"""What all programs of one trainer share."""

from __future__ import annotations

import dataclasses

from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.graph.variable_keys import VariableKey
from hetero_mtf.mesh.collectives import Collectives
from hetero_mtf.mesh.operations.history import Histories
from hetero_mtf.mesh.operations.mixing import NOT_MIXED, Mixing
from hetero_mtf.mesh.variables import SliceVariables
from hetero_mtf.planning.layout.records import Stage
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.schedule.execution import Execution
from hetero_mtf.planning.schedule.stale import StaleOptions
from hetero_mtf.program.objective import Objective
from hetero_mtf.program.optimizers import UpdateRule


@dataclasses.dataclass(frozen=True)
class PlacedStage:
    """A stage and the devices it runs on.

    Parameters
    ----------
    stage : its layers, layouts and mesh axes.
    devices : (processors,) TensorFlow device strings.
    collectives : how all-reduces are made among them.
    """

    stage: Stage
    devices: tuple[str, ...]
    collectives: Collectives = Collectives()


def mixing_of(plan: Plan) -> Mixing:
    """Return the variables that butterfly mixing is of: those of layers that split the batch, where there are several devices.

    Parameters
    ----------
    plan : a plan that was checked.
    """
    (stage, *_) = plan.stages
    if plan.gradient_sync != "butterfly_mixing" or len(stage.devices) < 2:
        return NOT_MIXED
    split = [entry for entry in stage.layouts if entry.layout == "batch"]
    return Mixing(split[0].samples, frozenset(entry.layer for entry in split))


@dataclasses.dataclass(frozen=True)
class ProgramContext:
    """What all programs of one trainer share.

    Parameters
    ----------
    graph : the network.
    stages : runs of its layers, in order.
    variables : the slices of the weights and slots.
    objective : the loss of each output.
    rule : the optimizer's update rule.
    seed : seed of dropout.
    mixing : the variables that butterfly mixing is of; none where all gradients are all-reduced.
    execution : schedule, microbatches, recomputation and depths of training.
    histories, sums : what schedules without a flush keep from step to step: tensors of batches in flight, and sums of gradients.
    """

    graph: LayerGraph
    stages: tuple[PlacedStage, ...]
    variables: SliceVariables
    objective: Objective
    rule: UpdateRule
    seed: int
    mixing: Mixing = NOT_MIXED
    execution: Execution = Execution()
    histories: Histories = dataclasses.field(default_factory=lambda: Histories(""))
    sums: SliceVariables = dataclasses.field(default_factory=lambda: SliceVariables(""))

    @property
    def stale(self) -> StaleOptions:
        """Options of a schedule without a flush."""
        return self.execution.stale or StaleOptions()

    @property
    def sums_gradients(self) -> bool:
        """Whether a schedule without a flush adds up the gradients of several backward passes for an update."""
        return self.stale.accumulate > 1 or (self.execution.schedule == "1f1b_2bw" and self.execution.microbatches > 1)

    @property
    def has_versions(self) -> bool:
        """Whether forward passes may read the version of the weights before the present one."""
        return self.execution.schedule == "1f1b_2bw" and len(self.stages) > 1

    def shape_of(self, key: VariableKey) -> tuple[int, ...]:
        """Return the shape of a variable as Keras has it, by the index of its layer and its name."""
        return next(v.shape for v in self.graph.layers[key[0]].variables if v.name == key[1])

    def is_trainable(self, index: int, name: str) -> bool:
        """Return whether the optimizer updates variable `name` of layer `index`."""
        return any(v.trainable for v in self.graph.layers[index].variables if v.name == name)
