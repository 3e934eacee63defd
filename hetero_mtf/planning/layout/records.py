"""The parts of a plan: layouts, stages, predictions, proofs and the alternatives considered."""

from __future__ import annotations

import dataclasses

LAYOUTS = ("replicated", "batch", "column", "row", "split", "space")
PROOFS = ("optimal", "time limit", "heuristic")
COLLECTIVES = {"all_reduce": ("ring", "butterfly", "halving_doubling", "two_level", "exchange", "nccl")}
LEADERS = ("ring", "butterfly", "halving_doubling", "exchange")  # methods among the leaders of hosts
AXIS = "devices"
# Without rules, all-reduces of at most this many bytes use the method of fewest rounds, larger ones that of fewest bytes.
BUTTERFLY_UP_TO_BYTES = 256 * 1024
BUCKET_BYTES = 256 * 1024  # most bytes of a bucket of gradients in a plan that does not come from measured links
BATCH_AXIS, FILTER_AXIS = "batch", "filters"  # of a mesh that splits samples along one axis and channels along the other


@dataclasses.dataclass(frozen=True)
class LayerLayout:
    """The layout of one layer on the mesh of its stage.

    Parameters
    ----------
    layer : index of the layer in the LayerGraph.
    name : the layer's name, for people.
    layout : "replicated" (every device computes all of it), "batch" (samples split), "column" (output channels split), "row"
        (input channels split, partial sums added up), "split" (input and output channels split alike) or "space" (one spatial dimension
        of the output split).
    sizes : (positions of the axis,) integer units of each device, zero allowed; empty when replicated, batch or space.
    axis : name of the mesh axis that the sizes are along.
    samples : (positions of the batch axis,) samples of each device, zero allowed; they sum to the plan's batch size, and other
        batches are split in proportion. Given for "batch"; a layer split by channels or space may have them too, on another mesh axis.
    batch_axis : name of the mesh axis that the samples are along.
    slabs : (positions of the slab axis,) positions of the output that each device has along `dimension`, zero allowed; they sum to its
        extent. Given for "space".
    dimension : number of the spatial dimension that lies in slabs, from 0.
    slab_axis : name of the mesh axis that the slabs are along.
    """

    layer: int
    name: str
    layout: str
    sizes: tuple[int, ...] = ()
    axis: str = AXIS
    samples: tuple[int, ...] = ()
    batch_axis: str = AXIS
    slabs: tuple[int, ...] = ()
    dimension: int = 0
    slab_axis: str = AXIS

    @property
    def parts(self) -> tuple[tuple[tuple[int, ...], str], ...]:
        """(parts, mesh axis) of each dimension that is split: samples, units, and positions."""
        split = (self.samples, self.batch_axis), (self.sizes, self.axis), (self.slabs, self.slab_axis)
        return tuple((parts, axis) for parts, axis in split if parts)

    @property
    def copied_along(self) -> tuple[str, ...]:
        """Mesh axes along which processors have copies of the layer's weights for other samples or positions, and add gradients up."""
        return (*((self.batch_axis,) if self.samples else ()), *((self.slab_axis,) if self.slabs else ()))


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
        leaders, back inside), "exchange" (everybody to everybody, the full tensor) or "nccl" (TensorFlow's, between GPUs of one process).
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
    compute_s : seconds of compute.
    communication_s : seconds in all-reduces and all-gathers.
    idle_s : seconds in which it waits for other devices.
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
    forward_s : seconds of the forward pass, all-reduces and all-gathers included.
    backward_s : seconds of the backward pass, all-reduces and all-gathers included.
    update_s : seconds of the optimizer on the slowest device.
    parts : one for each device of the plan that is in a stage; all are idle during launch_s.
    launch_s : launch overhead: seconds to call the step and to send its batch to the devices.
    """

    step_s: float
    forward_s: float
    backward_s: float
    update_s: float
    parts: tuple[DevicePart, ...]
    launch_s: float = 0.0


@dataclasses.dataclass(frozen=True)
class Proof:
    """How far the layouts of a plan are proven optimal, in J of the layout program (`layout_program`).

    Parameters
    ----------
    status : "optimal", "time limit" (the best found by then), or "heuristic" (found by another method, and predicted to be faster).
    value_s : seconds of the plan.
    bound_s : a lower bound of the seconds of all plans of the space.
    gap : value_s / bound_s - 1.
    space : the plans for which this holds.
    """

    status: str
    value_s: float
    bound_s: float
    gap: float
    space: str


@dataclasses.dataclass(frozen=True)
class Alternative:
    """A plan that was considered and not chosen.

    Parameters
    ----------
    strategy : its strategy.
    step_s : its predicted seconds a step; None if the strategy has no plan.
    reason : why it was not chosen.
    bottleneck : the part of the device with least idle time; None if unknown.
    """

    strategy: str
    step_s: float | None
    reason: str
    bottleneck: DevicePart | None = None


@dataclasses.dataclass(frozen=True)
class DeviceContribution:
    """The contribution of a device to the plan.

    Parameters
    ----------
    device : the device's name.
    used : whether the plan uses it.
    step_s : predicted seconds of the best step found without it if it is used, with it if it is not; None if there is none.
    reason : the conclusion, as text.
    """

    device: str
    used: bool
    step_s: float | None
    reason: str
