"""A network's structure as Keras configuration: kept in a file, and checked there before Keras builds anything from it.

Keras imports modules, calls functions and instantiates classes that a configuration names. So each object in a foreign
configuration, at any depth, must be one of a table: the layers that this project trains, models of such layers, Keras's
initializers and regularizers, and dtype policies. What is not in the table is refused before Keras sees any of it.
"""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import keras

from hetero_mtf.errors import CheckpointError, HeteroError
from hetero_mtf.graph.description import FLOATS
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.keras_reading.configured_graph import configured_graph
from hetero_mtf.keras_reading.layer_graph import layer_graph
from hetero_mtf.layers.catalogue import OWN_KINDS
from hetero_mtf.training.checkpoint import State, value_faults
from hetero_mtf.units import value_text

DEEPEST = 100  # lists and objects in each other
_MODELS = (("keras.src.models.functional", "Functional"), ("keras", "Sequential"), ("keras.models", "Sequential"))
_DTYPES = (*FLOATS, "int32", "int64")
_ENTRIES = frozenset({"module", "class_name", "config", "registered_name", "build_config", "compile_config", "name", "inbound_nodes"})
_OWN_MODULE = "hetero_mtf.training.residual_weight"
_REMEDY = "name the model's function with --model if you trust it"


def configuration_of(model: Any) -> dict[str, Any] | None:
    """Return the structure of a Keras model as a JSON-able configuration, None where it cannot be written as one.

    Parameters
    ----------
    model : keras.Model, functional or sequential.
    """
    try:
        serialized = keras.saving.serialize_keras_object(model)
        document: dict[str, Any] = _uncompiled(json.loads(json.dumps(serialized, allow_nan=False)))
    except (TypeError, ValueError, RecursionError):  # objects of the user's own that JSON cannot hold
        return None
    return document


def model_of(configuration: Any, path: str, state: State, digest: str) -> tuple[Any, LayerGraph]:
    """Return the Keras model that a configuration from a file describes, and its LayerGraph.

    Parameters
    ----------
    configuration : what the file holds.
    path : path of the file, for messages.
    state : the state that belongs to it; it must hold every variable, so a configuration cannot ask for more memory.
    digest : digest of the network that it must give.

    Raises
    ------
    CheckpointError
        If the configuration names what is not in the table, is nested too deeply, cannot be built, or gives another network;
        nothing that it names is imported or called then.
    """
    check_configuration(configuration, path)
    try:
        faults = value_faults(state, configured_graph(configuration["config"]))
        if not faults:
            model, graph = _built(configuration)
    except HeteroError as fault:
        raise CheckpointError(f"{path} describes a network that is not supported: {fault}") from fault
    except Exception as fault:  # a foreign configuration raises whatever its values lead to
        said = value_text(" ".join(str(fault).split()))
        raise CheckpointError(f"{path} describes a network that cannot be built ({type(fault).__name__}: {said})", _REMEDY) from fault
    if faults:
        raise CheckpointError(f"{path} describes another network than its checkpoint's ({'; '.join(faults[:5])})", _REMEDY)
    if graph.digest != digest:
        raise CheckpointError(f"{path} describes a network with digest {graph.digest}, its checkpoint is of {digest}", _REMEDY)
    return model, graph


def check_configuration(configuration: Any, path: str) -> None:
    """Raise unless every object in a configuration is in the table; nothing is imported or called.

    Parameters
    ----------
    configuration : what a file holds.
    path : path of the file, for messages.

    Raises
    ------
    CheckpointError
        If an object is not in the table, a value is no plain JSON or not finite, or lists and objects are nested too deeply.
    """
    if not isinstance(configuration, Mapping) or _name(configuration) not in _MODELS:
        raise CheckpointError(f"{path} holds {value_text(configuration)} as its network, which is no Keras model", _REMEDY)
    allowed, registered = _allowed(), _registered()
    left: list[tuple[str, Any, int]] = [("structure", configuration, 0)]
    while left:
        place, value, depth = left.pop()
        if depth > DEEPEST:
            raise CheckpointError(f"{path} is nested more than {DEEPEST} deep in {value_text(place)}", _REMEDY)
        fault = _fault(value, allowed, registered)
        if fault:
            raise CheckpointError(f"{path} {fault} in {_end(place)}, which a stored network must not", _REMEDY)
        left += [(inner, entry, depth + 1) for inner, entry in _entries(place, value)]


def built_model(configuration: Any, path: str) -> tuple[Any, LayerGraph]:
    """Return the Keras model that the configuration in a file of Keras describes, with initial weights, and its LayerGraph.

    Parameters
    ----------
    configuration : what the file holds; losses and optimizers in it are left out.
    path : path of the file, for messages.

    Raises
    ------
    UnsupportedError
        If the network has layers or options that are not supported; all of them at once.
    CheckpointError
        If the configuration names what is not in the table, or cannot be built; nothing that it names is imported or called then.
    """
    try:
        structure = _unshared(_uncompiled(configuration))
        if isinstance(structure, Mapping) and _name(structure) in _MODELS:
            configured_graph(structure["config"])  # names layers, where the table would name classes
    except HeteroError:
        raise
    except Exception as fault:  # a foreign configuration raises whatever its values lead to
        said = value_text(" ".join(str(fault).split()))
        raise CheckpointError(
            f"{path} describes a network that cannot be read ({type(fault).__name__}: {said})", "save it again"
        ) from fault
    check_configuration(structure, path)
    try:
        return _built(structure)
    except HeteroError:
        raise
    except Exception as fault:
        said = value_text(" ".join(str(fault).split()))
        raise CheckpointError(f"{path} describes a network that cannot be built ({type(fault).__name__}: {said})", _REMEDY) from fault


