"""The dtype policies of layers: what each computes in, what its variables are kept in, and what is common to a network."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hetero_mtf.graph.description import DTYPES, FLOATS
from hetero_mtf.graph.records import Layer
from hetero_mtf.keras_reading.wiring import Node
from hetero_mtf.layers.fallback.keras_call_kind import is_keras_call
from hetero_mtf.layers.kind import INTEGERS

_MIXED = "mixed_"  # begins the name of a policy with float32 variables


class Policy(NamedTuple):
    """What a layer computes in and keeps its variables in.

    Parameters
    ----------
    compute, variable : dtypes.
    casts : whether its inputs are cast to `compute`.
    """

    compute: str
    variable: str
    casts: bool = True


def policy_of(node: Node) -> Policy:
    """Return the dtype policy of a layer, as Keras resolves it; of an operation that is no layer, its output's dtype.

    Parameters
    ----------
    node : a layer of a Keras model, or of its configuration.
    """
    live = node.live
    if live is not None and hasattr(live, "dtype_policy"):
        name, casts = str(live.dtype_policy.name), bool(getattr(live, "autocast", True))
        # quantised, as int8_from_float32: the name is no dtype, so that `network_dtype` refuses it
        return Policy(str(live.compute_dtype), str(live.variable_dtype), casts) if "_from_" not in name else Policy(name, name)
    if node.call is not None:
        return Policy(str(node.call.symbol.dtype), str(node.call.symbol.dtype))
    policy = node.config.get("dtype") or "float32"
    name = str(policy["config"].get("name") if isinstance(policy, Mapping) else policy)
    casts = bool(node.config.get("autocast", True))
    return Policy(name.removeprefix(_MIXED), "float32" if name.startswith(_MIXED) else name, casts)


def network_dtype(nodes: Sequence[Node], faults: list[str]) -> str:
    """Return the dtype of a network's losses: that of the variables of its first layer that has float32 or float64, else float32.

    Parameters
    ----------
    nodes : its layers and inputs, those of nested models too.
    faults : gets a sentence for each layer and input with another dtype than numbers have here.
    """
    layers = [node for node in nodes if node.kind != "InputLayer" and node.is_layer]
    policies = {node.name: policy_of(node) for node in layers}
    policies = {name: policy for name, policy in policies.items() if policy.variable not in INTEGERS}  # of numbers or truth values
    listed = f"{', '.join(FLOATS[:-1])} and {FLOATS[-1]}"
    faults += [
        f"layer {name} has the dtype policy {'/'.join(dict.fromkeys(policy[:2]))}; only {listed}, and their mixed policies, are supported"
        for name, policy in policies.items()
        if not {policy.compute, policy.variable} <= {*FLOATS}
    ]
    common = next((policy.variable for policy in policies.values() if policy.variable in DTYPES), "float32")
    for node in nodes:
        node_dtype = node.config.get("dtype") or common
        if node.kind == "InputLayer" and node_dtype not in FLOATS and node_dtype not in INTEGERS:
            faults.append(f"input {node.name} has the dtype {node_dtype}; give keras.Input {listed}, or whole numbers")
    return common


def with_policy(layer: Layer, node: Node, network: str) -> Layer:
    """Return a layer with the dtypes of its policy where they are not the network's.

    Parameters
    ----------
    layer : a layer that was read from `node`.
    network : dtype of the network.
    """
    if layer.kind == "InputLayer":
        node_dtype = node.config.get("dtype") or network
        own = {} if node_dtype == network else {"dtype": node_dtype}
        return dataclasses.replace(layer, attributes={**layer.attributes, **own})
    policy = policy_of(node)
    variable = _other(policy.variable, network) if layer.variables else None
    compute = None if is_keras_call(layer) else _other(policy.compute, network)  # of the former it says what it gives
    return dataclasses.replace(layer, compute_dtype=compute, variable_dtype=variable)


def _other(dtype: str, network: str) -> str | None:
    return dtype if dtype in FLOATS and dtype != network else None


def reads_as_described(node: Node, symbols: Sequence[Any], any_dtype: bool) -> bool:
    """Return whether a call reads and gives what the description of its kind expects, so that Keras's own call is not needed.

    Parameters
    ----------
    symbols : what it reads, and last what it gives.
    any_dtype : whether its inputs may be whole numbers.
    """
    *inputs, output = (str(symbol.dtype) for symbol in symbols)
    policy = policy_of(node)
    if output != policy.compute or output not in FLOATS:
        return False
    if any_dtype:
        return True
    casts = policy.casts and node.is_layer
    return all(dtype in FLOATS for dtype in inputs) if casts else all(dtype == output for dtype in inputs)
