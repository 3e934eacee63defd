"""Which TensorFlow operations keep samples apart, whose rows lie along the first dimension of what they read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

UNARY = frozenset(
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
BROADCAST = frozenset(
    {
        *("Add", "AddV2", "Sub", "Mul", "RealDiv", "Div", "DivNoNan", "FloorDiv", "FloorMod", "Maximum", "Minimum", "Pow", "MulNoNan"),
        *("SquaredDifference", "Greater", "GreaterEqual", "Less", "LessEqual", "Equal", "NotEqual", "LogicalAnd", "LogicalOr", "Atan2"),
        *("SelectV2", "Xdivy", "Xlogy", "ClipByValue", "Complex"),
    }
)
_FOURIER = {"FFT": 1, "IFFT": 1, "FFT2D": 2, "IFFT2D": 2, "FFT3D": 3, "IFFT3D": 3}  # the last dimensions that they transform
REPEATING = frozenset({"BroadcastTo", "Tile"})
_REDUCTIONS = frozenset({"Sum", "Mean", "Max", "Min", "Prod", "All", "Any"})
_WINDOWS = frozenset({"Conv2D", "Conv3D", "DepthwiseConv2dNative", "MaxPool", "MaxPool3D", "AvgPool", "AvgPool3D"})
KEYS = frozenset({"StatelessRandomGetAlg", "StatelessRandomGetKeyCounter", "StatelessRandomGetKeyCounterAlg"})  # of random draws
FREE = frozenset({"Shape", "Size", "Rank", "NoOp", "Assert"})  # extents, which are numbers here


class Operation(Protocol):
    """What the rules read of a `tf.Operation`."""

    @property
    def type(self) -> str:
        """Name of what it computes, such as "MatMul"."""

    @property
    def inputs(self) -> Sequence[Any]:
        """(inputs,) tf.Tensor."""

    @property
    def outputs(self) -> Sequence[Any]:
        """(outputs,) tf.Tensor."""

    def get_attr(self, name: str) -> Any:
        """Return an attribute, such as "axis"."""


class Trace(Protocol):
    """The operations of a call that are looked at."""

    batch: int

    def numbers(self, tensor: Any) -> Any:
        """Return a tensor's value where it is known while the graph is built, None elsewhere."""


Check = Callable[[Trace, Operation, list[bool]], bool]


def _axes(trace: Trace, tensor: Any, rank: int) -> list[int] | None:
    value = trace.numbers(tensor)
    if value is None:
        return None
    return [axis % rank for axis in (value if isinstance(value, list) else [value])]


def _reduces(trace: Trace, operation: Operation, read: list[bool]) -> bool:
    axes = _axes(trace, operation.inputs[1], len(operation.inputs[0].shape))
    return read[0] and axes is not None and 0 not in axes


def _slides(trace: Trace, operation: Operation, read: list[bool]) -> bool:
    return read[0] and not any(read[1:])


def _reshapes(trace: Trace, operation: Operation, read: list[bool]) -> bool:
    return read == [True, False]


def _multiplies(trace: Trace, operation: Operation, read: list[bool]) -> bool:
    one, other = operation.inputs
    if operation.type == "MatMul":
        return read == [True, False] and not operation.get_attr("transpose_a")
    if all(read):
        return len(one.shape) == len(other.shape) >= 3
    return read[0] and len(one.shape) >= 3 and (len(other.shape) == 2 or (len(other.shape) == len(one.shape) and other.shape[0] == 1))


def _permutes(trace: Trace, operation: Operation, read: list[bool]) -> bool:
    order = trace.numbers(operation.inputs[1])
    return read == [True, False] and order is not None and order[0] == 0


def _expands(trace: Trace, operation: Operation, read: list[bool]) -> bool:
    axes = _axes(trace, operation.inputs[1], len(operation.inputs[0].shape) + 1)
    return read == [True, False] and axes is not None and 0 not in axes


def _squeezes(trace: Trace, operation: Operation, read: list[bool]) -> bool:
    axes = operation.get_attr("squeeze_dims")
    return bool(axes) and all(axis % len(operation.inputs[0].shape) for axis in axes)


def _concatenates(trace: Trace, operation: Operation, read: list[bool]) -> bool:
    axes = _axes(trace, operation.inputs[-1], len(operation.inputs[0].shape))
    return all(read[:-1]) and axes is not None and 0 not in axes


def _splits(trace: Trace, operation: Operation, read: list[bool]) -> bool:
    at = {"Split": 0, "SplitV": 2}[operation.type]
    value = operation.inputs[1 if operation.type == "Split" else 0]
    axes = _axes(trace, operation.inputs[at], len(value.shape))
    return axes is not None and 0 not in axes


def _packs(trace: Trace, operation: Operation, read: list[bool]) -> bool:
    axis, rank = operation.get_attr("axis"), len(operation.inputs[0].shape) + (operation.type == "Pack")
    return all(read) and axis % rank != 0


def _pads(trace: Trace, operation: Operation, read: list[bool]) -> bool:
    sides = trace.numbers(operation.inputs[1])
    return read[0] and not any(read[1:]) and sides is not None and sides[0] == [0, 0]


def _slices(trace: Trace, operation: Operation, read: list[bool]) -> bool:
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


def _gathers(trace: Trace, operation: Operation, read: list[bool]) -> bool:
    axis, rows = trace.numbers(operation.inputs[2]), operation.inputs[0]
    if operation.get_attr("batch_dims") or axis is None:
        return False
    if read[:2] == [False, True]:
        return bool(axis == 0)
    return read[:2] == [True, False] and axis % len(rows.shape) != 0


def _softmaxes(trace: Trace, operation: Operation, read: list[bool]) -> bool:
    return len(operation.inputs[0].shape) >= 2


def _tiles(trace: Trace, operation: Operation, read: list[bool]) -> bool:
    before, after = operation.inputs[0].shape, operation.outputs[0].shape
    return read == [True, False] and after.rank is not None and after[0] == before[0]


def _transforms(trace: Trace, operation: Operation, read: list[bool]) -> bool:
    """Return whether a Fourier transform leaves the first dimension out."""
    return len(operation.inputs[0].shape) > _FOURIER[operation.type]


def _adds_bias(trace: Trace, operation: Operation, read: list[bool]) -> bool:
    return read == [True, False] and len(operation.inputs[0].shape) >= 2


def _contracts(trace: Trace, operation: Operation, read: list[bool]) -> bool:
    terms, _, output = operation.get_attr("equation").decode().replace(" ", "").partition("->")
    first = output[:1]
    of_samples = [term for term, samples in zip(terms.split(","), read) if samples]
    others = [term for term, samples in zip(terms.split(","), read) if not samples]
    apart = all(term[:1] == first and first not in term[1:] for term in of_samples)
    return first.isalpha() and apart and not any(first in term for term in others)


CHECKS: Mapping[str, Check] = {
    **dict.fromkeys(_REDUCTIONS, _reduces),
    **dict.fromkeys(_WINDOWS, _slides),
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
