"""One run of one example in this process: prepares what its recipe says, runs the script, and writes down what Keras's loops returned.

python -m tools.keras_io.one_run CHECKOUT NAME keras|distributed SEED FILE [SHARES]
"""

from __future__ import annotations

import functools
import glob
import inspect
import json
import math
import os
import pathlib
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from tools.keras_io.catalogue import catalogue
from tools.keras_io.recipe import Recipe, replace
from tools.keras_io.script import distributed_script, keras_script

_RATES = ("rate", "dropout", "recurrent_dropout")
_DROPPING = ("Dropout", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D", "GaussianDropout", "AlphaDropout", "MultiHeadAttention")
_DROPPING += ("GroupQueryAttention", "Attention", "AdditiveAttention", "LSTM", "GRU", "SimpleRNN", "LSTMCell", "GRUCell", "SimpleRNNCell")
_DROPPING += ("ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D")


def without_dropout() -> None:
    """Let every layer of Keras that drops values keep them all."""
    import keras

    for name in _DROPPING:
        kind = getattr(keras.layers, name)
        kind.__init__ = _keeping(kind.__init__)


def _keeping(create: Callable[..., None]) -> Callable[..., None]:
    form = inspect.signature(create)
    rates = [name for name in _RATES if name in form.parameters]

    @functools.wraps(create)
    def kept(*arguments: Any, **options: Any) -> None:
        bound = form.bind(*arguments, **options)
        bound.arguments.update({name: 0.0 for name in rates if name in bound.arguments})
        create(*bound.args, **bound.kwargs)

    vars(kept)["__signature__"] = form  # Keras keeps the arguments of a layer by it
    return kept


def in_one_order() -> None:
    """Let folders be listed, and elements of datasets be mapped, in one order: both runs then see the same data."""
    import tensorflow as tf

    list_folder, list_files, map_dataset = os.listdir, glob.glob, tf.data.Dataset.map
    os.listdir = lambda *arguments: sorted(list_folder(*arguments))
    glob.glob = lambda *arguments, **options: sorted(list_files(*arguments, **options))

    @functools.wraps(map_dataset)
    def mapped(dataset: Any, function: Any, *arguments: Any, **options: Any) -> Any:
        return map_dataset(dataset, function)  # layers that draw random numbers in parallel calls draw them in any order

    tf.data.Dataset.map = mapped


class Record:
    """What Keras's loops returned, in the order of their calls.

    Parameters
    ----------
    epochs : the most epochs of a call of `fit`.

    Attributes
    ----------
    entries : (calls,) {"call", "values": {name: numbers}, "plan"}; in `fit` the numbers are those of the epochs.
    """

    def __init__(self, epochs: int) -> None:
        self.entries: list[dict[str, Any]] = []
        self._epochs, self._inside = epochs, False

    def watch(self) -> None:
        """Put `fit`, `evaluate` and `predict` of `keras.Model` behind functions that write down what they return."""
        import keras

        for name in ("fit", "evaluate", "predict"):
            setattr(keras.Model, name, self._watched(name, getattr(keras.Model, name)))

    def _watched(self, name: str, loop: Callable[..., Any]) -> Callable[..., Any]:
        form = inspect.signature(loop)

        @functools.wraps(loop)
        def watched(*arguments: Any, **options: Any) -> Any:
            bound = form.bind(*arguments, **options)
            if name == "fit":
                first = int(bound.arguments.get("initial_epoch", 0))
                bound.arguments["epochs"] = min(int(bound.arguments.get("epochs", 1)), first + self._epochs)
            if self._inside and name != "fit":  # `fit` evaluates, and callbacks predict
                return loop(*bound.args, **bound.kwargs)
            before, self._inside = self._inside, True
            try:
                returned = loop(*bound.args, **bound.kwargs)
            finally:
                self._inside = before
            model = bound.args[0]
            self.entries.append({"call": name, "values": _values(name, model, returned), "plan": _plan(model)})
            return returned

        return watched


def _values(name: str, model: Any, returned: Any) -> dict[str, list[float]]:
    import keras
    import numpy as np

    if name == "fit":
        values = {key: _floats(numbers) for key, numbers in returned.history.items()}
        return {
            **values,
            "weights": [float(np.mean(np.abs(np.asarray(each, "float64")))) for each in model.get_weights() if each.dtype != object],
        }
    if name == "evaluate":
        return (
            {key: _floats([number]) for key, number in returned.items()} if isinstance(returned, dict) else {"returned": _floats(returned)}
        )
    outputs = keras.tree.flatten(returned)
    return {"predictions": [float(np.mean(np.abs(np.asarray(each, "float64")))) for each in outputs]}


def _floats(numbers: Any) -> list[float]:
    import numpy as np

    return [float(number) for number in np.concatenate([np.ravel(np.asarray(each, "float64")) for each in np.atleast_1d(numbers)])]


def _plan(model: Any) -> str | None:
    if "hetero_mtf" not in sys.modules:
        return None
    import hetero_mtf as hm

    distribution = hm.distribution(model)
    return None if distribution is None or distribution.plan is None else repr(distribution.plan)


def fault(error: BaseException, script: str) -> dict[str, Any]:
    """Return what is written down of an error: its kind, its sentence, where it was raised, and whether the package names it.

    Parameters
    ----------
    error : as it ended the script.
    script : name of the script's file, whose last line in the traceback is told.
    """
    named = any(kind.__module__ == "hetero_mtf.errors" for kind in type(error).__mro__)
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename == script]
    places = [
        f"{pathlib.Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in ([own[-1]] if own else []) + list(frames[-3:])
    ]
    return {"kind": type(error).__name__, "text": str(error), "places": places, "named": named}


