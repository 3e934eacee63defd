"""What a call of the user's own does, read off the TensorFlow operations that it makes: whether it acts on each sample by itself.

The call runs on placeholders, with two batch sizes, in training and in inference. A tensor either has the samples along its first
dimension, each as one row or as several in a run, or does not depend on the samples. An operation that is not known to keep it so,
draws at random, writes a variable or adds to the loss ends the reading. TensorFlow has been imported by whoever made the model;
nothing here imports it.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from hetero_mtf.graph.live import LiveCall, is_layer, layers_in
from hetero_mtf.graph.placeholder_call import call_on_placeholders
from hetero_mtf.graph.present_tensors import present_tensors

ELEMENTS, SAMPLES, NEITHER = "elements", "samples", ""
_BATCHES = (7, 11)  # no extents of layers, mostly
_MANY = 500  # operations

_UNARY = frozenset(
    {
        *(
            "Identity",
            "StopGradient",
            "Cast",
            "Neg",
            "Abs",
            "Sign",
            "Square",
            "Sqrt",
            "Rsqrt",
            "Exp",
            "Expm1",
            "Log",
            "Log1p",
            "Sin",
            "Cos",
        ),
        *("Tan", "Sinh", "Cosh", "Tanh", "Asinh", "Acosh", "Atan", "Erf", "Erfc", "Sigmoid", "Relu", "Relu6", "LeakyRelu", "Elu", "Selu"),
        *("Softplus", "Softsign", "Reciprocal", "Inv", "Floor", "Ceil", "Round", "Rint", "LogicalNot", "IsNan", "IsFinite", "IsInf"),
        *("ZerosLike", "OnesLike", "PreventGradient", "Asin", "Acos", "Atanh", "Real", "Imag", "Conj"),
    }
)
_BROADCAST = frozenset(
    {
        *("Add", "AddV2", "Sub", "Mul", "RealDiv", "Div", "DivNoNan", "FloorDiv", "FloorMod", "Maximum", "Minimum", "Pow", "MulNoNan"),
        *("SquaredDifference", "Greater", "GreaterEqual", "Less", "LessEqual", "Equal", "NotEqual", "LogicalAnd", "LogicalOr", "Atan2"),
        *("SelectV2", "Xdivy", "Xlogy", "ClipByValue", "Complex"),
    }
)
_FOURIER = {"FFT": 1, "IFFT": 1, "FFT2D": 2, "IFFT2D": 2, "FFT3D": 3, "IFFT3D": 3}  # the last dimensions that they transform
_REPEATING = frozenset({"BroadcastTo", "Tile"})
_REDUCTIONS = frozenset({"Sum", "Mean", "Max", "Min", "Prod", "All", "Any"})
_WINDOWS = frozenset({"Conv2D", "Conv3D", "DepthwiseConv2dNative", "MaxPool", "MaxPool3D", "AvgPool", "AvgPool3D"})
_FREE = frozenset({"Shape", "Size", "Rank", "NoOp", "Assert"})  # extents, which are numbers here


def traced_split(call: LiveCall) -> str:
    """Return what a call acts on each by itself: `ELEMENTS`, `SAMPLES`, or `NEITHER` where that is not certain.

    Parameters
    ----------
    call : of a Keras operation, with tensors that have a batch.
    """
    tf = sys.modules.get("tensorflow")
    symbols = call.node.arguments.keras_tensors
    if tf is None or not is_layer(call.operation) or not all(call.has_batch(symbol) for symbol in symbols):
        return NEITHER
    if any(None in symbol.shape[1:] for symbol in symbols):
        return NEITHER
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of code that has run before
            verdicts = _verdicts(tf, call)
    except Exception:  # the user's own code may raise anything on placeholders
        return NEITHER
    if NEITHER in verdicts:
        return NEITHER
    return ELEMENTS if verdicts == {ELEMENTS} else SAMPLES


def _verdicts(tf: Any, call: LiveCall) -> set[str]:
    """Return what the call acts on with both batch sizes, in training and in inference; of a call of very many operations, once each."""
    first, second = _BATCHES
    trace = _Trace(tf, call, first, True)
    verdicts = {trace.verdict()}
    if NEITHER in verdicts:
        return verdicts
    once = trace.operations > _MANY or not _knows_training(call.operation)
    others = [(second, False)] if once else [(second, True), (first, False), (second, False)]
    return verdicts | {_Trace(tf, call, batch, training).verdict() for batch, training in others}


def _knows_training(layer: Any) -> bool:
    """Return whether a layer may compute something else in training: unless it and what it holds take no such argument."""
    return any(getattr(each, "_call_has_training_arg", True) for each in layers_in(layer))


class _Trace:
    """The operations of a call with a number of samples."""

    def __init__(self, tf: Any, call: LiveCall, batch: int, training: bool) -> None:
        self.tf, self.call, self.batch, self.training = tf, call, batch, training
        self.channels, self.operations = 0, 0
        self.elementwise = True
        self._weights: set[str] = set()

    def verdict(self) -> str:
        """Return what the call acts on."""
        graph = self.tf.Graph()
        with graph.as_default(), self.tf.name_scope("traced"), present_tensors():
            run = call_on_placeholders(self.call, self.batch, self.training)
        self.operations = len(graph.get_operations())
        if run.losses or run.written:
            return NEITHER
        self.channels = run.inputs[0].shape[-1]
        self._weights = {value.name for value in run.values.values()}
        state = {tensor.name: 1 for tensor in run.inputs}
        for operation in graph.get_operations():
            if operation.type != "Placeholder" and not self._follow(operation, state):
                return NEITHER
        result = run.outputs[max(self.call.output, 0)]
        if state.get(result.name) != 1 or result.shape[0] != self.batch:
            return NEITHER
        same = all(tensor.shape == result.shape for tensor in run.inputs)
        return ELEMENTS if self.elementwise and same else SAMPLES

    def _follow(self, operation: Any, state: dict[str, int]) -> bool:
        """Add the outputs of an operation to `state`, tensor -> rows of a sample; return whether it is known to keep samples apart."""
        kind, rows = operation.type, [state.get(tensor.name, 0) for tensor in operation.inputs]
        read = [count > 0 for count in rows]
        if not any(read):
            return self._follow_constant(operation, state)
        if kind in _FREE:
            return True  # extents do not depend on the samples
        if kind == "IdentityN":
            state.update({tensor.name: count for tensor, count in zip(operation.outputs, rows) if count})
            return True
        if len({count for count in rows if count}) > 1:
            return False
        after = max(rows)
        if kind == "Reshape":
            first = operation.outputs[0].shape[0] if operation.outputs[0].shape.rank else 0
            if not first or first % self.batch:
                return False
            after = first // self.batch
        state.update({tensor.name: after for tensor in operation.outputs})
        return self._keeps(operation, kind, read)

    def _follow_constant(self, operation: Any, state: dict[str, int]) -> bool:
        """Follow an operation that does not depend on samples; what it repeats for each sample has a row for each."""
        kind = operation.type
        if kind.startswith(("StatelessRandom", "Random")) or kind in ("PyFunc", "EagerPyFunc"):
            return False
        shape = operation.outputs[0].shape if operation.outputs else None
        if kind == "Range" and (shape is None or shape.rank is None or shape[0] in (None, self.batch)):
            return False  # may number the samples
        if shape is not None and shape.rank and shape[0] == self.batch and self._repeats_rows(operation, shape.rank):
            state[operation.outputs[0].name] = 1
        return not operation.op_def.is_stateful or kind == "Assert"

    def _repeats_rows(self, operation: Any, rank: int) -> bool:
        """Return whether an operation gives the same row for each sample."""
        if operation.type == "Const":
            value = self.tf.get_static_value(operation.outputs[0])
            return value is not None and bool((value == value[:1]).all())
        if operation.type not in _REPEATING:
            return bool(operation.type == "Fill")
        given = operation.inputs[0].shape
        return given.rank is not None and (given.rank != rank or given[0] == 1)

    def _keeps(self, operation: Any, kind: str, read: list[bool]) -> bool:
        if kind in _UNARY:
            return True
        if kind in _BROADCAST:
            return self._broadcasts(operation, read)
        self.elementwise = False
        check = _CHECKS.get(kind)
        if kind in _REDUCTIONS:
            check = _reduces
        if kind in _WINDOWS:
            check = _slides
        return check is not None and check(self, operation, read)

    def _broadcasts(self, operation: Any, read: list[bool]) -> bool:
        """Return whether samples meet samples, or what is the same for all of them."""
        tensors = list(operation.inputs)
        rank = max(len(tensor.shape) for tensor, of_samples in zip(tensors, read) if of_samples)
        for tensor, of_samples in zip(tensors, read):
            own = len(tensor.shape)
            if of_samples:
                if own != rank:
                    return False
                self.elementwise &= tensor.shape[-1] in (self.channels,)
                continue
            if own > rank or (own == rank and tensor.shape[0] != 1):
                return False
            of_channels = own > 0 and tensor.shape[-1] == self.channels
            self.elementwise &= own == 0 or tensor.shape[-1] == 1 or (of_channels and tensor.name in self._weights)
        return True

    def numbers(self, tensor: Any) -> Any:
        """Return a tensor's value where it is known while the graph is built, None elsewhere."""
        value = self.tf.get_static_value(tensor)
        return None if value is None else value.tolist()


