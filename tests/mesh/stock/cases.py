"""One case for each public operation of Mesh-TensorFlow: what it is built of, by the operation's name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from hetero_mtf.mesh.compat import mtf
from tests.mesh.running import shape

A, C = mtf.Dimension("a", 4), mtf.Dimension("c", 6)  # a lies on the mesh axis q, c on p
K, D, ONE, H = mtf.Dimension("k", 3), mtf.Dimension("d", 6), mtf.Dimension("one", 1), mtf.Dimension("h", 4)  # these are whole

Build = Callable[[Any, Any], Sequence[Any]]


@dataclasses.dataclass(frozen=True)
class Case:
    """A piece of Mesh-TensorFlow: (mesh, the tensors of `inputs`) -> tensors, and whether it has a gradient."""

    build: Build
    gradient: bool = True


CASES: dict[str, Case] = {}


def case(name: str, build: Build, gradient: bool = True) -> None:
    """Add the case of a public operation; `name` is the operation's, and after a colon what is special."""
    assert name not in CASES
    CASES[name] = Case(build, gradient)


def each(names: Sequence[str], build: Callable[[Any, Any], Sequence[Any]], gradient: bool = True) -> None:
    """Add a case for each of several public operations: (the operation, tensors) -> tensors."""
    for name in names:
        case(name, lambda m, v, f=getattr(mtf, name): build(f, v), gradient)  # noqa: B008 - bound for each name on purpose


def _inputs() -> dict[str, tuple[np.ndarray, Any]]:
    """Return the arrays a case may use, by name: x, z (a, c), y (c,), u positive, i, n int32, t (a, c) bool, images and filters."""
    rng = np.random.default_rng(7)
    normal = lambda *extents: rng.normal(size=extents)  # noqa: E731
    return {
        "x": (normal(4, 6), shape(a=4, c=6)),
        "z": (normal(4, 6), shape(a=4, c=6)),
        "y": (normal(6), shape(c=6)),
        "w": (normal(6, 3), shape(c=6, k=3)),
        "u": (rng.uniform(0.5, 2.0, size=(4, 6)), shape(a=4, c=6)),
        "i": (np.array([5, 0, 3, 2], "int32"), shape(a=4)),
        "n": (rng.integers(1, 9, size=(4, 6)).astype("int32"), shape(a=4, c=6)),
        "t": (normal(4, 6) > 0, shape(a=4, c=6)),
        "e": (np.array([2.0, 7.0, 7.0, 1.0, 7.0, 2.0])[None] + np.zeros((4, 1)), shape(a=4, c=6)),  # equal elements
        "image": (normal(4, 4, 6, 6), shape(a=4, h=4, w=6, c=6)),
        "volume": (normal(4, 2, 4, 2, 6), shape(a=4, depth=2, h=4, w=2, c=6)),
        "many": (normal(2, 4, 4, 4, 3), shape(m=2, a=4, h=4, w=4, k=3)),
        "blocks": (normal(4, 2, 6, 3), shape(a=4, h=2, c=6, k=3)),
    }


INPUTS = _inputs()


class Tensors:
    """The arrays of `inputs` as mtf tensors, each imported when a case asks for it."""

    def __init__(self, mesh: Any) -> None:
        self._make = lambda name: mtf.import_tf_tensor(mesh, tf.constant(INPUTS[name][0]), INPUTS[name][1])

    def __getattr__(self, name: str) -> Any:
        tensor = self._make(name)
        setattr(self, name, tensor)
        return tensor

    @staticmethod
    def array(name: str) -> np.ndarray:
        """Return what the tensor of this name holds."""
        return INPUTS[name][0]

    def used(self) -> list[Any]:
        """Return the tensors that were asked for."""
        return [tensor for name, tensor in vars(self).items() if name in INPUTS]


def _elementwise() -> None:
    each(
        ("identity", "sin", "cos", "square", "exp", "sigmoid", "tanh", "negative", "swish", "gelu", "elu", "selu", "softplus"),
        lambda f, v: [f(v.x)],
    )
    each(("relu", "squared_relu", "leaky_relu", "abs"), lambda f, v: [f(v.x)])
    each(("sqrt", "rsqrt", "log", "reciprocal"), lambda f, v: [f(v.u)])
    case("sign", lambda m, v: [mtf.sign(v.x)], gradient=False)
    case("pow", lambda m, v: [mtf.pow(v.u, 3.0)], gradient=False)
    case("logical_not", lambda m, v: [mtf.logical_not(v.t)], gradient=False)
    case("cast", lambda m, v: [mtf.cast(v.x, tf.float32)])
    case("to_float", lambda m, v: [mtf.to_float(v.n)], gradient=False)
    case("to_bfloat16", lambda m, v: [mtf.cast(mtf.to_bfloat16(v.x), tf.float64)])
    case("to_int32", lambda m, v: [mtf.to_int32(v.x * 3.0)], gradient=False)
    case("cwise", lambda m, v: [mtf.cwise(lambda x, z: x * tf.sin(z), [v.x, v.z])])
    case("cwise: int", lambda m, v: [mtf.cwise(lambda x, n: x * tf.cast(n, tf.float64), [v.x, v.n])])
    case("slicewise", lambda m, v: [mtf.slicewise(lambda b: tf.cumsum(b, 1), [v.blocks], splittable_dims=[A, C])])
    case(
        "slicewise: two outputs",
        lambda m, v: list(mtf.slicewise(lambda x: (x * x, tf.exp(x)), [v.x], [v.x.shape] * 2, [tf.float64] * 2, [A, C])),
    )
    case("stop_gradient", lambda m, v: [mtf.stop_gradient(v.x) * v.z])


