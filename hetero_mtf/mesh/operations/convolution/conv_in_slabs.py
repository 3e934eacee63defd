"""Convolutions of stride 1 and padding "same" on slabs of a spatial dimension."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import tensorflow as tf

from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.operations.convolution.conv import Direct, bilinear
from hetero_mtf.mesh.operations.convolution.turned_convolution import Turned, has_forms, kernel_form, pad_sides, read_sides, window_sides
from hetero_mtf.mesh.operations.halo import exchange_halo, read_again
from hetero_mtf.mesh.operations.local import Local, Processor
from hetero_mtf.mesh.operations.output_space import spatial
from hetero_mtf.mesh.operations.pool import pad_space
from hetero_mtf.mesh.operations.transfer import Interval

# Of a slab that its halo may be for all dimensions to be padded together, and for the gradient of a kernel, which takes longer otherwise.
_THIN, _THIN_TO_KERNEL = 0.25, 1.0


@dataclasses.dataclass(frozen=True)
class Mirrored:
    """What the backward pass of a convolution reads where slabs of the output are those of the input.

    Parameters
    ----------
    x : the input in slabs without their halos.
    ranges : (places,) [begin, end) of the gradient of the output that windows over it read, as for `halo.exchange_halo`.
    read : their dimension.
    """

    x: Tensor
    ranges: tuple[Interval, ...]
    read: mtf.Dimension


def convolve_slabs(
    x: Tensor,
    kernel: Tensor,
    extents: Sequence[int | mtf.Dimension],
    along: int,
    halos: Sequence[tuple[int, int]],
    mirrored: Mirrored | None = None,
) -> Tensor:
    """Return the 2-D or 3-D convolution of `x` in slabs, stride 1 and padding "same", [batch, *extents, output channels].

    Parameters
    ----------
    x : [batch, *space, input channels]; one spatial dimension in slabs, each with its halo: the positions of others that its windows read.
    kernel : [*taps, input channels, output channels].
    extents : (space,) of the output; its dimension where it lies in slabs.
    along : number of the spatial dimension in slabs.
    halos : (processors,) positions of the halo before and after the slab.
    mirrored : how the backward pass reads the gradient of the output; None for it to read `x` once more.

    Notes
    -----
    TensorFlow pads all dimensions or none. A thick slab is padded in all of them, and the outputs of its halo are left out: that takes
    less than to pad the others beforehand, for which the kernels' gradients take longer too. A thin slab is padded beforehand.

    The gradients are convolutions themselves: that of the input, of the gradient of the output with its halo by the kernel turned round;
    that of a kernel of no more output than input channels, of the same by the input's own slab. So no halo of the input is kept, copied,
    or added up with those of others. Kernels of more output channels take longer so: the input is joined again with its halo for them.
    """
    batch, *space, _ = x.shape.dims
    *taps, channels_in, channels_out = kernel.shape.dims
    made, renamed, whole = spatial(space, extents)
    output = mtf.Shape([batch, *made, channels_out])
    window = [k.size for k in taps]
    rule = _InSlabs(window, along, halos)
    name, unsplit = f"conv{len(space)}d", [*whole, *taps]
    if mirrored is None:
        return bilinear(name, rule, x, kernel, output, unsplit, renamed)
    own, mirror = mirrored.x, _Mirror(window, along)

    def gradient(_: Local, dy: Tensor) -> Sequence[Tensor | None]:
        read = pad_space(exchange_halo(dy, made[along], mirrored.ranges, mirrored.read), mirror.across)
        dx, dw = [(own.shape, own.dtype)], [(kernel.shape, kernel.dtype)]
        to_input = Local(f"{name}_input_gradient", mirror.input_gradient, [kernel, read], dx, summed=[channels_out], unsplit=unsplit)
        function: Callable[..., tf.Tensor]
        if channels_in.size < channels_out.size:
            function, inputs, summed = rule.kernel_gradient, [read_again(x, dy), dy], [*x.shape.dims[:-1], *output.dims[:-1]]
        else:
            function, inputs, summed = mirror.kernel_gradient, [read_again(own, dy), read], own.shape.dims[:-1]
        to_kernel = Local(f"{name}_kernel_gradient", function, inputs, dw, summed=summed, unsplit=unsplit, after=to_input)
        return [to_input.outputs[0], None, to_kernel.outputs[0]]

    def forward(p: Processor, _: tf.Tensor, value: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        return rule.forward(p, value, weights)

    inputs, outputs = [own, x, kernel], [(output, x.dtype)]
    summed = kernel.shape.dims[-2:-1]
    return Local(name, forward, inputs, outputs, summed=summed, unsplit=unsplit, gradient=gradient).outputs[0]


class _InSlabs:
    """Convolutions of slabs with their halos, of stride 1 and padding "same"."""

    def __init__(self, window: Sequence[int], along: int, halos: Sequence[tuple[int, int]]) -> None:
        self._window, self._axis, self._halos = window, 1 + along, halos
        self._same, self._valid = Direct(len(window), [1] * len(window), "SAME"), Direct(len(window), [1] * len(window), "VALID")

    def forward(self, p: Processor, value: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        if self._is_thin(p, value.shape):
            return self._valid.forward(p, tf.pad(value, self._padding(p)), weights)
        return tf.slice(self._same.forward(p, value, weights), [side for side, _ in self._halo(p)], p.shapes[0])

    def input_gradient(self, p: Processor, weights: tf.Tensor, dy: tf.Tensor) -> tf.Tensor:
        if self._is_thin(p, p.shapes[0]):
            paddings = self._padding(p)
            padded = dataclasses.replace(p, shapes=([n + sum(sides) for n, sides in zip(p.shapes[0], paddings)],))
            return tf.slice(self._valid.input_gradient(padded, weights, dy), [side for side, _ in paddings], p.shapes[0])
        return self._same.input_gradient(p, weights, tf.pad(dy, self._halo(p)))

    def kernel_gradient(self, p: Processor, value: tf.Tensor, dy: tf.Tensor) -> tf.Tensor:
        if self._is_thin(p, value.shape, _THIN_TO_KERNEL):
            return self._valid.kernel_gradient(p, tf.pad(value, self._padding(p)), dy)
        return self._same.kernel_gradient(p, value, tf.pad(dy, self._halo(p)))

    def _is_thin(self, p: Processor, shape: Sequence[int], part: float = _THIN) -> bool:
        """Return whether the halo is more than a part of the slab, by the shape of a slice of the input."""
        halo = sum(self._halos[p.pnum])
        return halo > part * (shape[self._axis] - halo)

    def _halo(self, p: Processor) -> list[tuple[int, int]]:
        """Return the positions of the halo before and after the slab, by dimension."""
        return [self._halos[p.pnum] if at == self._axis else (0, 0) for at in range(len(self._window) + 2)]

    def _padding(self, p: Processor) -> list[tuple[int, int]]:
        """Return what "same" adds to each dimension beside the halo."""
        sides = [(0, 0), *window_sides(self._window), (0, 0)]
        return [(before - front, after - back) for (before, after), (front, back) in zip(sides, self._halo(p))]


class _Mirror:
    """The gradients of convolutions of slabs from that of the output, with its halo and padded in the other dimensions.

    Attributes
    ----------
    across : (space,) by how much it is padded.
    """

    def __init__(self, window: Sequence[int], along: int) -> None:
        sides = read_sides(window, "SAME")
        self.across = [(0, 0) if at == along else each for at, each in enumerate(sides)]
        self._halo = [each if at == along else (0, 0) for at, each in enumerate(sides)]
        self._axis, self._same, self._valid = 1 + along, Turned(len(window), "SAME"), Turned(len(window))

    def input_gradient(self, _: Processor, weights: tf.Tensor, read: tf.Tensor) -> tf.Tensor:
        return self._valid.input_gradient(weights, read)

    def kernel_gradient(self, p: Processor, value: tf.Tensor, read: tf.Tensor) -> tf.Tensor:
        if not self._takes_same(p, value):
            return self._valid.kernel_gradient(value, read, p.shapes[0])
        wider = pad_sides(value, self._halo)
        unpadded = tf.slice(read, [0, *(before for before, _ in self.across), 0], [*wider.shape[:-1], read.shape[-1]])
        return self._same.kernel_gradient(wider, unpadded, p.shapes[0])

    def _takes_same(self, p: Processor, value: tf.Tensor) -> bool:
        """Return whether it is faster for TensorFlow to pad; an input of more channels would take more memory than that saves time."""
        shape, device = p.shapes[0], p.device
        *window, channels_in, channels_out = shape
        is_thin = sum(map(sum, self._halo)) > _THIN_TO_KERNEL * value.shape[self._axis]
        if channels_in != channels_out or is_thin or not all(k % 2 for k in window):
            return False
        return has_forms(shape, device, value.dtype) and not kernel_form(shape, device, value.dtype).padded