Check = Callable[[_Trace, Any, list[bool]], bool]


def _axes(trace: _Trace, tensor: Any, rank: int) -> list[int] | None:
    value = trace.numbers(tensor)
    if value is None:
        return None
    return [axis % rank for axis in (value if isinstance(value, list) else [value])]


def _reduces(trace: _Trace, operation: Any, read: list[bool]) -> bool:
    axes = _axes(trace, operation.inputs[1], len(operation.inputs[0].shape))
    return read[0] and axes is not None and 0 not in axes


def _slides(trace: _Trace, operation: Any, read: list[bool]) -> bool:
    return read[0] and not any(read[1:])


def _reshapes(trace: _Trace, operation: Any, read: list[bool]) -> bool:
    return read == [True, False]


def _multiplies(trace: _Trace, operation: Any, read: list[bool]) -> bool:
    one, other = operation.inputs
    if operation.type == "MatMul":
        return read == [True, False] and not operation.get_attr("transpose_a")
    if all(read):
        return len(one.shape) == len(other.shape) >= 3
    return read[0] and len(one.shape) >= 3 and (len(other.shape) == 2 or (len(other.shape) == len(one.shape) and other.shape[0] == 1))


def _permutes(trace: _Trace, operation: Any, read: list[bool]) -> bool:
    order = trace.numbers(operation.inputs[1])
    return read == [True, False] and order is not None and order[0] == 0


