"""What is certain about Keras's own layers and operations without a description: which act on each element or sample by itself.

`tests/layers/test_certain.py` checks the lists numerically. A class of the user's own is on none of them unless it is declared.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

from hetero_mtf.errors import UnsupportedError

# Operations of `keras.ops` that compute each element of the output from the elements of the inputs at its place.
ELEMENTWISE_OPERATIONS = frozenset(
    f"keras.ops.{name}"
    for name in (
        *("Absolute", "Abs", "Add", "Arccosh", "Arcsinh", "Arctan", "Arctan2", "Cbrt", "Ceil", "Clip", "Copy", "Cos", "Cosh"),
        *("Deg2rad", "Divide", "DivideNoNan", "Equal", "Exp", "Exp2", "Expm1", "Fabs", "Floor", "FloorDivide", "Greater", "GreaterEqual"),
        *("Heaviside", "Hypot", "Isfinite", "Isinf", "Isnan", "Less", "LessEqual", "Log", "Log10", "Log1p", "Log2", "Logaddexp"),
        *("LogicalAnd", "LogicalNot", "LogicalOr", "LogicalXor", "Maximum", "Minimum", "Fmax", "Fmin", "Mod", "Fmod", "Multiply"),
        *("NanToNum", "Negative", "NotEqual", "OnesLike", "Power", "Rad2deg", "Reciprocal", "Round", "Sign", "Sin", "Sinc", "Sinh"),
        *("Sqrt", "Square", "Subtract", "Tan", "Tanh", "TrueDivide", "Trunc", "Where", "ZerosLike", "Arccos", "Arcsin", "Arctanh"),
        *("Relu", "Relu6", "Sigmoid", "SparseSigmoid", "Softplus", "Softsign", "SoftShrink", "SparsePlus", "Silu", "Squareplus"),
        *("LogSigmoid", "LeakyRelu", "HardSigmoid", "HardSilu", "Elu", "Selu", "Gelu", "Celu", "TanhShrink", "HardTanh", "HardShrink"),
        *("Threshold", "Rsqrt", "Erf", "Erfc", "Cast", "ConvertToTensor", "StopGradient"),
    )
)

# Keras's own layers whose call multiplies or adds elements at their places, with weights of the last dimension.
ELEMENTWISE_LAYERS = frozenset(
    {
        "Identity",
        "keras.src.applications.convnext.LayerScale",
        "keras.src.applications.inception_resnet_v2.CustomScaleLayer",
    }
)

# Keras's own layers that compute each sample by itself, unless they write state.
SAMPLEWISE_LAYERS = frozenset(
    {
        *ELEMENTWISE_LAYERS,
        *("Activation", "ELU", "LeakyReLU", "PReLU", "ReLU", "Softmax"),
        *("AdditiveAttention", "Attention", "GroupQueryAttention", "MultiHeadAttention"),
        *("Conv1D", "Conv2D", "Conv3D", "Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose"),
        *("DepthwiseConv1D", "DepthwiseConv2D", "SeparableConv1D", "SeparableConv2D"),
        *("Dense", "Embedding", "ReversibleEmbedding", "Masking"),
        *("Add", "Average", "Concatenate", "Maximum", "Minimum", "Multiply", "Subtract"),
        *("GroupNormalization", "LayerNormalization", "RMSNormalization", "UnitNormalization"),
        *(f"{mode}Pooling{n}D" for mode in ("Average", "Max", "AdaptiveAverage", "AdaptiveMax") for n in (1, 2, 3)),
        *(f"Global{mode}Pooling{n}D" for mode in ("Average", "Max") for n in (1, 2, 3)),
        *(f"{name}{n}D" for name in ("Cropping", "UpSampling", "ZeroPadding") for n in (1, 2, 3)),
        *("Flatten", "Permute", "RepeatVector", "Reshape", "Rescaling", "CenterCrop", "Resizing"),
        *("ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D", "GRU", "LSTM", "SimpleRNN"),
        *("GRUCell", "LSTMCell", "SimpleRNNCell"),
        # as they are where their options let them draw nothing
        *("AlphaDropout", "Dropout", "GaussianDropout", "GaussianNoise", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D"),
    }
)
WRAPPERS = frozenset({"Bidirectional", "TimeDistributed", "RNN", "StackedRNNCells"})  # as what they wrap

# Operations that compute each sample by itself whatever their options, on inputs that have a batch.
_SAMPLEWISE_OPERATIONS = frozenset(
    f"keras.ops.{name}"
    for name in (
        *("MaxPool", "AveragePool", "AdaptiveMaxPool", "AdaptiveAveragePool", "Conv", "DepthwiseConv", "SeparableConv", "ConvTranspose"),
        *("OneHot", "DotProductAttention", "RMSNorm", "LayerNorm", "Unfold", "DepthToSpace", "SpaceToDepth"),
        *("RGBToGrayscale", "RGBToHSV", "HSVToRGB", "PadImages", "CropImages", "ExtractPatches"),
    )
)

# Operations along dimensions that an option names: the option.
_AXIS_OPTIONS: Mapping[str, str] = {
    **{name: "axis" for name in ("Max", "Min", "Amax", "Amin", "Mean", "Sum", "Prod", "Std", "Var", "All", "Any", "Argmax", "Argmin")},
    **{name: "axis" for name in ("Median", "Quantile", "CountNonzero", "Cumsum", "Cumprod", "Sort", "Argsort", "Flip", "Roll", "Diff")},
    **{name: "axis" for name in ("Softmax", "LogSoftmax", "Sparsemax", "Glu", "Logsumexp", "Normalize", "Norm", "Stack", "ExpandDims")},
    **{name: "axis" for name in ("Split", "Concatenate", "Squeeze", "Repeat", "Unstack")},
    "Moments": "axes",
}

DECLARED: dict[type, bool] = {}


def declare(kind: type | None = None, *, samplewise: bool) -> Any:
    """State of a Keras layer of one's own whether it computes each sample by itself, and return it; usable as a decorator.

    Then it may run on slices of the batch. Without, it is computed on the whole batch.

    Parameters
    ----------
    kind : subclass of keras.layers.Layer; None for a decorator of one.
    samplewise : whether a sample's output depends on that sample alone, in training too, with nothing written and nothing added to
        the loss. Random numbers that it draws by `keras.random` are drawn for the whole batch, and each sample has its own.

    Raises
    ------
    UnsupportedError
        If it is no class.

    Examples
    --------
    >>> hm.layers.declare(MyLayer, samplewise=True)  # doctest: +SKIP
    """
    if kind is None:
        return functools.partial(declare, samplewise=samplewise)
    if not isinstance(kind, type):
        raise UnsupportedError(f"{kind!r} is no class", "declare the class of a layer, such as type(layer)")
    DECLARED[kind] = bool(samplewise)
    return kind


@dataclasses.dataclass(frozen=True)
class Operands:
    """What a call of an operation reads and gives.

    Parameters
    ----------
    operation : the Keras operation, which has its options.
    shapes : (tensors,) extents of what it reads, None for the batch.
    output : extents of its output.
    arguments : its arguments besides, as (positional ones with None for tensors, named ones).
    """

    operation: Any
    shapes: tuple[tuple[int | None, ...], ...]
    output: tuple[int | None, ...]
    arguments: tuple[tuple[Any, ...], Mapping[str, Any]]

    @property
    def ranks(self) -> set[int]:
        """Numbers of dimensions of what it reads."""
        return {len(shape) for shape in self.shapes}

    @property
    def rank(self) -> int:
        """Number of dimensions of the first tensor."""
        return len(self.shapes[0])


def operation_is_samplewise(name: str, operands: Operands) -> bool:
    """Return whether an operation of `keras.ops` certainly computes each sample by itself; all tensors that it reads have a batch.

    Parameters
    ----------
    name : such as "keras.ops.Mean".
    """
    short = name.removeprefix("keras.ops.")
    if name in _SAMPLEWISE_OPERATIONS:
        return True
    if name in ELEMENTWISE_OPERATIONS:
        return len(operands.ranks) == 1 and operands.rank >= 1
    option = _AXIS_OPTIONS.get(short)
    if option is not None:
        return len(operands.ranks) == 1 and _keeps_batch(getattr(operands.operation, option, None), operands.rank + (short in _NEW_AXIS))
    check = _CHECKS.get(short)
    return check is not None and check(operands)


def _keeps_batch(axes: Any, rank: int) -> bool:
    """Return whether dimensions are named, and the batch is none of them."""
    if axes is None:
        return False
    named = list(axes) if isinstance(axes, (list, tuple)) else [axes]
    return all(isinstance(axis, int) and axis % rank != 0 for axis in named)


def _multiplies(o: Operands) -> bool:
    """Matrix products; a constant is the second factor of a tensor, and has no batch."""
    return len(o.ranks) == 1 and o.rank >= (3 if len(o.shapes) > 1 else 2) and (len(o.shapes) > 1 or o.arguments[0][:1] == (None,))


def _transposes(o: Operands) -> bool:
    axes = getattr(o.operation, "axes", None)
    return axes is not None and list(axes)[0] == 0


def _pads(o: Operands) -> bool:
    width = getattr(o.operation, "pad_width", None)
    return isinstance(width, (list, tuple)) and len(width) == o.rank and tuple(width[0]) == (0, 0)


def _takes(o: Operands) -> bool:
    return len(o.shapes) == 1 and o.arguments[0][:1] == (None,) and _keeps_batch(getattr(o.operation, "axis", None), o.rank)


def _reshapes(o: Operands) -> bool:
    """Shapes that keep the samples apart: as many elements in each."""
    inner = (o.shapes[0][1:], o.output[1:])
    return o.output[:1] == (None,) and all(None not in shape for shape in inner) and math.prod(inner[0]) == math.prod(inner[1])  # type: ignore[arg-type]


def _slices(o: Operands) -> bool:
    positional, named = o.arguments
    key = named.get("key", positional[1] if len(positional) > 1 else None)
    entries = key if isinstance(key, (list, tuple)) else (key,)
    if len(o.shapes) > 1 or not entries or not all(isinstance(e, (int, slice, type(None), type(...))) for e in entries):
        return False
    if entries[0] is Ellipsis:
        return sum(entry is not None for entry in entries[1:]) < o.rank
    return isinstance(entries[0], slice) and entries[0] == slice(None)


def _contracts(o: Operands) -> bool:
    """Einstein sums in which the batch is the first index of every tensor and of the output, and of no constant."""
    terms, arrow, output = str(getattr(o.operation, "subscripts", "")).replace(" ", "").partition("->")
    operands, positional = terms.split(","), o.arguments[0]
    if not arrow or not output[:1].isalpha() or len(operands) != len(positional):
        return False
    of_tensors = [term for term, argument in zip(operands, positional) if argument is None]
    of_constants = [term for term, argument in zip(operands, positional) if argument is not None]
    batch = output[0]
    return all(term[:1] == batch and batch not in term[1:] for term in of_tensors) and all(batch not in term for term in of_constants)


_NEW_AXIS = ("Stack", "ExpandDims")
_CHECKS: Mapping[str, Callable[[Operands], bool]] = {
    "Matmul": _multiplies,
    "Transpose": _transposes,
    "Swapaxes": lambda o: _keeps_batch([o.operation.axis1, o.operation.axis2], o.rank),
    "Moveaxis": lambda o: _keeps_batch([*o.operation.source, *o.operation.destination], o.rank),
    "Pad": _pads,
    "Take": _takes,
    "Reshape": _reshapes,
    "GetItem": _slices,
    "Einsum": _contracts,
}
