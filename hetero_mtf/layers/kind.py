"""LayerKind: the description of one kind of layer, free of any framework; the base of every description."""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from hetero_mtf.errors import UnsupportedOptionError
from hetero_mtf.graph.records import Layer, Variable
from hetero_mtf.layers.reach import Reach

Shape = tuple[int, ...]

# Options of every Keras layer that do not change what it computes here, or are read with the model: initial weights are taken
# from the model itself, names are for people; for dtype and autocast see `keras_reading.policy`.
FREE_OPTIONS = frozenset({"name", "trainable", "dtype", "autocast", "quantization_config"})

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "bool")  # dtypes that inputs may have besides the network's

COMPUTE, FULL, ITS_OWN = "compute", "full", "its own"  # precisions of kinds

REPLICATED = frozenset({"replicated"})
CHANNELWISE = frozenset({"replicated", "split"})
MIXING = frozenset({"replicated", "column", "row"})


class LayerKind(abc.ABC):
    """One kind of layer: its Keras class, options, shapes, costs, legal layouts and Mesh-TensorFlow form.

    A subclass states `keras_class`, sorts every option of that class into one of three sets, and
    defines shapes, variables, costs and the computation. An option in none of the sets is
    refused, so an option that a later Keras adds cannot be ignored by accident.

    In the methods `layer` is a layer of this kind, `attributes` its `Layer.attributes`, `inputs` and `output` the shapes of one sample of
    each of its inputs and of its output, channels last and the batch left out, and `units` a number of output channels, 1 or more.

    Attributes
    ----------
    keras_class : name in `keras.layers`; for a layer of the user's own its registered name, such as "mine>Gain".
    kept : options that decide the computation, copied into `Layer.attributes`.
    fixed : options that must have one of the listed values.
    free : options that do not matter here, besides `FREE_OPTIONS`.
    mixes : whether a kernel mixes input channels, so that column and row layouts exist.
    merges : whether all inputs must be split alike for the "split" layout.
    mixes_samples : whether a sample's output depends on other samples, so that the batch must be whole.
    draws : whether it may draw at random as it trains.
    reads_integers : whether its inputs may be of another dtype than the network.
    needs_flat : whether a flattened input must be whole, since its dimensions are treated differently.
    pointwise : whether a position of the output reads no other positions of the inputs, but for statistics, so that space may be split.
    reduces_space : whether the output has no positions, and may be computed from slabs of the input.
    fill : what windows find outside the input.
    ignored_variables : names of variables of the Keras layer that do not enter what it computes.
    precision : what a layer of half precision computes in: COMPUTE, its compute dtype; FULL, at least float32, as Keras's normalisations
        do, what it gives is cast; ITS_OWN, what Keras's own call chooses.
    rounds_inputs : whether inputs of more precision are cast to the compute dtype first.
    backward : what the backward pass needs, see `needs`.
    temporaries : further tensors of the output's shape that the backward pass computes with at once.
    """

    keras_class: ClassVar[str]
    kept: ClassVar[tuple[str, ...]] = ()
    fixed: ClassVar[Mapping[str, tuple[Any, ...]]] = {}
    free: ClassVar[frozenset[str]] = frozenset()
    mixes: ClassVar[bool] = False
    merges: ClassVar[bool] = False
    mixes_samples: ClassVar[bool] = False
    draws: ClassVar[bool] = False
    reads_integers: ClassVar[bool] = False
    needs_flat: ClassVar[bool] = False
    pointwise: ClassVar[bool] = False
    reduces_space: ClassVar[bool] = False
    fill: ClassVar[float] = 0.0
    ignored_variables: ClassVar[frozenset[str]] = frozenset()
    precision: ClassVar[str] = COMPUTE
    rounds_inputs: ClassVar[bool] = True
    backward: ClassVar[frozenset[str]] = frozenset({"input"})
    temporaries: ClassVar[int] = 0

    def attributes(self, name: str, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options that decide the computation of layer `name`.

        Parameters
        ----------
        name : layer name, for messages.
        config : the Keras layer's own configuration.

        Raises
        ------
        UnsupportedError
            If an option has a value that is not supported, or is not known.
        """
        known = {*self.kept, *self.fixed, *self.free, *FREE_OPTIONS}
        for key, value in config.items():
            if key not in known and value is not None:
                wrong = f"layer {name} ({self.keras_class}) has the option {key}={value!r}, which is not supported"
                raise UnsupportedOptionError(wrong, "leave it out", key)
        for key, allowed in self.fixed.items():
            value = config.get(key, allowed[0])
            if (list(value) if isinstance(value, tuple) else value) not in allowed:
                choice = " or ".join(repr(item) for item in allowed)
                raise UnsupportedOptionError(f"layer {name} ({self.keras_class}) has {key}={value!r}", f"only {choice} is supported", key)
        return {key: _plain(config.get(key)) for key in self.kept}

    def of(self, attributes: Mapping[str, Any]) -> LayerKind:
        """Return the kind of a layer with these attributes: this one, unless they decide how its channels are mixed."""
        return self

    def settled(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> dict[str, Any]:
        """Return the attributes with what the inputs' shapes decide, such as legal layouts; settling twice changes nothing."""
        return dict(attributes)

    @abc.abstractmethod
    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        """Return the shape of one sample of the output, batch left out."""

    def variables(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> tuple[Variable, ...]:
        """Return the layer's variables with their full shapes, in Keras's order."""
        return ()

    def with_units(self, attributes: Mapping[str, Any], units: int) -> dict[str, Any]:
        """Return the attributes of the same layer with another number of output channels, where it has its own."""
        return dict(attributes)

    def flops(self, attributes: Mapping[str, Any], inputs: Sequence[Shape], output: Shape) -> float:
        """Return the floating-point operations of the forward pass of one sample."""
        return float(extent(output))

    def layouts(self, layer: Layer) -> frozenset[str]:
        """Return the names of the layouts that are legal for `layer`."""
        return CHANNELWISE

    def reach(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> tuple[Reach, ...]:
        """Return which positions of its inputs the layer reads along each spatial dimension; nothing where space cannot be split."""
        return (Reach(),) * (max(map(len, inputs)) - 1) if self.pointwise else ()

    def pads_slabs(self, attributes: Mapping[str, Any]) -> bool:
        """Return whether the layer itself adds what windows find outside the input, so that slabs need positions inside only."""
        return False

    def needs(self, layer: Layer) -> frozenset[str]:
        """Return what is kept for the backward pass of `layer`, from which memory is computed.

        "input" for all its inputs; "output"; "inner" for another tensor of the output's shape, such as what an activation was
        applied to; "view" where nothing is copied: the output is the input's memory.
        """
        return self.backward

    def inner(self, layer: Layer) -> float:
        """Return how many times its output's size the backward pass of `layer` keeps where it needs "inner"; split as the output is."""
        return 1.0

    def scores(self, layer: Layer) -> int:
        """Return the elements a sample of what `layer` computes for every pair of positions, which no split of channels divides.

        They are kept for the backward pass too. Where the layer is "split", each processor has partial sums of them, which are added
        up in every pass.
        """
        return 0

    @abc.abstractmethod
    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        """Return the layer's output, composed of the ops of the builder `b` (`hetero_mtf.program.builder.Builder`).

        Parameters
        ----------
        inputs : (inputs,) `Value` of each input, in the tensor layout that the layer's layout needs: replicated, or split by its sizes.

        Returns
        -------
        `Value` of the output, in the layout that the layer's layout gives.
        """


def extent(shape: Shape) -> int:
    """Return the number of elements of a shape.

    >>> extent((2, 3))
    6
    """
    return math.prod(shape)


def penalty_factors(name: str, option: str, value: Any, variable: str) -> dict[str, float]:
    """Return the factors of an L1 or L2 regularizer in Keras's serialised form, as attributes of a layer.

    Parameters
    ----------
    name, option : of the layer and its option, for messages.
    value : the regularizer; None for none.
    variable : name of the variable that it is for.

    Returns
    -------
    {"kernel_l2": factor} for the variable "kernel", and "kernel_l1" where that is not 0.

    Raises
    ------
    UnsupportedError
        For any other regularizer.
    """
    factors = {"l1": 0.0, "l2": 0.0}
    if value is not None:
        if not isinstance(value, Mapping) or value.get("module") != "keras.regularizers" or value["class_name"] not in ("L1", "L2", "L1L2"):
            shown = value.get("class_name", value) if isinstance(value, Mapping) else value
            raise UnsupportedOptionError(
                f"layer {name} has {option} {shown}", "only L1, L2 and L1L2 of keras.regularizers are supported", option
            )
        factors.update({key: float(value["config"].get(key) or 0.0) for key in factors})
    return {f"{variable}_{key}": factor for key, factor in factors.items() if factor or key == "l2"}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