def _expands(trace: _Trace, operation: Any, read: list[bool]) -> bool:
    axes = _axes(trace, operation.inputs[1], len(operation.inputs[0].shape) + 1)
    return read == [True, False] and axes is not None and 0 not in axes


def _squeezes(trace: _Trace, operation: Any, read: list[bool]) -> bool:
    axes = operation.get_attr("squeeze_dims")
    return bool(axes) and all(axis % len(operation.inputs[0].shape) for axis in axes)


def _concatenates(trace: _Trace, operation: Any, read: list[bool]) -> bool:
    axes = _axes(trace, operation.inputs[-1], len(operation.inputs[0].shape))
    return all(read[:-1]) and axes is not None and 0 not in axes


def _splits(trace: _Trace, operation: Any, read: list[bool]) -> bool:
    at = {"Split": 0, "SplitV": 2}[operation.type]
    value = operation.inputs[1 if operation.type == "Split" else 0]
    axes = _axes(trace, operation.inputs[at], len(value.shape))
    return axes is not None and 0 not in axes


def _packs(trace: _Trace, operation: Any, read: list[bool]) -> bool:
    axis, rank = operation.get_attr("axis"), len(operation.inputs[0].shape) + (operation.type == "Pack")
    return all(read) and axis % rank != 0


def _pads(trace: _Trace, operation: Any, read: list[bool]) -> bool:
    sides = trace.numbers(operation.inputs[1])
    return read[0] and not any(read[1:]) and sides is not None and sides[0] == [0, 0]


