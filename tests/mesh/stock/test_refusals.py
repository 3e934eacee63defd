"""Every operation of Mesh-TensorFlow is shown right on unequal slices, or refused by name; so is what it cannot do on a layout."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import tensorflow as tf

from hetero_mtf.errors import LayoutError
from hetero_mtf.mesh import lower
from hetero_mtf.mesh.compat import mtf, placement
from hetero_mtf.mesh.lowering import lower_operation
from tests.mesh.running import implementation, shape
from tests.mesh.stock import arrangements, images, test_control, test_variable  # noqa: F401 - the first two add their cases
from tests.mesh.stock.cases import CASES, A, C, K, Tensors

# Operations and public functions that have a test of their own instead of a case.
TESTED = {
    "StackedVariable": test_variable.test_two_variables_of_a_shape_are_stacked_and_set_together,
    "Assign": test_variable.test_assigning_adding_and_subtracting_give_what_they_say_in_the_next_step,
    "assign": test_variable.test_assigning_adding_and_subtracting_give_what_they_say_in_the_next_step,
    "assign_add": test_variable.test_assigning_adding_and_subtracting_give_what_they_say_in_the_next_step,
    "assign_sub": test_variable.test_assigning_adding_and_subtracting_give_what_they_say_in_the_next_step,
    "get_variable": test_variable.test_initial_values_are_one_whole_draw,
    "Variable": test_variable.test_initial_values_are_one_whole_draw,
    "read_variable": test_variable.test_initial_values_are_one_whole_draw,
    "ReadVariable": test_variable.test_initial_values_are_one_whole_draw,
    "RandomOperation": test_control.test_random_numbers_do_not_depend_on_the_layout,
    "random_uniform": test_control.test_random_numbers_do_not_depend_on_the_layout,
    "random_normal": test_control.test_random_numbers_do_not_depend_on_the_layout,
    "dropout": test_control.test_dropout_does_not_depend_on_the_layout,
    "ImportLaidOutTensorOperation": test_control.test_slices_are_imported_as_they_lie,
    "import_laid_out_tensor": test_control.test_slices_are_imported_as_they_lie,
}
# Public functions that make no operation.
NO_OPERATION = set(
    """anonymous_shape assign_add_slice assign_slice assign_sub_slice binary_arguments_to_tensors binary_reduction_fn combined_dimension
    compatible_lazy_allreduce_sums convert_args_to_laid_out_tensors convert_to_dimension convert_to_layout_rules convert_to_shape
    is_subsequence list_product log_variable_sizes parallel pnum_to_group pnum_to_processor_coordinates pnum_to_processor_coordinates_nd
    pool_fn pretty_print_counters processor_coordinates_to_pnum processor_coordinates_to_pnum_map_nd processor_groups reduction_fn
    tensor_dim_to_mesh_dim_size tensor_dim_to_size_per_split transpose_list_of_lists verify_no_new_dims""".split()
)
# Public functions that other ones' cases go through, by these.
THROUGH = {
    **{f"{kind}_backprop_{by}": f"{kind}: rows 0" for kind in images.KINDS for by in ("input", "filter")},
    "pool_backprop": "max_pool2d",
}


def _classes(kind: type) -> Iterator[type]:
    for child in kind.__subclasses__():
        if child.__module__.startswith("mesh_tensorflow"):
            yield child
        yield from _classes(child)


def _operations(operations: Any) -> Iterator[Any]:
    for operation in operations:
        yield operation
        if isinstance(operation, mtf.WhileLoopOperation):
            yield from _operations([*operation._cond_ops, *operation._body_ops])


def _used() -> set[str]:
    """Return the operations that the cases are made of, gradients included."""
    found = set()
    for name in CASES:
        with tf.Graph().as_default():
            mesh = mtf.Mesh(mtf.Graph(), "mesh")
            values = Tensors(mesh)
            outputs = [y for y in CASES[name].build(mesh, values) if y.dtype.is_floating]
            if CASES[name].gradient and outputs:
                mtf.gradients(outputs, [x for x in values.used() if x.dtype.is_floating])
            found |= {type(operation).__name__ for operation in _operations(mesh.graph.operations)}
    return found


def test_every_operation_is_shown_right_or_refused_by_name() -> None:
    shown = _used() | set(TESTED)
    classes = set(_classes(mtf.Operation))
    assert len(classes) > 40
    for kind in classes:
        if kind.__name__ not in shown:
            operation = kind.__new__(kind)
            operation._name = "it"
            with pytest.raises(
                LayoutError, match=rf"operation it \({kind.__name__}\) is not supported on unequal slices; use mtf.slicewise"
            ):
                lower_operation(operation, None)  # type: ignore[arg-type]
    assert {kind.__name__ for kind in classes} <= shown  # today nothing is left to refuse


def test_every_public_operation_has_a_case() -> None:
    functions = {f for name, f in vars(mtf).items() if inspect.isfunction(f) and f.__module__ == "mesh_tensorflow.ops" and name[0] != "_"}
    names = {f.__name__.removeprefix("mtf_") for f in functions}
    cases = {name.partition(":")[0] for name in CASES}
    assert len(names) > 130
    assert names - cases - set(TESTED) - set(THROUGH) - NO_OPERATION == set()
    assert set(THROUGH.values()) <= set(CASES) and NO_OPERATION <= names


IMAGE = (mtf.Dimension("h", 4), mtf.Dimension("w", 6))
TALL = mtf.Dimension("tall", 7)


def _filter(v: Any, *dimensions: Any) -> Any:
    return mtf.zeros(v.x.mesh, list(dimensions), tf.float64)


WINDOW = (mtf.Dimension("fh", 2), mtf.Dimension("fw", 3))
Refusal = tuple[Callable[[Any, Any], Any], dict[str, Any], str]
REFUSED: dict[str, Refusal] = {
    **{
        kind: (build, {"c": (5, 1)}, rf"operation .* \({kind}\) works along dimension c, which lies on a mesh axis; rename it")
        for kind, build in {
            "ConcatOperation": lambda m, v: mtf.concat([v.x, v.x], "c"),
            "SplitOperation": lambda m, v: mtf.split(v.x, C, 2)[0],
            "StackOperation": lambda m, v: mtf.stack([mtf.reduce_sum(v.x, reduced_dim=C)] * 6, "c"),
            "UnstackOperation": lambda m, v: mtf.unstack(v.x, C)[0],
            "SliceOperation": lambda m, v: mtf.slice(v.x, 0, 2, "c"),
            "PadOperation": lambda m, v: mtf.pad(v.x, [1, 1], "c"),
        }.items()
    },
    "slicewise": (
        lambda m, v: mtf.slicewise(lambda x: tf.cumsum(x, 1), [v.x], splittable_dims=[A]),
        {"c": (5, 1)},
        r"operation slicewise.* \(SlicewiseOperation\) needs dimension c whole, it lies on a mesh axis; leave it out",
    ),
    "a convolution's height": (
        lambda m, v: mtf.Conv2dOperation(v.image, _filter(v, *WINDOW, C, K), [1, 1, 1, 1], "SAME").outputs[0],
        {"h": (3, 1)},
        r"operation conv2d.* \(Conv2dOperation\) needs dimension h whole, it lies on a mesh axis; leave it .* or cut the image into blocks",
    ),
    "the height of one image": (
        lambda m, v: mtf.Conv2dOperation(mtf.reduce_sum(v.image, reduced_dim=A), _filter(v, *WINDOW, C, K), [1] * 4, "SAME").outputs[0],
        {"h": (3, 1)},
        r"operation conv2d.* \(Conv2dOperation\) needs dimension h whole",
    ),
    "a convolution's window": (
        lambda m, v: mtf.Conv2dOperation(v.image, _filter(v, *WINDOW, C, K), [1, 1, 1, 1], "SAME").outputs[0],
        {"fw": (1, 2)},
        r"operation conv2d.* \(Conv2dOperation\) needs dimension fw whole",
    ),
    "a transposed convolution's width": (
        lambda m, v: mtf.Conv2dTransposeOperation(v.image, _filter(v, *WINDOW, K, C), [1, 2, 2, 1], "SAME").outputs[0],
        {"w": [(4, 2), (8, 4)]},
        r"operation conv2d_transpose.* \(Conv2dTransposeOperation\) needs dimension w whole",
    ),
    "a filter gradient's height": (
        lambda m, v: mtf.conv2d_backprop_filter(v.image, mtf.Shape([*WINDOW, C, K]), _filter(v, A, *IMAGE, K), [1, 1, 1, 1], "SAME"),
        {"h": (3, 1)},
        r"operation conv2d_backprop_filter.* \(Conv2or3dBackpropFilterOperation\) needs dimension h whole",
    ),
    "a stride that leaves a rest": (
        lambda m, v: mtf.Conv2dOperation(v.image, _filter(v, *WINDOW, C, K), [1, 3, 3, 1], "SAME").outputs[0],
        {"c": (5, 1)},
        r"conv2d.* made a slice of \[4, 2, 2, 3\] on processor 0, expected \[4, 1, 2, 3\]; correct its output shape",
    ),
    "windows over the edges": (
        lambda m, v: mtf.layers.max_pool2d(v.image),
        {"h": [(3, 1), (1, 1)]},
        r"operation .* \(PoolOperation\) pools 2 along dimension h, whose sizes are \[3, 1\]; leave it out .* that the window divides",
    ),
    "a loop that assigns": (
        lambda m, v: mtf.while_loop(lambda i, x: mtf.less(i, 2), lambda i, x: [i + 1, x], [mtf.constant(m, 0, dtype=tf.int32), v.x], 1)[0],
        {"c": (5, 1)},
        r"operation while_loop.* \(WhileLoopOperation\) assigns to loop_var_0 in its body, .*; make it a loop variable",
    ),
    "two dimensions on one axis": (
        lambda m, v: mtf.add(mtf.reduce_sum(v.x, reduced_dim=C), v.y),
        {"a": (3, 1), "c": (5, 1)},
        "two dimensions of .* lie on one mesh axis; give one of them another name",
    ),
    "a sum": (lambda m, v: mtf.zeros(m, shape(c=5)), {"c": (5, 1)}, r"dimension c has 5 units, its sizes \[5, 1\] sum to 6"),
}  # fmt: skip


@pytest.mark.parametrize("build, sizes, words", REFUSED.values(), ids=REFUSED)
def test_what_a_layout_does_not_allow_is_refused_by_name(build: Callable[..., Any], sizes: Any, words: str) -> None:
    with tf.Graph().as_default():
        graph = mtf.Graph()
        mesh = mtf.Mesh(graph, "mesh")
        build(mesh, Tensors(mesh))
        with pytest.raises(LayoutError, match=words):
            lower(graph, {mesh: implementation([("p", 2)], dict.fromkeys(sizes, "p"), sizes)})


def test_windows_that_lie_within_slices_are_pooled() -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        graph = mtf.Graph()
        mesh = mtf.Mesh(graph, "mesh")
        values = Tensors(mesh)
        pooled = mtf.layers.avg_pool2d(values.image)
        lowering = lower(graph, {mesh: implementation([("p", 2)], {"w": "p"}, {"w": [(4, 2), (2, 1)]})})
        found, expected = session.run(
            [lowering.export_to_tf_tensor(pooled), tf.nn.avg_pool2d(values.image.operation._tf_tensor, 2, 2, "VALID")]
        )
    assert abs(found - expected).max() < 1e-12


def test_lowering_without_a_graph_to_lower_into_is_refused() -> None:
    with pytest.raises(LayoutError, match=r"cannot be lowered eagerly; build and lower it within tf.Graph\(\).as_default\(\)"):
        lower(mtf.Graph(), {})
    with pytest.raises(LayoutError, match="cannot be lowered in a tf.function"):
        tf.function(lambda: lower(mtf.Graph(), {}), autograph=False)()


@pytest.mark.parametrize("impl, found", [(None, "nothing"), (placement.PlacementMeshImpl([], {}, [""]), "PlacementMeshImpl")])
def test_a_mesh_without_an_uneven_implementation_is_refused(impl: Any, found: str) -> None:
    with tf.Graph().as_default():
        graph = mtf.Graph()
        mesh = mtf.Mesh(graph, "mine")
        mtf.zeros(mesh, shape(c=5))
        with pytest.raises(LayoutError, match=f"mesh mine is to be lowered by {found}; give an UnevenMeshImpl for it"):
            lower(graph, {mesh: impl} if impl else {})
