"""The wiring of a Keras model: which layers are called, with which options, and which call reads which. Keras is not imported here."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from hetero_mtf.graph.structure import Structure
from hetero_mtf.keras_reading.live_call import LiveCall

CALLS_UP_TO = 20_000  # nested models that are called many times each multiply


@dataclasses.dataclass(frozen=True)
class Node:
    """One call of a layer of a Keras model, not yet interpreted.

    Parameters
    ----------
    name : the layer's name, behind those of the models it is nested in; a later call of a layer has its number behind a colon.
    kind : Keras class name; a class outside `keras.layers` has its registered name, or its module as a prefix.
    config : the layer's own options, as `get_config` gives them.
    inputs : indices of the nodes it reads; those of masks come last.
    live : the Keras layer, or function of `keras.ops`, itself; None where the model does not give it.
    first : index of the node that is the first call of the same layer; its own where it is that.
    call : the call of the Keras layer; None where the model does not give it.
    special : whether it is called with more than tensors as positional arguments.
    is_layer : whether it is a layer, not a function such as `keras.ops.add`.
    """

    name: str
    kind: str
    config: Mapping[str, Any]
    inputs: tuple[int, ...]
    live: Any = None
    first: int = 0
    call: LiveCall | None = None
    special: bool = False
    is_layer: bool = True


@dataclasses.dataclass(frozen=True)
class Wiring:
    """The calls of a model's layers, nested models opened up.

    Parameters
    ----------
    nodes : the inputs in the model's order, then the calls in the order in which Keras runs them.
    outputs : (outputs,) indices of the nodes that the model returns, in the flat order of `output_structure`.
    nested_inputs : the inputs of nested models, which are no nodes; each reads the node that it stands for.
    input_structure, output_structure : how the model packs its inputs and outputs.
    faults : what is not supported in how layers are called: the layer's name, and a sentence.
    """

    nodes: tuple[Node, ...]
    outputs: tuple[int, ...]
    nested_inputs: tuple[Node, ...]
    input_structure: Structure
    output_structure: Structure
    faults: tuple[tuple[str, str], ...] = ()
