"""scope: distributes the models that are compiled in it."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import keras

from hetero_mtf.keras_reading.traced_calls.replacements import replaced
from hetero_mtf.training.distribution.distribute import distribute
from hetero_mtf.training.distribution.shared_cluster import cluster_of


@contextlib.contextmanager
def scope(cluster: Any = None, **options: Any) -> Iterator[Any]:
    """Distribute each Keras model that this thread compiles while the context is open, and yield the cluster.

    For scripts that compile in functions that are not their own. The models stay distributed after it.

    Parameters
    ----------
    cluster : as for `distribute`.
    options : `seed` and `refine_s`, as for `distribute`.

    Raises
    ------
    HeteroError
        As `distribute`, where a model is compiled that it refuses.

    Examples
    --------
    >>> with hm.scope([1.0, 0.5]):  # doctest: +SKIP
    ...     model = somebody_elses_function()
    """
    opened = cluster_of(cluster)

    def compiling(own: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(own)
        def compile(model: Any, *arguments: Any, **settings: Any) -> Any:
            result = own(model, *arguments, **settings)
            distribute(model, opened, **options)
            return result

        return compile

    owner = next(kind for kind in keras.Model.__mro__ if "compile" in vars(kind))
    with replaced(owner, "compile", compiling):
        yield opened