def _built(configuration: Mapping[str, Any]) -> tuple[Any, LayerGraph]:
    from hetero_mtf.training import residual_weight  # noqa: F401 - registers the project's own layer with Keras

    model = keras.saving.deserialize_keras_object(dict(configuration), safe_mode=True)
    return model, layer_graph(model)


def _uncompiled(value: Any) -> Any:
    """Return a configuration without losses and optimizers, which do not belong to the structure."""
    if isinstance(value, Mapping):
        return {key: {} if key == "compile_config" else _uncompiled(entry) for key, entry in value.items()}
    return [_uncompiled(entry) for entry in value] if isinstance(value, list) else value


def _unshared(value: Any) -> Any:
    """Return a configuration without the marks of dtype policies that layers share; those of shared layers stay, and are refused."""
    if isinstance(value, Mapping):
        policy = value.get("class_name") == "DTypePolicy"
        return {key: _unshared(entry) for key, entry in value.items() if not (policy and key == "shared_object_id")}
    return [_unshared(entry) for entry in value] if isinstance(value, list) else value


def _entries(place: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        yield from ((f"{place}.{key}", entry) for key, entry in value.items())
    elif isinstance(value, list):
        yield from ((f"{place}[{at}]", entry) for at, entry in enumerate(value))


def _fault(value: Any, allowed: Mapping[tuple[Any, Any], tuple[Any, ...]], registered: frozenset[str]) -> str:
    """Return what is wrong with one value, "" for nothing; what it holds is looked at by itself."""
    if isinstance(value, Mapping):
        return _object_fault(value, allowed) if {"class_name", "registered_name", "compile_config"} & set(value) else ""
    if isinstance(value, str):
        return f"names {value_text(value)}, which code has registered with Keras," if value in registered else ""
    if isinstance(value, float) and not math.isfinite(value):
        return f"holds {value}"
    return "" if value is None or isinstance(value, (bool, int, float, list)) else f"holds a {type(value).__name__}"


def _object_fault(entry: Mapping[str, Any], allowed: Mapping[tuple[Any, Any], tuple[Any, ...]]) -> str:
    """Return what is wrong with a serialised object."""
    module, name = _name(entry)
    shown = value_text(f"{module}.{name}" if isinstance(module, str) else name)
    if name in ("__keras_tensor__", "__numpy__", "__tensor__"):
        return _value_fault(entry, name)
    if (module, name) not in allowed or not isinstance(entry.get("config"), Mapping):
        return f"names {shown}"
    if entry.get("registered_name") not in allowed[module, name]:
        return f"names {shown} as {value_text(entry.get('registered_name'))}"
    surplus = sorted(map(str, set(entry) - _ENTRIES))
    if surplus or entry.get("compile_config"):
        return f"names {shown} with {value_text(', '.join(surplus) or 'compile_config')}"
    return ""


def _value_fault(entry: Mapping[str, Any], name: str) -> str:
    """Return what is wrong with a tensor or array, which hold numbers and no objects."""
    config = entry.get("config")
    if set(entry) - {"class_name", "config", "module", "registered_name"} or entry.get("module") or entry.get("registered_name"):
        return f"names {name} with more than its values"
    if not isinstance(config, Mapping) or config.get("dtype") not in _DTYPES:
        return f"names {name} of a dtype other than {', '.join(_DTYPES)}"
    if name == "__keras_tensor__":
        return ""
    left = [config.get("value")]
    while left:
        value = left.pop()
        if isinstance(value, list):
            left += value
        elif not isinstance(value, (bool, int, float)):
            return f"names {name} of a {type(value).__name__}"
    return ""


def _name(entry: Mapping[str, Any]) -> tuple[str | None, str]:
    """Return the module and class that an entry names; what is no text stands for no class."""
    module, name = entry.get("module"), entry.get("class_name")
    return module if isinstance(module, str) else None, name if isinstance(name, str) else ""


def _allowed() -> dict[tuple[Any, Any], tuple[Any, ...]]:
    """Return (module, class name) of every object that a configuration may name -> what may be its registered name."""
    keras_layers = [("keras.layers", kind) for kind in OWN_KINDS if kind.isidentifier()]
    own = {(_OWN_MODULE, kind.partition(">")[2]): (kind,) for kind in OWN_KINDS if kind.startswith("hetero_mtf>")}
    families = {"initializers": keras.initializers.Initializer, "regularizers": keras.regularizers.Regularizer}
    named = [
        (f"keras.{room}", name)
        for room, family in families.items()
        for name, member in vars(getattr(keras, room)).items()
        if inspect.isclass(member) and issubclass(member, family)
    ]
    policies = [("keras", "DTypePolicy"), ("keras.dtype_policies", "DTypePolicy")]
    return {**{(module, name): (None, name) for module, name in (*_MODELS, *keras_layers, *named, *policies)}, **own}


def _registered() -> frozenset[str]:
    """Return the names that code outside this project has registered with Keras, which would take them for what they name."""
    return frozenset(keras.saving.get_custom_objects()) - OWN_KINDS


def _end(place: str) -> str:
    return place if len(place) <= 80 else f"...{place[-77:]}"
