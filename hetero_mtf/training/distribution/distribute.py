"""distribute: a Keras model whose own methods train, test and predict on a cluster."""

from __future__ import annotations

from typing import Any

import keras

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.keras_reading.graph_of_calls import has_open_extents
from hetero_mtf.keras_reading.layer_graph import layer_graph
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.refinement.limits import TIME_LIMIT_S
from hetero_mtf.training.batches import checked_seed
from hetero_mtf.training.control.measure_option import read_measure
from hetero_mtf.training.distribution.client_layers import divided
from hetero_mtf.training.distribution.distribution import Distribution
from hetero_mtf.training.distribution.own_step.step import has_own_step
from hetero_mtf.training.distribution.shared_cluster import cluster_of

_LOOPS = (
    *("fit", "evaluate", "predict", "train_on_batch", "test_on_batch", "predict_on_batch"),
    *("make_train_function", "make_test_function", "make_predict_function"),
    "get_metrics_result",
)


def distribute(
    model: Any, cluster: Any = None, *, plan: Plan | None = None, seed: int = 0, refine_s: float = TIME_LIMIT_S, measure: Any = None,
    elastic: bool | None = None,
) -> Any:
    """Return the same Keras model, whose `fit`, `evaluate`, `predict` and their forms for one batch run on a cluster from now on.

    Keras's own loops draw the batches, call the callbacks and keep the metrics; each step is one of a plan, numerically equivalent to
    the step of one device. The class of the model stays as it is: it is saved, loaded, cloned and compiled again as before.

    Its weights, and the slots and steps of its optimizer, are those on the cluster at the end of each call, when epochs and tests end or
    begin, after an exception, and after each batch if a callback that is not Keras's own has a hook there. What is assigned to them at
    these places is trained on with.

    Where no plan is given, training begins on the fastest device, or on several, some seconds after the first batch is there, and its steps
    try other plans; what they tell is kept in the user's cache folder. Another batch size or compilation tries nothing again. After the
    cluster is closed, or `undistribute`, the model is Keras's again.

    Parameters
    ----------
    model : keras.Model; it may be compiled now or later, and is built with the first batch where it is not.
    cluster : the cluster; or shares of cores such as [1.0, 0.5], for emulated devices, or a text as on the command line, such as "slurm" or
        "hosts:...", each of which a process has once; None for the devices of this process.
    plan : the plan to train by, for a network of this structure on this cluster; None for the one with the best measured step.
    seed : seed of dropout, a whole number from 0.
    refine_s : seconds after which no further plan is run before the first step, with `measure="first"`.
    measure : where no plan is given, "steps" to try plans as training steps, "first" to measure devices and run plans before the first
        step, "never" to measure nothing; or a PlanHistory, or the path of its file, whose plans are trained by again. None for "steps", or
        as the model is distributed already.
    elastic : whether training goes on without workers that are lost, and with less on a device that runs out of memory, with the numbers
        of the undisturbed one, for 2 % of the time at most.
        None for False, or as the model is distributed already.

    Raises
    ------
    PlanError
        If `measure` is something else.
    UnsupportedError
        If it is no Keras model, its class replaces what Keras's loops are made of, or a layer is not supported.

    Examples
    --------
    >>> model = hm.distribute(model, cluster)  # doctest: +SKIP
    >>> history = model.fit(x, y, epochs=5)  # doctest: +SKIP
    """
    _check(model)
    checked_seed(seed)
    present, asked = Distribution.of(model), read_measure(measure)
    cluster = present.cluster if present is not None and cluster is None and not present.cluster.closed else cluster_of(cluster)
    is_elastic = bool(present is not None and present.elastic if elastic is None else elastic)
    is_same = present is not None and present.cluster is cluster and (measure is None or present.measure == asked)
    if is_same and present is not None and present.elastic == is_elastic and plan is None and not cluster.closed:
        return model
    if model.built and not has_own_step(model):
        read = divided(model).rest
        if not has_open_extents(read):
            layer_graph(read)  # refuses what is not supported now, not after the data are there
    if present is not None:
        present.release()
    Distribution(model, cluster, plan, seed, refine_s, asked, is_elastic).bind()
    return model


def undistribute(model: Any) -> Any:
    """Return the same Keras model, which trains by Keras alone again, from the weights that it has.

    Parameters
    ----------
    model : keras.Model; one that is not distributed stays as it is.
    """
    present = Distribution.of(model)
    if present is not None:
        present.release()
    return model


def distribution(model: Any) -> Distribution | None:
    """Return what distributes a Keras model, which has the plan in force; None where it is not distributed.

    Parameters
    ----------
    model : keras.Model.
    """
    return Distribution.of(model)


def _check(model: Any) -> None:
    if not isinstance(model, keras.Model):
        raise UnsupportedError(f"{type(model).__name__} is no Keras model", "give a keras.Model, functional or sequential")
    own = [name for name in _LOOPS if not getattr(type(model), name).__module__.startswith("keras.")]
    if own:
        raise UnsupportedError(
            f"{type(model).__name__} has {' and '.join(own)} of its own, which would not run on the cluster", "leave Keras's in place, "
            "or train this model by Keras alone"
        )
