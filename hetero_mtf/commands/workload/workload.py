"""What is trained or tested: a model, a data set, and the loss and metrics that go with them."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from hetero_mtf.commands.options.loss_options import ObjectiveChoice
from hetero_mtf.commands.options.model import float_type
from hetero_mtf.commands.process.run_files import beside
from hetero_mtf.commands.workload.chosen_loss import check_targets, loss_of, loss_text, metrics_of
from hetero_mtf.commands.workload.data_record import Stored
from hetero_mtf.commands.workload.logged_metrics import check_loss, logged_names
from hetero_mtf.commands.workload.model_file import load_model
from hetero_mtf.commands.workload.model_source import gives_float_type
from hetero_mtf.data.labelled import LabelledData
from hetero_mtf.data.named import load
from hetero_mtf.errors import UnsupportedError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.keras_reading.layer_graph import layer_graph


@dataclasses.dataclass(frozen=True)
class Workload:
    """A model with its data.

    Parameters
    ----------
    model : Keras model.
    graph : its LayerGraph.
    data : the data set.
    stored : what has to be stored with the trained network, None if nothing.
    choice : loss and metrics that the command line names.
    """

    model: Any
    graph: LayerGraph
    data: LabelledData
    stored: Stored | None = None
    choice: ObjectiveChoice = ObjectiveChoice()

    @property
    def loss(self) -> Any:
        """The Keras loss: the one chosen, or the one that goes with them."""
        return loss_of(self.data, self.graph, self.choice)

    @property
    def metrics(self) -> list[Any]:
        """The Keras metrics: those chosen, or those that go with them."""
        return metrics_of(self.data, self.graph, self.choice)

    @property
    def loss_text(self) -> str:
        """A line on the loss, with the reason where it is guessed."""
        return loss_text(self.data, self.graph, self.choice)

    @functools.cached_property
    def logged(self) -> tuple[str, ...]:
        """Names in the logs of an epoch of training: "loss" and those of the metrics."""
        return logged_names(self.data, self.graph, self.loss, self.metrics)

    def choosing(self, choice: ObjectiveChoice) -> Workload:
        """Return the same with other loss and metrics, which are checked against the data and the model.

        Parameters
        ----------
        choice : what the command line names.

        Raises
        ------
        HeteroError
            If there is no such metric, or the targets do not fit the model and the loss.
        """
        workload = dataclasses.replace(self, choice=choice)
        own = [self.graph.layers[index].name for index in self.graph.outputs]
        if not set(choice.outputs) <= set(own):
            wrong = f"--loss and --metrics name the output {', '.join(sorted(set(choice.outputs) - set(own)))}"
            raise UnsupportedError(f"{wrong}, and the model's is {', '.join(own)}", "write that, or no output")
        metrics_of(self.data, self.graph, choice)
        check_targets(self.data, self.model, self.graph, choice)
        check_loss(self.data, self.graph, workload.loss)
        workload.logged  # raises where a metric does not fit
        return workload

    def metrics_text(self, metrics: Mapping[str, float], part: str = "test") -> str:
        """Return metrics as a sentence.

        Parameters
        ----------
        metrics : name -> value over the samples.
        part : the part they are of.
        """
        values = ", ".join(f"{part} {name.replace('_', ' ')} {value:.4f}" for name, value in metrics.items())
        return f"{values} over {self.data.counts[part]} samples of {self.data.name}"

    def store(self, run_files: Sequence[str]) -> tuple[pathlib.Path, ...]:
        """Write what has to be stored beside files of the training, and return the paths.

        Parameters
        ----------
        run_files : the files.

        Raises
        ------
        HeteroError
            If it cannot be written.
        """
        if self.stored is None:
            return ()
        paths = tuple(dict.fromkeys(beside(path, "data") for path in run_files))
        for path in paths:
            self.stored.save(path)
        return paths


def load_workload(model: str, arguments: tuple[tuple[str, Any], ...], precision: str | None, data: str, seed: int = 0) -> Workload:
    """Return a model and a data set by their names on the command line, the data first as they fail sooner.

    Parameters
    ----------
    model, arguments, precision, seed : as for `load_model`.
    data : as for `hetero_mtf.data.load`.

    Raises
    ------
    HeteroError
        If one of them cannot be loaded, or the model has unsupported layers.
    """
    if gives_float_type(model, precision):
        network, graph = load_network(model, arguments, precision, data, seed)
        return Workload(network, graph, load(data, dtype=float_type(graph.dtype)))
    return with_model(load(data, dtype=float_type(precision)), model, arguments, precision, seed)


def with_model(
    data: LabelledData, model: str, arguments: tuple[tuple[str, Any], ...], precision: str | None, seed: int = 0
) -> Workload:
    """Return a data set that was read before with a model.

    Parameters
    ----------
    data : the data set.
    model, arguments, precision, seed : as for `load_model`.

    Raises
    ------
    HeteroError
        As `load_network`.
    """
    return Workload(*load_network(model, arguments, precision, data.name, seed), data)


def load_network(
    model: str, arguments: tuple[tuple[str, Any], ...], precision: str | None, data: str, seed: int = 0
) -> tuple[Any, LayerGraph]:
    """Return a model for a data set, and its LayerGraph.

    Parameters
    ----------
    model, arguments, precision, seed : as for `load_model`.
    data : name of the data set, for messages.

    Raises
    ------
    HeteroError
        If it cannot be loaded, has unsupported layers, or has several inputs or outputs.
    """
    network = load_model(model, dict(arguments), precision, seed)
    graph = layer_graph(network)
    if len(graph.inputs) > 1 or len(graph.outputs) > 1:
        counts = f"{len(graph.inputs)} inputs and {len(graph.outputs)} outputs"
        raise UnsupportedError(f"{model} has {counts} and the data set {data} one of each", "train it in Python, with hm.Trainer")
    return network, graph