def _slices(trace: _Trace, operation: Any, read: list[bool]) -> bool:
    if operation.type == "Slice":
        begin, size = trace.numbers(operation.inputs[1]), trace.numbers(operation.inputs[2])
        return begin is not None and size is not None and begin[0] == 0 and size[0] in (-1, trace.batch)
    masks = {name: operation.get_attr(f"{name}_mask") for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
    strides = trace.numbers(operation.inputs[3])
    other = masks["new_axis"] | masks["shrink_axis"]
    if masks["ellipsis"] & 1:
        return not other & 1 and len(operation.inputs[1].shape) == 1 and operation.inputs[1].shape[0] <= len(operation.inputs[0].shape)
    unsliced = masks["begin"] & 1 and masks["end"] & 1 and not other & 1
    return bool(unsliced and strides is not None and strides[0] == 1 and not any(read[1:]))


def _gathers(trace: _Trace, operation: Any, read: list[bool]) -> bool:
    axis, rows = trace.numbers(operation.inputs[2]), operation.inputs[0]
    if operation.get_attr("batch_dims") or axis is None:
        return False
    if read[:2] == [False, True]:
        return bool(axis == 0)
    return read[:2] == [True, False] and axis % len(rows.shape) != 0


def _softmaxes(trace: _Trace, operation: Any, read: list[bool]) -> bool:
    return len(operation.inputs[0].shape) >= 2


def _tiles(trace: _Trace, operation: Any, read: list[bool]) -> bool:
    before, after = operation.inputs[0].shape, operation.outputs[0].shape
    return read == [True, False] and after.rank is not None and after[0] == before[0]


def _transforms(trace: _Trace, operation: Any, read: list[bool]) -> bool:
    """Return whether a Fourier transform leaves the first dimension out."""
    return len(operation.inputs[0].shape) > _FOURIER[operation.type]


def _adds_bias(trace: _Trace, operation: Any, read: list[bool]) -> bool:
    return read == [True, False] and len(operation.inputs[0].shape) >= 2


def _contracts(trace: _Trace, operation: Any, read: list[bool]) -> bool:
    terms, _, output = operation.get_attr("equation").decode().replace(" ", "").partition("->")
    first = output[:1]
    of_samples = [term for term, samples in zip(terms.split(","), read) if samples]
    others = [term for term, samples in zip(terms.split(","), read) if not samples]
    apart = all(term[:1] == first and first not in term[1:] for term in of_samples)
    return first.isalpha() and apart and not any(first in term for term in others)


_CHECKS: Mapping[str, Check] = {
    "Reshape": _reshapes,
    "MatMul": _multiplies,
    "BatchMatMul": _multiplies,
    "BatchMatMulV2": _multiplies,
    "Transpose": _permutes,
    "ExpandDims": _expands,
    "Squeeze": _squeezes,
    "ConcatV2": _concatenates,
    "Split": _splits,
    "SplitV": _splits,
    "Pack": _packs,
    "Unpack": _packs,
    "Pad": _pads,
    "PadV2": _pads,
    "MirrorPad": _pads,
    "Slice": _slices,
    "StridedSlice": _slices,
    "GatherV2": _gathers,
    "Softmax": _softmaxes,
    "LogSoftmax": _softmaxes,
    "BiasAdd": _adds_bias,
    "Einsum": _contracts,
    "Tile": _tiles,
    **dict.fromkeys(_FOURIER, _transforms),
}
