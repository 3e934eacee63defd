"""What `hetero-mtf train` does before TensorFlow is loaded: it reads the data, which fail sooner. `training` does the rest."""

from __future__ import annotations

from hetero_mtf.commands.options.model import float_type
from hetero_mtf.commands.options.requests import TrainRequest
from hetero_mtf.commands.options.shared import arguments
from hetero_mtf.commands.options.volume_options import is_volumes, table_of
from hetero_mtf.commands.process.quiet import load_tensorflow
from hetero_mtf.commands.workload.model_source import check_model, gives_float_type
from hetero_mtf.commands.workload.opened_cluster import started_cluster
from hetero_mtf.data.labelled import LabelledData
from hetero_mtf.data.named import load


def train(request: TrainRequest) -> None:
    """Train a network, print its test metrics, and save what is to be saved.

    Parameters
    ----------
    request : the options of the command.

    Raises
    ------
    HeteroError
        If something cannot be read or written, or does not fit.
    """
    data = _data_before_model(request) if request.resume is None else None  # else the state comes first, read with TensorFlow
    with started_cluster(request.cluster) as started:
        load_tensorflow()
        from hetero_mtf.commands.runs.training import run_training  # needs TensorFlow, which is loaded quietly by now

        run_training(request, data, started)


def _data_before_model(request: TrainRequest) -> LabelledData | None:
    """Return the data where they can be read before the model is made, else None; refuses a missing table and what names no model."""
    data = None
    if is_volumes(request.data):
        table_of(request.data)
    elif not gives_float_type(request.model, request.precision):
        data = load(request.data, dtype=float_type(request.precision))
    check_model(request.model, arguments(request.model_arguments))
    return data
