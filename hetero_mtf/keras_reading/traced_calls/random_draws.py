"""Random numbers that a call of Keras draws, and how they are drawn for the whole batch where the call has a slice of it."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.keras_reading.private_names import stateless_random
from hetero_mtf.keras_reading.traced_calls.replacements import replaced

_FUNCTIONS = {
    "stateless_random_uniform_v2": "StatelessRandomUniformV2",
    "stateless_random_uniform_int_v2": "StatelessRandomUniformIntV2",
    "stateless_random_uniform_full_int_v2": "StatelessRandomUniformFullIntV2",
    "stateless_random_normal_v2": "StatelessRandomNormalV2",
    "stateless_truncated_normal_v2": "StatelessTruncatedNormalV2",
}
DRAWS = frozenset(_FUNCTIONS.values())
"""TensorFlow operations that draw a tensor of a shape, each element by itself."""

Draw = Callable[[Any], Any]  # shape -> tensor


@contextlib.contextmanager
def drawn_by(draw: Callable[[Draw, Any], Any]) -> Iterator[None]:
    """Let a function of its own make each random draw of a tensor.

    Parameters
    ----------
    draw : (TensorFlow's draw, shape) -> what is used for it.

    Notes
    -----
    Sets the functions that make the operations `DRAWS` while the context is open (TensorFlow 2.16 to 2.21).
    """

    def drawing_by(function: Callable[..., Any]) -> Callable[..., Any]:
        def drawing(shape: Any, **options: Any) -> Any:
            return draw(functools.partial(function, **options), shape)

        return drawing

    with contextlib.ExitStack() as stack:
        for name in _FUNCTIONS:
            stack.enter_context(replaced(stateless_random, name, drawing_by))
        yield


@contextlib.contextmanager
def recorded_draws(shapes: list[Any]) -> Iterator[None]:
    """Add the shape of each draw to a list while the context is open.

    Parameters
    ----------
    shapes : list of TensorFlow's static shapes.
    """

    def draw(own: Draw, shape: Any) -> Any:
        tensor = own(shape)
        shapes.append(tensor.shape)
        return tensor

    with drawn_by(draw):
        yield


def rows_of(shapes: Sequence[Any], batch: int) -> list[int | None]:
    """Return how many rows a sample each draw has along its first dimension: 0 of one that all samples share, None if not known.

    Parameters
    ----------
    shapes : (draws,) static shapes.
    batch : number of samples.
    """
    return [_rows(shape, batch) for shape in shapes]


def _rows(shape: Any, batch: int) -> int | None:
    if shape.rank is None or None in tuple(shape):
        return None
    first = int(shape[0]) if shape.rank else 0
    return first // batch if first and first % batch == 0 else 0


@contextlib.contextmanager
def draws_of_full_batch(rows: Sequence[int], begin: int, samples: int, total: int, layer: str) -> Iterator[None]:
    """Draw for all samples what a slice of them draws, and give the slice its own: so draws are equal in every layout of the batch.

    Parameters
    ----------
    rows : (draws,) rows a sample of each draw, in order; 0 of one that all samples share.
    begin, samples : the slice.
    total : samples of the whole batch.
    layer : name of the layer, for errors.

    Raises
    ------
    UnsupportedError
        Inside, where there are more draws, or of other extents.
    """
    left = list(rows)

    def draw(own: Draw, shape: Any) -> Any:
        count = left.pop(0) if left else None
        extents = tf.get_static_value(shape)
        if count == 0:
            return own(shape)
        if count is None or extents is None or int(extents[0]) != samples * count:
            raise UnsupportedError(
                f"layer {layer} draws other random numbers than when the model was read",
                "let their shapes depend on the shapes of its inputs alone, or use hm.layers.declare(..., samplewise=False)"
            )
        return own([total * count, *(int(n) for n in extents[1:])])[begin * count : (begin + samples) * count]

    with drawn_by(draw):
        yield