def run(checkout: pathlib.Path, recipe: Recipe, side: str, seed: int, shares: Sequence[float]) -> dict[str, Any]:
    """Run the script of a recipe in this process, and return {"status", "seconds", "entries", "fault"}.

    Parameters
    ----------
    checkout : folder that has the folder `examples`.
    recipe : of the example.
    side : "keras" or "distributed".
    seed : of Keras, NumPy and Python.
    shares : (devices,) share of a core of each emulated device.
    """
    import keras

    file = checkout / "examples" / recipe.path
    text = file.read_text()
    text = keras_script(text, recipe) if side == "keras" else distributed_script(text, recipe, shares)
    if not recipe.single:
        keras.config.set_floatx("float64")
    if not recipe.random:
        without_dropout()
    in_one_order()
    record = Record(recipe.epochs)
    record.watch()
    replace("utils.plot_model", lambda *arguments, **options: None)
    recipe.prepare()
    keras.utils.set_random_seed(seed)
    file = pathlib.Path.cwd() / file.name
    file.write_text(text)  # AutoGraph reads functions from the file, not from what was compiled
    sys.argv = [str(file)]
    sys.path[0] = str(file.parent)
    space = {"__name__": "__main__", "__file__": str(file)}
    begun, status, failure = time.monotonic(), "done", None
    try:
        exec(compile(text, str(file), "exec"), space)
    except BaseException as error:
        traceback.print_exc()
        status, failure = "failed", fault(error, str(file))
    seconds = time.monotonic() - begun
    if "hm_cluster" in space:
        space["hm_cluster"].close()  # type: ignore[attr-defined]
    return {"status": status, "seconds": round(seconds, 2), "entries": record.entries, "fault": failure}


def main(words: Sequence[str]) -> None:
    """Run what the words of the command name, and write what came of it as JSON; numbers that are not finite are written as texts."""
    checkout, name, side, seed, target = words[:5]
    shares = [float(word) for word in words[5].split(",")] if len(words) > 5 else [1.0, 0.5]
    outcome = run(pathlib.Path(checkout), catalogue()[name], side, int(seed), shares)
    for entry in outcome["entries"]:
        entry["values"] = {key: [x if math.isfinite(x) else str(x) for x in numbers] for key, numbers in entry["values"].items()}
    pathlib.Path(target).write_text(json.dumps(outcome))


if __name__ == "__main__":
    main(sys.argv[1:])