def _binary() -> None:
    each(("less", "greater", "less_equal", "greater_equal", "equal", "not_equal"), lambda f, v: [f(v.x, v.z), f(v.n, 4)], gradient=False)
    each(("logical_and", "logical_or"), lambda f, v: [f(v.t, mtf.greater(v.x, 0.0))], gradient=False)
    each(("floordiv", "mod"), lambda f, v: [f(v.n, 3)], gradient=False)
    each(("minimum", "maximum"), lambda f, v: [f(v.x, v.z)])
    case("minimum: broadcast", lambda m, v: [mtf.minimum(v.x, v.y), mtf.maximum(v.y, v.x)], gradient=False)
    case("add", lambda m, v: [mtf.add(v.x, v.z), mtf.add(v.x, v.y), mtf.add(v.y, v.x), v.x + 1.5])
    case("add: all with all", lambda m, v: [mtf.add(mtf.reduce_sum(v.x, reduced_dim=C), v.y)])
    case("add: owed sums", lambda m, v: [mtf.add(mtf.reduce_sum(v.x, reduced_dim=C), mtf.reduce_sum(v.z, reduced_dim=C))])
    case("add_n", lambda m, v: [mtf.add_n([v.x, v.z, v.u])])
    case("sub", lambda m, v: [mtf.sub(v.x, v.y), 1.0 - v.x])
    case("multiply", lambda m, v: [mtf.multiply(v.x, v.y), v.x * 2.0])
    case("divide", lambda m, v: [mtf.divide(v.x, v.u), v.x / 2.0])
    case("where", lambda m, v: [mtf.where(v.t, v.x, v.z)])
    case("binary_op_with_broadcasting", lambda m, v: [mtf.binary_op_with_broadcasting(tf.atan2, v.x, v.y)], gradient=False)


def _reductions() -> None:
    each(
        ("reduce_sum", "reduce_mean", "reduce_max", "reduce_min"),
        lambda f, v: [f(v.x), f(v.x, reduced_dim=A), f(v.x, reduced_dim=C), f(v.image, output_shape=[C, A])],
    )
    each(("reduce_all", "reduce_any"), lambda f, v: [f(v.t, reduced_dim=A), f(v.t, reduced_dim=C)], gradient=False)
    case("reduce_max: int", lambda m, v: [mtf.reduce_max(v.n), mtf.reduce_min(v.n, reduced_dim=C), mtf.reduce_sum(v.n)], gradient=False)
    case("reduce_logsumexp", lambda m, v: [mtf.reduce_logsumexp(v.x, C), mtf.reduce_logsumexp(v.x, A, extra_logit=0.0)])
    case("log_softmax", lambda m, v: [mtf.log_softmax(v.x, C)])
    case("softmax", lambda m, v: [mtf.softmax(v.x, C), mtf.softmax(v.x, A)])
    case("reduce_first", lambda m, v: [mtf.reduce_first(v.x, C), mtf.reduce_first(v.x, A)])
    case("cumsum", lambda m, v: [mtf.cumsum(v.x, C), mtf.cumsum(v.x, A, exclusive=True)])
    case("einsum", lambda m, v: [mtf.einsum([v.x, v.z], output_shape=[A]), mtf.einsum([v.x, v.w], output_shape=[A, K])])
    case("einsum: three", lambda m, v: [mtf.einsum([v.x, v.y, v.w], output_shape=[K, A]), mtf.einsum([v.x, v.z, v.y], output_shape=[C])])
    case("einsum: all dimensions in one", lambda m, v: [mtf.einsum([v.x, v.image], output_shape=[A, H])])
    case("einsum: a vector times all", lambda m, v: [mtf.einsum([v.y, v.image], output_shape=[H, A])])
    case("einsum: int", lambda m, v: [mtf.einsum([v.n, v.n], output_shape=[A])], gradient=False)
    case("matmul", lambda m, v: [mtf.matmul(v.x, v.w, output_shape=[A, K])])
    case("broadcast", lambda m, v: [mtf.broadcast(v.y, [C, K, A]), mtf.broadcast(v.x, [C, A])])


