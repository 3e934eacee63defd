"""Replacements of functions of other libraries' modules and classes, in one thread and for a while.

Several threads build graphs at once, as where devices of several processes are measured together, or draw the next batch meanwhile.
A function that is replaced for all of them would change what the others compute, and two that begin and end in turns would leave a
replacement behind.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

_Place = tuple[int, str]


class _Present(threading.local):
    """The replacements in force in a thread, the last one counts."""

    def __init__(self) -> None:
        self.by_place: dict[_Place, list[Callable[..., Any]]] = {}


_present = _Present()
_lock = threading.Lock()
_originals: dict[_Place, tuple[Any, int]] = {}  # what stood in a place, and how many contexts of all threads are open


@contextlib.contextmanager
def replaced(owner: Any, name: str, replacement: Callable[[Any], Callable[..., Any]]) -> Iterator[None]:
    """Let a function of a module or class, or a property of a class, be another one in this thread while the context is open.

    Parameters
    ----------
    owner : the module or class that has it itself.
    name : its name there.
    replacement : the present function, or the function of the property -> what is called in its place.

    Examples
    --------
    >>> import math
    >>> with replaced(math, "floor", lambda own: lambda x: own(x) + 1):
    ...     math.floor(2.5)
    3
    >>> math.floor(2.5)
    2
    """
    key = id(owner), name
    with _lock:
        original, count = _originals.get(key, (vars(owner)[name], 0))
        if not count:
            setattr(owner, name, _dispatching(key, original))
        _originals[key] = original, count + 1
    own = _function(original)
    stack = _present.by_place.setdefault(key, [])
    stack.append(replacement(stack[-1] if stack else own))
    try:
        yield
    finally:
        stack.pop()
        with _lock:
            original, count = _originals.pop(key)
            if count > 1:
                _originals[key] = original, count - 1
            else:
                setattr(owner, name, original)


def _function(original: Any) -> Any:
    """Return a function, or that of a property."""
    return original.fget if isinstance(original, property) else original


def _dispatching(key: _Place, original: Any) -> Any:
    """Return what stands in a place while it is replaced in some thread."""
    own = _function(original)

    def dispatching(*arguments: Any, **options: Any) -> Any:
        stack = _present.by_place.get(key)
        return (stack[-1] if stack else own)(*arguments, **options)

    return property(dispatching, original.fset, original.fdel) if isinstance(original, property) else dispatching
