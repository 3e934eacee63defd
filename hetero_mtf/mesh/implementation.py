"""A Mesh-TensorFlow mesh on which a dimension may be split into unequal slices."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from hetero_mtf.errors import LayoutError
from hetero_mtf.mesh.collectives import Collectives, all_gather, all_to_all, reduce_scatter
from hetero_mtf.mesh.compat import mtf, placement
from hetero_mtf.mesh.forms import Sizes, device_strings, layout_axes, mesh_shape, size_lists


class UnevenMeshImpl(placement.PlacementMeshImpl):
    """Processors on named mesh axes, each holding its own, not necessarily equal, slice.

    Parameters
    ----------
    shape : mesh axes and their processors, in a form of Mesh-TensorFlow: [("devices", 3)], "devices:3" or an `mtf.Shape`.
    layout : mesh axis of each laid-out dimension, in a form of Mesh-TensorFlow: [("hidden", "devices")], "hidden:devices" or
        `mtf.LayoutRules`; or {"hidden": "devices"}.
    devices : (processors,) TensorFlow device strings or `tf.DeviceSpec`, last mesh axis fastest.
    sizes : dimension, by its name or as `mtf.Dimension` -> units of each processor along its mesh axis, zero allowed; or several
        such lists, where dimensions of one name differ in size. A laid-out dimension without sizes
        is split equally and must be divisible.
    collectives : methods of the all-reduces; None for the defaults.

    Raises
    ------
    LayoutError
        If an argument has another form, an axis is unknown, sizes are negative or not one a processor, or hosts are not one a
        processor.

    Notes
    -----
    Two dimensions of one tensor cannot lie on the same mesh axis. Anything that asks for a single
    slice shape of an unequal tensor raises; `processor_shape` returns each processor's.

    In all methods `pnum` is the number of a processor, from 0, last mesh axis fastest; `mesh_axis` and `axis` are the index of a mesh axis,
    `place` is a place on it, from 0; `shape`, `tensor_shape`, `old_shape` and `new_shape` are `mtf.Shape`s of full tensors; `x` and
    `old_slices` are laid-out tensors. Those that take a shape raise `LayoutError` where a laid-out dimension has sizes of another sum, or
    none and is not divisible, or, if slices are made, two dimensions lie on one mesh axis.
    """

    def __init__(
        self,
        shape: str | Mapping[str, int] | Iterable[tuple[str, int]],
        layout: str | Mapping[Any, str] | Iterable[tuple[Any, str]],
        devices: Iterable[str | tf.DeviceSpec | None],
        sizes: Mapping[Any, Sizes] | Iterable[tuple[Any, Sizes]] | None = None,
        collectives: Collectives | None = None,
    ) -> None:
        axes_shape, axis_names, strings = mesh_shape(shape), layout_axes(layout), device_strings(devices)
        super().__init__(axes_shape, mtf.LayoutRules(axis_names.items()), strings)
        axes = {name: index for index, name in enumerate(axes_shape.dimension_names)}
        unknown = sorted(set(axis_names.values()) - set(axes))
        if unknown:
            raise LayoutError(f"the layout names the mesh axes {', '.join(unknown)}, the mesh has {', '.join(axes)}", "name one of these")
        if len(strings) != self.size:
            raise LayoutError(f"the mesh has {self.size} processors and {len(strings)} devices are given", "give one a processor")
        self._collectives = collectives or Collectives()
        hosts = self._collectives.hosts
        if len(hosts) not in (0, self.size):
            raise LayoutError(f"the mesh has {self.size} processors and {len(hosts)} hosts are given", "give one a processor")
        self._axis_of = {name: axes[axis] for name, axis in axis_names.items()}
        self._sizes: dict[str, dict[int, tuple[int, ...]]] = {}
        for name, extents in size_lists(sizes or {}):
            self._check_sizes(name, extents)
            known = self._sizes.setdefault(name, {}).setdefault(sum(extents), extents)
            if known != extents:
                raise LayoutError(f"dimension {name} has the sizes {list(known)} and {list(extents)} of one sum", "give it one of them")
        self._coordinates = list(itertools.product(*(range(axis.size) for axis in axes_shape)))

    def _check_sizes(self, name: str, extents: tuple[int, ...]) -> None:
        if name not in self._axis_of:
            raise LayoutError(f"sizes are given for dimension {name}, which lies on no mesh axis", "add it to the layout")
        count = self.shape[self._axis_of[name]].size
        if len(extents) != count or min(extents) < 0:
            raise LayoutError(
                f"dimension {name} has the sizes {list(extents)} on a mesh axis of {count}", f"give {count} sizes of 0 or more"
            )

    @property
    def bucket_bytes(self) -> int:
        """Most bytes of tensors whose all-reduces are fused."""
        return self._collectives.bucket_bytes

    def axis_of(self, name: str) -> int | None:
        """Return the mesh axis that dimension `name` lies on, None if it is whole."""
        return self._axis_of.get(name)

    def sizes_of(self, dimension: mtf.Dimension) -> tuple[int, ...]:
        """Return the units of each processor along the mesh axis of a laid-out `dimension`, an `mtf.Dimension`.

        Raises
        ------
        LayoutError
            If its sizes do not sum to its size, or it has none and is not divisible.
        """
        sizes = self._sizes.get(dimension.name)
        count = self.shape[self._axis_of[dimension.name]].size
        if sizes is None:
            if dimension.size % count:
                fault = f"dimension {dimension.name} of {dimension.size} is not divisible by {count} processors"
                raise LayoutError(fault, "give sizes for it")
            return (dimension.size // count,) * count
        if dimension.size not in sizes:
            known = " and ".join(f"{list(extents)} sum to {total}" for total, extents in sizes.items())
            raise LayoutError(f"dimension {dimension.name} has {dimension.size} units, its sizes {known}", "make them agree")
        return sizes[dimension.size]

    def tensor_dimension_to_mesh_axis(self, tensor_dimension: mtf.Dimension) -> int | None:
        """Return the mesh axis that `tensor_dimension`, an `mtf.Dimension`, lies on, None if it is whole."""
        return self._axis_of.get(tensor_dimension.name)

    def tensor_layout(self, arg: Any) -> Any:
        """Return the `mtf.TensorLayout` of `arg`, an `mtf.Tensor` or `mtf.Shape`.

        Raises
        ------
        LayoutError
            If two of its dimensions lie on one mesh axis.
        """
        shape = arg.shape if isinstance(arg, mtf.Tensor) else arg
        axes = [self._axis_of.get(dimension.name) for dimension in shape.dims]
        used = [axis for axis in axes if axis is not None]
        if len(set(used)) != len(used):
            raise LayoutError(f"two dimensions of {shape} lie on one mesh axis", "give one of them another name")
        return mtf.TensorLayout(axes)

    def is_uneven(self, shape: mtf.Shape) -> bool:
        """Return whether the processors' slices of a tensor differ in shape."""
        return any(len(set(self.sizes_of(d))) > 1 for d in shape.dims if d.name in self._axis_of)

    def processor_shape(self, shape: mtf.Shape, pnum: int) -> list[int]:
        """Return the shape of processor `pnum`'s slice of a tensor of `shape`."""
        self.tensor_layout(shape)
        return [self._extent(dimension, pnum)[1] for dimension in shape.dims]

    def slice_begin(self, tensor_shape: mtf.Shape, pnum: int) -> list[int]:
        """Return where processor `pnum`'s slice begins in each dimension."""
        return [self._extent(dimension, pnum)[0] for dimension in tensor_shape.dims]

    def _extent(self, dimension: mtf.Dimension, pnum: int) -> tuple[int, int]:
        """Return (begin, length) of a dimension on a processor."""
        axis = self._axis_of.get(dimension.name)
        if axis is None:
            return 0, dimension.size
        sizes = self.sizes_of(dimension)
        place = self._coordinates[pnum][axis]
        return sum(sizes[:place]), sizes[place]

    def place(self, pnum: int, axis: int) -> int:
        """Return the place of processor `pnum` on a mesh axis."""
        return self._coordinates[pnum][axis]

    def neighbour(self, pnum: int, axis: int, place: int) -> int:
        """Return the processor at `place` on a mesh axis, elsewhere beside processor `pnum`."""
        coordinates = list(self._coordinates[pnum])
        coordinates[axis] = place
        return self._coordinates.index(tuple(coordinates))

    def slice_shape(self, tensor_shape: mtf.Shape) -> list[int]:
        """Return the single slice shape of an equally split tensor.

        Raises
        ------
        LayoutError
            If it is split unequally.
        """
        if self.is_uneven(tensor_shape):
            raise LayoutError(f"{tensor_shape} is cut unevenly and has no single slice shape", "use an operation that takes unequal slices")
        return self.processor_shape(tensor_shape, 0)

    def slice_size(self, tensor_shape: mtf.Shape) -> int:
        """Return the elements of the largest slice."""
        return max(math.prod(self.processor_shape(tensor_shape, pnum)) for pnum in range(self.size))

    def laid_out_size(self, tensor_shape: mtf.Shape) -> int:
        """Return the elements of all slices together."""
        return sum(math.prod(self.processor_shape(tensor_shape, pnum)) for pnum in range(self.size))

    def on_processors(self, function: Callable[[int], Any]) -> Any:
        """Return the laid-out tensor whose slice p is `function(p)`, computed on processor p's device."""
        slices = []
        for pnum, device in enumerate(self.devices):
            with tf.device(device):
                slices.append(function(pnum))
        return self.LaidOutTensor(slices)

    def slicewise(self, fn: Callable[..., Any], *inputs: Any, nothing: float = 0) -> Any:
        """Return a function of every processor's slices: a laid-out tensor, or a tuple of them where the function returns a tuple.

        A processor with an empty slice has a constant instead. TensorFlow divides by zero, which ends the process, where empty
        tensors are reshaped, multiplied and summed, unless all of this is computed while the graph is rewritten.

        Parameters
        ----------
        fn : slices -> slice, or a tuple of slices.
        inputs : laid-out tensors, or values that are the same on all processors.
        nothing : the elements of that constant where it has any: the value of a sum, or another reduction, of no elements.
        """
        laid_out = mtf.convert_args_to_laid_out_tensors(inputs)
        lists = [x.tensor_list for x in laid_out if isinstance(x, self.LaidOutTensor)]
        idle = {p for p in range(self.size) if any(is_empty(pieces[p]) for pieces in lists)}
        results = super().slicewise(fn, *laid_out)

        def without(result: Any) -> Any:
            pieces = result.tensor_list
            return self.on_processors(lambda p: _constant(pieces[p], nothing) if p in idle else pieces[p])

        if not idle:
            return results
        return tuple(map(without, results)) if isinstance(results, tuple) else without(results)

    def make_slices(self, tf_tensor: tf.Tensor, tensor_shape: mtf.Shape) -> list[tf.Tensor]:
        """Return every processor's slice of a whole tensor `tf_tensor`, sliced on its own device."""
        if not tf_tensor.shape.is_fully_defined():
            tf_tensor = tf.ensure_shape(tf_tensor, tensor_shape.to_integer_list)
        if self.tensor_layout(tensor_shape).is_fully_replicated:
            return [tf_tensor] * self.size
        with tf.device(tf_tensor.device):
            return [tf.slice(tf_tensor, self.slice_begin(tensor_shape, p), self.processor_shape(tensor_shape, p)) for p in range(self.size)]

    def broadcast_impl(self, old_slices: Any, old_shape: mtf.Shape, new_shape: mtf.Shape) -> Any:
        """Return slices of `old_shape` broadcast to `new_shape`, a superset of its dimensions."""
        old = old_slices.to_laid_out_tensor().tensor_list
        expanded = [dimension if dimension in old_shape.dims else None for dimension in new_shape.dims]
        order = [old_shape.dims.index(dimension) for dimension in expanded if dimension is not None]

        def widen(pnum: int) -> tf.Tensor:
            target = self.processor_shape(new_shape, pnum)
            middle = [n if dimension is not None else 1 for n, dimension in zip(target, expanded)]
            return tf.broadcast_to(tf.reshape(tf.transpose(old[pnum], order), middle), target)

        return self.on_processors(widen)

    def allreduce(self, x: Any, mesh_axes: Sequence[int], reduction_fn_string: str) -> Any:
        """Return on every processor the combination of the slices over mesh axes, by the method of the collectives.

        Parameters
        ----------
        mesh_axes : indices of the mesh axes to combine over; none for `x` itself.
        reduction_fn_string : "SUM", "MAX" or "MIN", as in Mesh-TensorFlow.

        Raises
        ------
        LayoutError
            If that method cannot be used among the processors of a group.
        """
        if not mesh_axes:
            return x
        combine = mtf.binary_reduction_fn(reduction_fn_string)
        slices = x.to_laid_out_tensor().tensor_list
        results: dict[int, tf.Tensor] = {}
        for group in mtf.processor_groups(self.shape, list(mesh_axes)):
            tensors, devices = [slices[p] for p in group], [self.devices[p] for p in group]
            if all(is_empty(tensor) for tensor in tensors):
                results.update(zip(group, tensors))
                continue
            results.update(zip(group, self._collectives.all_reduce(tensors, devices, combine, group)))
        return self.LaidOutTensor([results[p] for p in range(self.size)])

    def allconcat(self, x: Any, mesh_axis: int, concat_axis: int) -> Any:
        """Return on every processor the slices along a mesh axis, concatenated along tensor axis `concat_axis`."""
        return self._collective_with_groups(x, [mesh_axis], lambda xs, devices: all_gather(xs, devices, concat_axis))

    def allsplit(self, x: Any, mesh_axis: int, split_axis: int, which: Any = None, sizes: Sequence[int] | None = None) -> Any:
        """Return each processor's own piece of slices that are whole along `split_axis`.

        Parameters
        ----------
        x : laid-out tensor, or a sum whose all-reduce over `mesh_axis` is pending, which becomes
            a reduce-scatter.
        split_axis : the tensor axis.
        which : None; Mesh-TensorFlow's coordinate of the piece, which is not supported.
        sizes : extents of the pieces along the mesh axis; None for equal pieces.

        Raises
        ------
        LayoutError
            If `which` is given, or pieces without sizes would not be equal.
        """
        if which is not None:
            raise LayoutError("allsplit by a computed coordinate is not supported on unequal slices", "leave `which` out")
        count = self.shape[mesh_axis].size
        if is_pending_sum(x) and list(x.mesh_axes) == [mesh_axis]:
            pieces = tuple(sizes or self._even_sizes(x.laid_out_input.tensor_list[0], split_axis, count))
            return self._collective_with_groups(
                x.laid_out_input, [mesh_axis], lambda xs, devices: reduce_scatter(xs, devices, split_axis, pieces)
            )
        unsplit = x.to_laid_out_tensor().tensor_list
        pieces = tuple(sizes or self._even_sizes(unsplit[0], split_axis, count))

        def cut(pnum: int) -> tf.Tensor:
            place = self._coordinates[pnum][mesh_axis]
            begin, extent = [0] * unsplit[pnum].shape.rank, unsplit[pnum].shape.as_list()
            begin[split_axis], extent[split_axis] = sum(pieces[:place]), pieces[place]
            return tf.slice(unsplit[pnum], begin, extent)

        return self.on_processors(cut)

    def exchange(self, x: Any, mesh_axis: int, *, split_axis: int, concat_axis: int, sizes: Sequence[int]) -> Any:
        """Return the all-to-all of slices split along `concat_axis`, which becomes whole: slices split along `split_axis` by `sizes`.

        Parameters
        ----------
        x : laid-out tensor.
        mesh_axis : the mesh axis that the slices lie on before and after.
        split_axis, concat_axis : tensor axes.
        sizes : extents of the new slices along the mesh axis.
        """
        return self._collective_with_groups(
            x.to_laid_out_tensor(), [mesh_axis], lambda xs, devices: all_to_all(xs, devices, split_axis, concat_axis, sizes)
        )

    @staticmethod
    def _even_sizes(tensor: tf.Tensor, axis: int, count: int) -> list[int]:
        extent = tensor.shape[axis]
        if extent % count:
            raise LayoutError(f"an extent of {extent} is not divisible by {count} processors", "give sizes")
        return [extent // count] * count

    def alltoall(self, x: Any, mesh_axis: int, split_axis: int, concat_axis: int) -> Any:
        """Raise `LayoutError`: equal pieces, as Mesh-TensorFlow exchanges them, do not exist; `exchange` takes sizes."""
        raise LayoutError("alltoall is not supported on unequal slices", "gather and split instead")

    def receive(self, x: Any, mesh_axis: int, source_pcoord: Sequence[int | None]) -> Any:
        """Raise `LayoutError`: slices of unequal sizes have no neighbours to receive from."""
        raise LayoutError("receive (shift, halo exchange) is not supported on unequal slices", "gather the dimension instead")

    def random(self, shape: mtf.Shape, tf_fn: Any, kwargs: Mapping[str, Any]) -> Any:
        """Return slices of one random tensor that does not depend on the layout.

        One processor draws a seed per step. Every processor draws the whole tensor from it and keeps its
        slice. A function without a stateless counterpart is drawn on one processor, and sliced.

        Parameters
        ----------
        shape : mtf.Shape, whole.
        tf_fn : e.g. tf.random.uniform.
        kwargs : keyword arguments of `tf_fn` but the seed, which is drawn from Python's `random`, as in
            Mesh-TensorFlow.
        """
        seed = random.getrandbits(31)
        stateless = next((drawn for own, drawn in _STATELESS if own is tf_fn), None)
        if stateless is None:
            with tf.device(self.devices[0]):
                full_tensor = tf_fn(shape.to_integer_list, seed=seed, **kwargs)
            return self.LaidOutTensor(self.make_slices(full_tensor, shape))
        with tf.device(self.devices[0]):
            key = tf.random.uniform([2], maxval=2**31 - 1, dtype=tf.int32, seed=seed)

        def draw(pnum: int) -> tf.Tensor:
            full_tensor = stateless(shape.to_integer_list, seed=key, **kwargs)
            return tf.slice(full_tensor, self.slice_begin(shape, pnum), self.processor_shape(shape, pnum))

        return self.on_processors(draw)

    def Print(self, x: Any, data: Sequence[Any], message: str, **kwargs: Any) -> Any:  # noqa: N802 - Mesh-TensorFlow's name
        """Return `x`, whose slices wait until those of `data`, laid-out tensors, are printed on the first processor after `message`."""
        slices = x.to_laid_out_tensor().tensor_list
        with tf.device(self.devices[0]):
            printed = tf.compat.v1.Print(slices[0], [piece for d in data for piece in d.tensor_list], message, **kwargs)
        with tf.control_dependencies([printed]):
            return self.on_processors(lambda pnum: tf.identity(slices[pnum]))


# (random function with a seed of its own, the same function with a given seed).
_STATELESS: tuple[tuple[Callable[..., tf.Tensor], Callable[..., tf.Tensor]], ...] = (
    (tf.random.uniform, tf.random.stateless_uniform),
    (tf.random.normal, tf.random.stateless_normal),
    (tf.random.truncated_normal, tf.random.stateless_truncated_normal),
)


def is_empty(piece: tf.Tensor) -> bool:
    """Return whether a slice has no elements."""
    return piece.shape.is_fully_defined() and 0 in piece.shape.as_list()


def is_pending_sum(x: Any) -> bool:
    """Return whether a lowered tensor is a sum whose all-reduce is pending."""
    return isinstance(x, mtf.LazyAllreduceSum) and x._reduced is None


def _constant(like: tf.Tensor, value: float) -> tf.Tensor:
    """Return a constant in the shape and dtype of a slice."""
    shape, dtype = like.shape.as_list(), like.dtype
    return tf.fill(shape, tf.constant(value, dtype)) if value else tf.zeros(shape, dtype)
