"""The parts of a plan: layouts, stages, predictions and the alternatives that lost."""

from __future__ import annotations

import dataclasses

LAYOUTS = ("replicated", "batch", "column", "row", "split")
PROOFS = ("optimal", "time limit", "heuristic")
COLLECTIVES = {"all_reduce": ("ring", "butterfly", "halving_doubling", "two_level", "exchange", "nccl")}
LEADERS = ("ring", "butterfly", "halving_doubling", "exchange")  # methods among the leaders of hosts
AXIS = "devices"
# Without rules, all-reduces of at most this many bytes go by few rounds, larger ones by few bytes a processor.
BUTTERFLY_UP_TO_BYTES = 256 * 1024
BATCH_AXIS, FILTER_AXIS = "batch", "filters"  # of a mesh that splits samples along one axis and channels along the other


@dataclasses.dataclass(frozen=True)
class LayerLayout:
    """How one layer lies on the mesh of its stage.

    Parameters
    ----------
    layer : index of the layer in the LayerGraph.
    name : the layer's name, for people.
    layout : "replicated" (every device computes all of it), "batch" (samples split), "column" (output channels split), "row"
        (input channels split, partial sums added up) or "split" (input and output channels split alike).
    sizes : (positions of the axis,) whole units of each device, zero allowed; empty when replicated or batch.
    axis : name of the mesh axis the sizes lie along.
    samples : (positions of the batch axis,) samples of each device, zero allowed; they sum to the plan's batch size, and other
        batches are split in proportion. Given for "batch"; a layer split by channels may have them too, on another mesh axis.
    batch_axis : name of the mesh axis the samples lie along.
    """

    layer: int
    name: str
    layout: str
    sizes: tuple[int, ...] = ()
    axis: str = AXIS
    samples: tuple[int, ...] = ()
    batch_axis: str = AXIS


@dataclasses.dataclass(frozen=True)
class Stage:
    """A run of layers on a mesh of devices.

    Parameters
    ----------
    layers : indices of the stage's layers in the LayerGraph, in order.
    devices : indices into the plan's devices: the processors of the mesh in row-major order of its axes.
    axes : (name, size) of each mesh axis; the sizes multiply to the number of devices.
    layouts : one a layer, in the order of `layers`.
    """

    layers: tuple[int, ...]
    devices: tuple[int, ...]
    axes: tuple[tuple[str, int], ...]
    layouts: tuple[LayerLayout, ...]

    def places(self, axis: str) -> tuple[int, ...]:
        """Return each processor's place on a mesh axis; 0 on an axis that the mesh lacks.

        Parameters
        ----------
        axis : name of the axis.

        Examples
        --------
        >>> Stage((), (0, 1, 2, 3, 4, 5), (("batch", 2), ("filters", 3)), ()).places("filters")
        (0, 1, 2, 0, 1, 2)
        """
        sizes, inner = dict(self.axes), 1
        for name, size in reversed(self.axes):
            if name == axis:
                break
            inner *= size
        return tuple(at // inner % sizes.get(axis, 1) for at in range(len(self.devices)))


@dataclasses.dataclass(frozen=True)
class CollectiveRule:
    """The method of a collective for tensors up to a size.

    Parameters
    ----------
    collective : "all_reduce", the only one that has a choice.
    method : "ring", "butterfly" (recursive doubling), "halving_doubling", "two_level" (inside each host to a leader, among the
        leaders, back inside), "exchange" (everybody to everybody, whole) or "nccl" (TensorFlow's, between GPUs of one process).
    up_to_bytes : largest tensor it is for, in bytes; None for any.
    segments : (processors,) fractions of the tensor that a ring's chunks hold; empty for equal ones.
    leaders : method among the leaders of the hosts, for two_level; empty for "ring".
    """

    collective: str
    method: str
    up_to_bytes: int | None = None
    segments: tuple[float, ...] = ()
    leaders: str = ""


@dataclasses.dataclass(frozen=True)
class DevicePart:
    """What one device is predicted to do in one step.

    Parameters
    ----------
    device : the device's name.
    compute_s : seconds it computes.
    communication_s : seconds it takes part in all-reduces and all-gathers.
    idle_s : seconds it waits for other devices.
    memory_bytes : bytes of its variables, optimizer slots, gradients and activations.
    """

    device: str
    compute_s: float
    communication_s: float
    idle_s: float
    memory_bytes: int = 0


@dataclasses.dataclass(frozen=True)
class Prediction:
    """The predicted seconds of one training step and where they go.

    Parameters
    ----------
    step_s : seconds of the whole step; forward_s + backward_s + update_s + launch_s.
    forward_s : seconds until the output is whole, all-reduces and all-gathers included.
    backward_s : seconds of the backward pass, all-reduces and all-gathers included.
    update_s : seconds of the optimizer on the slowest device.
    parts : one for each device of the plan that is in a stage; all of them wait while the step is called.
    launch_s : seconds to call the step and hand over its batch.
    """

    step_s: float
    forward_s: float
    backward_s: float
    update_s: float
    parts: tuple[DevicePart, ...]
    launch_s: float = 0.0


@dataclasses.dataclass(frozen=True)
class Proof:
    """How far the layouts of a plan are proven best, in the seconds that the layout program adds up (`layout_program`).

    Parameters
    ----------
    status : "optimal", "time limit" (the best found by then), or "heuristic" (found otherwise, and predicted to be faster).
    value_s : seconds of the plan.
    bound_s : seconds that no plan of the space is below.
    gap : value_s / bound_s - 1.
    space : the plans among which this holds.
    """

    status: str
    value_s: float
    bound_s: float
    gap: float
    space: str


@dataclasses.dataclass(frozen=True)
class Alternative:
    """A plan that was considered and not taken.

    Parameters
    ----------
    strategy : the strategy that made it.
    step_s : its predicted seconds a step; None if the strategy made no plan.
    reason : why it was not taken.
    bottleneck : what the device that waits least does in it; None if that is not known.
    """

    strategy: str
    step_s: float | None
    reason: str
    bottleneck: DevicePart | None = None


@dataclasses.dataclass(frozen=True)
class DeviceContribution:
    """Whether a device is worth using.

    Parameters
    ----------
    device : the device's name.
    used : whether the plan uses it.
    step_s : predicted seconds of the best step found without it if it is used, with it if it is not; None if there is none.
    reason : what follows, for people.
    """

    device: str
    used: bool
    step_s: float | None
    reason: str
