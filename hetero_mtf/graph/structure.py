"""Structure: how a model packs its several inputs or outputs, and the conversion of packed values to flat ones and back."""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hetero_mtf.errors import DataError, HeteroError


@dataclasses.dataclass(frozen=True)
class Structure:
    """Lists and dicts, nested to any depth, around the inputs or outputs of a model.

    The flat order is Keras's: lists and OrderedDicts in their order, other dicts by their sorted keys.

    Parameters
    ----------
    form : the packing: an int (index in the flat order), or a list or dict of forms.
    names : (leaves,) what people call each: its key where the form is a flat dict, else the name of its layer.

    Examples
    --------
    >>> outputs = Structure.of({"b": "conv", "a": ["left", "right"]})
    >>> outputs.names, outputs.flatten({"a": [1, 2], "b": 3}, "y"), outputs.pack([1, 2, 3])
    (('left', 'right', 'conv'), (1, 2, 3), {'b': 3, 'a': [1, 2]})
    """

    form: Any
    names: tuple[str, ...]

    @classmethod
    def of(cls, names: Any) -> Structure:
        """Return the structure of nested names; a list of one at the top stands for its only entry, as in Keras."""
        if isinstance(names, (list, tuple)) and len(names) == 1:
            names = names[0]
        leaves = leaves_of(names)
        count = itertools.count()
        form = map_leaves(names, lambda _: next(count))
        flat = isinstance(form, Mapping) and all(isinstance(leaf, int) for leaf in form.values())
        return cls(form, tuple(sorted(form, key=form.__getitem__)) if flat else tuple(leaves))

    @property
    def count(self) -> int:
        """Number of leaves."""
        return len(self.names)

    @property
    def alone(self) -> bool:
        """Whether there is one value without any packing."""
        return isinstance(self.form, int)

    def flatten(self, value: Any, what: str, fault: type[HeteroError] = DataError, spare: bool = False) -> tuple[Any, ...]:
        """Return the leaves of a packed value in the flat order.

        A value may be packed as the model packs it, as a dict by `names`, or as a list of all leaves in the flat order.

        Parameters
        ----------
        value : the packed value; its leaves may be anything.
        what : how the message calls it, such as "x".
        fault : the error to raise.
        spare : whether a dict by `names` may hold more than these.

        Raises
        ------
        HeteroError
            If it is packed in another way.
        """
        leaves = self.matched(value, spare)
        if leaves is None:
            raise fault(f"{what} is {_shown(value)}, the model has {self.text()}; give {self._remedy()}")
        return leaves

    def matched(self, value: Any, spare: bool = False) -> tuple[Any, ...] | None:
        """Return the leaves of a packed value in the flat order, None if it is packed in another way.

        Parameters
        ----------
        value, spare : as for `flatten`.
        """
        if self.count == 1 and not isinstance(value, (Mapping, list, tuple)):
            return (value,)
        candidates = (self._packed(value, spare), self._named(value, spare), self._listed(value))
        return next((leaves for leaves in candidates if leaves is not None), None)

    def pack(self, leaves: Sequence[Any]) -> Any:
        """Return flat leaves packed as the model packs them."""
        return map_leaves(self.form, lambda index: leaves[index])

    def text(self) -> str:
        """Return the names as people read them."""
        return f"{self.count} values {', '.join(self.names)}" if self.count > 1 else f"one value {self.names[0]}"

    def paths(self) -> tuple[tuple[str | int, ...], ...]:
        """Return (leaves,) the keys and positions that lead to each leaf."""
        return tuple(_paths(self.form, ()))

    def _packed(self, value: Any, spare: bool) -> tuple[Any, ...] | None:
        leaves: list[Any] = []
        if self.alone and isinstance(value, Mapping):
            return None
        return tuple(leaves) if _match(self.form, value, leaves, spare) else None

    def _named(self, value: Any, spare: bool) -> tuple[Any, ...] | None:
        if not isinstance(value, Mapping) or isinstance(self.form, Mapping) or len(set(self.names)) < self.count:
            return None
        fits = set(self.names) <= set(value) if spare else set(self.names) == set(value)
        return tuple(value[name] for name in self.names) if fits else None

    def _listed(self, value: Any) -> tuple[Any, ...] | None:
        """Return the leaves of a flat list; None too for a dict whose keys are not sorted, as its order is ambiguous."""
        ambiguous = isinstance(self.form, Mapping) and list(self.form) != sorted(self.form)
        if self.alone or ambiguous or not isinstance(value, (list, tuple)) or len(value) != self.count:
            return None
        return None if any(isinstance(item, Mapping) for item in value) else tuple(value)

    def _remedy(self) -> str:
        if self.alone:
            return f"it alone, or {{{self.names[0]!r}: ...}}"
        if any(len(path) > 1 for path in self.paths()):
            return f"them packed as {self.pack(self.names)}"
        by_name = f"{{{', '.join(f'{name!r}: ...' for name in self.names)}}}"
        return f"a dict {by_name}" if isinstance(self.form, Mapping) else f"a list of {self.count}, or a dict {by_name}"


def map_leaves(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return nested lists and dicts with their leaves changed, met in the flat order; dicts keep their own order.

    Parameters
    ----------
    value : lists, tuples and dicts around leaves.
    change : leaf -> what takes its place.
    """
    if isinstance(value, Mapping):
        changed = {key: map_leaves(value[key], change) for key in _keys(value)}
        # an OrderedDict stays one: `_keys` takes its own order, and sorts the keys of other dicts
        return type(value)((key, changed[key]) for key in value)  # type: ignore[call-arg]
    return [map_leaves(item, change) for item in value] if isinstance(value, (list, tuple)) else change(value)


def leaves_of(value: Any) -> list[Any]:
    """Return the leaves of nested lists and dicts in the flat order."""
    leaves: list[Any] = []
    map_leaves(value, leaves.append)
    return leaves


def _keys(form: Mapping[str, Any]) -> list[str]:
    return list(form) if isinstance(form, collections.OrderedDict) else sorted(form)


def _match(form: Any, value: Any, leaves: list[Any], spare: bool) -> bool:
    """Return whether a value is packed as a form, its leaves added to `leaves` in the flat order."""
    if isinstance(form, Mapping):
        fits = isinstance(value, Mapping) and set(form) == set(sorted(value)[: len(form)] if spare else value)  # Keras takes the first ones
        return fits and all(_match(form[key], value[key], leaves, spare) for key in _keys(form))
    if isinstance(form, list):
        fits = isinstance(value, (list, tuple)) and len(form) == len(value)
        return fits and all(_match(part, item, leaves, spare) for part, item in zip(form, value))
    leaves.append(value)
    return True


def _paths(form: Any, path: tuple[str | int, ...]) -> list[tuple[str | int, ...]]:
    if isinstance(form, Mapping):
        return [inner for key in _keys(form) for inner in _paths(form[key], (*path, key))]
    if isinstance(form, list):
        return [inner for at, item in enumerate(form) for inner in _paths(item, (*path, at))]
    return [path]


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"a dict of {', '.join(map(str, value)) or 'nothing'}"
    if isinstance(value, (list, tuple)):
        return f"a {type(value).__name__} of {len(value)}"
    return f"one {type(value).__name__}"
