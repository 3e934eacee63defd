"""Snapshots of the optimizer's slots."""

from __future__ import annotations

from hetero_mtf.graph.variable_keys import VariableKey, slot_key, variable_key
from hetero_mtf.mesh.variables import Parameter
from hetero_mtf.program.context import ProgramContext


def slot_parameter(
    context: ProgramContext, known: dict[tuple[VariableKey, str], Parameter], key: VariableKey, parameter: Parameter, name: str
) -> Parameter:
    """Return the snapshot of an optimizer's slot of a variable, created on first use.

    Parameters
    ----------
    known : snapshots by key and slot, to which it is added.
    key, parameter : the variable.
    name : name of the slot.
    """
    if (key, name) not in known:
        shape = context.rule.slot_dimensions(name, parameter, context.shape_of(key))
        variable = slot_key(variable_key(*key), name)
        known[key, name] = Parameter(parameter.mesh, context.variables, variable, shape, parameter.value.dtype)
    return known[key, name]