def _makers() -> None:
    case("constant", lambda m, v: [mtf.constant(m, 2.5, [A, C]), mtf.constant(m, 7, dtype=tf.int32)], gradient=False)
    case("constant: array", lambda m, v: [mtf.constant(m, INPUTS["x"][0], [A, C], tf.float64)], gradient=False)
    case("zeros", lambda m, v: [mtf.zeros(m, [C, A])], gradient=False)
    case("ones", lambda m, v: [mtf.ones(m, [C, A])], gradient=False)
    case("zeros_like", lambda m, v: [mtf.zeros_like(v.n)], gradient=False)
    case("ones_like", lambda m, v: [mtf.ones_like(v.x)], gradient=False)
    case("range", lambda m, v: [mtf.range(m, C, tf.int32), mtf.range(m, A, tf.float32), mtf.range(m, C, tf.bfloat16)], gradient=False)
    case("import_tf_tensor", lambda m, v: [mtf.import_tf_tensor(m, tf.ones([6, 4]), [C, A])], gradient=False)
    case("import_fully_replicated", lambda m, v: [mtf.import_fully_replicated(m, tf.ones([6, 4]), [C, A])], gradient=False)
    case("one_hot", lambda m, v: [mtf.one_hot(v.i, C), mtf.one_hot(v.i, D, 3, -1, dtype=tf.int32)], gradient=False)
    case("gather", lambda m, v: [mtf.gather(v.w, v.i, C), mtf.gather(v.x, 2, C), mtf.gather(v.x, 2, A)])
    case("gather: bool", lambda m, v: [mtf.gather(v.t, 2, C)], gradient=False)


def _control() -> None:
    case("depend", lambda m, v: [mtf.depend(v.x, [v.z, v.y]), mtf.depend(mtf.reduce_sum(v.x), [mtf.reduce_sum(v.z)])])
    case(
        "Print", lambda m, v: [mtf.Print(v.x, [mtf.reduce_sum(v.z), v.y], "", first_n=0), mtf.Print(mtf.reduce_sum(v.x), [], "", first_n=0)]
    )
    case("scalar_summary", lambda m, v: [mtf.scalar_summary("loss", mtf.reduce_sum(v.x)).outputs[0]])
    case("gradients", lambda m, v: mtf.gradients([mtf.einsum([v.x, v.w], output_shape=[A, K])], [v.x, v.w]))
    case("gradients: given", lambda m, v: mtf.gradients([v.x * v.y], [v.y], grad_ys=[v.z]))
    case("custom_gradient", lambda m, v: [mtf.custom_gradient(lambda x: mtf.exp(x), _twice, [v.x])])
    case("recompute_grad", lambda m, v: [mtf.recompute_grad(lambda x: mtf.sigmoid(mtf.einsum([x, v.w], [A, K])), [v.x])])
    case("while_loop", lambda m, v: mtf.while_loop(lambda i, x: mtf.less(i, 3), _grow, [mtf.constant(m, 0, dtype=tf.int32), v.x]), False)
    case("while_loop: sums", _accumulate, False)
    case("serialize_training_step", _microbatches, False)


def _twice(explicit_inputs: Any, all_inputs: Any, forward_operations: Any, outputs: Any, output_grads: Any) -> Any:
    return [output_grads[0] * 2.0]


def _grow(i: Any, x: Any) -> Any:
    return [i + 1, mtf.broadcast(mtf.reduce_sum(x, reduced_dim=C), x.shape) + mtf.relu(x)]


def _accumulate(m: Any, v: Any) -> Any:
    outside = mtf.reduce_sum(v.x, reduced_dim=C)  # owed, and read inside and outside

    def body(i: Any) -> Any:
        return [i + 1, mtf.reduce_sum(v.x * mtf.cast(i, tf.float64), reduced_dim=C), v.x * outside]

    return [*mtf.while_loop(lambda i: mtf.less(i, 3), body, [mtf.constant(m, 0, dtype=tf.int32)], has_accumulators=True), outside]


def _microbatches(m: Any, v: Any) -> Any:
    weights = mtf.get_variable(m, "weights", shape(c=6, k=3), tf.float64, initializer=tf.compat.v1.random_normal_initializer(seed=3))

    def model(features: Any) -> Any:
        x = features["x"]
        y = mtf.relu(mtf.einsum([x, mtf.tanh(weights)], output_shape=[*x.shape.dims[:1], K]))
        return {"loss": mtf.reduce_sum(mtf.square(y)), "y": y}

    batch = mtf.Dimension("batch", 4)
    x = mtf.reshape(v.x, [batch, C])
    gradients, outputs = mtf.serialize_training_step({"x": x}, model, batch, 2)
    return [*gradients, outputs["loss"], outputs["y"]]


for _add in (_elementwise, _binary, _reductions, _makers, _control):
    _add()
