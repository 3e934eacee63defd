"""The text of a script that is run: with the edits of its recipe, and with the lines that distribute its models."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from tools.keras_io.recipe import Recipe


class EditError(ValueError):
    """A text that a recipe replaces does not occur exactly once in its script."""


def edited(text: str, edits: Sequence[tuple[str, str]]) -> str:
    """Return a script with texts replaced.

    Parameters
    ----------
    text : of the script.
    edits : (old, new) texts.

    Raises
    ------
    EditError
        If an old text does not occur exactly once; give a longer or another one.
    """
    for old, new in edits:
        if text.count(old) != 1:
            raise EditError(f"{old!r} occurs {text.count(old)} times in the script; give a text that occurs once")
        text = text.replace(old, new)
    return text


def keras_script(text: str, recipe: Recipe) -> str:
    """Return the script as it runs under Keras alone."""
    return edited(text, recipe.edits)


def distributed_script(text: str, recipe: Recipe, shares: Sequence[float]) -> str:
    """Return the script as it runs distributed; all of its lines keep their numbers, so that tracebacks of both can be compared.

    Parameters
    ----------
    text : of the script as it was published.
    recipe : of the example.
    shares : (devices,) share of a core of each emulated device.
    """
    text = keras_script(text, recipe)
    added = f"import hetero_mtf as hm; hm_cluster = hm.Cluster.emulate({list(shares)!r}); "
    text = with_distribute(text) if recipe.distribute is None else edited(text, recipe.distribute)
    return _inserted(text, [(*_first_statement(text), added)])


def with_distribute(text: str) -> str:
    """Return a script in which each statement `X.compile(...)` is followed by `X = hm.distribute(X, hm_cluster)`.

    A model that is no variable of the function in which it is compiled is distributed without an assignment, which would make it one;
    `hm.distribute` returns the same object. A class that compiles itself (`self.compile`, `super().compile`) is left alone.

    Parameters
    ----------
    text : of the script.

    Examples
    --------
    >>> print(with_distribute("def f(model):\\n    model.compile('sgd')\\n    model.fit(x)"))
    def f(model):
        model.compile('sgd'); model = hm.distribute(model, hm_cluster)
        model.fit(x)
    """
    return _inserted(text, list(_insertions(ast.parse(text), own=None)))


def _insertions(scope: ast.AST, own: set[str] | None) -> Iterator[tuple[int, int, str]]:
    """Yield (line, offset in bytes, text) of what is inserted; `own` are the variables of the function, None outside of functions."""
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield from _insertions(node, _variables(node))
            continue
        yield from _insertions(node, own)
        model = _compiled(node)
        if model is not None:
            assigned = own is None or not isinstance(model, ast.Name) or model.id in own
            name = ast.unparse(model)
            call = f"hm.distribute({name}, hm_cluster)"
            assert isinstance(node, ast.Expr) and node.end_lineno is not None and node.end_col_offset is not None
            yield node.end_lineno, node.end_col_offset, f"; {name} = {call}" if assigned else f"; {call}"


def _compiled(node: ast.AST) -> ast.expr | None:
    """Return the X of a statement `X.compile(...)` with X a name or an attribute, None of any other statement."""
    if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute)):
        return None
    model = node.value.func.value
    named = isinstance(model, (ast.Name, ast.Attribute)) and not (isinstance(model, ast.Name) and model.id == "self")
    return model if node.value.func.attr == "compile" and named else None


def _variables(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> set[str]:
    parameters = {node.arg for node in ast.walk(function.args) if isinstance(node, ast.arg)}
    return parameters | {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _first_statement(text: str) -> tuple[int, int]:
    """Return (line, offset in bytes) of the first statement that is neither a text nor an import from the future."""
    for node in ast.parse(text).body:
        shown = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not shown and not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            return node.lineno, node.col_offset
    raise EditError("the script has no statement; name another script")


def _inserted(text: str, insertions: Sequence[tuple[int, int, str]]) -> str:
    lines = [line.encode() for line in text.split("\n")]
    for line, offset, added in sorted(insertions, reverse=True):
        lines[line - 1] = lines[line - 1][:offset] + added.encode() + lines[line - 1][offset:]
    return b"\n".join(lines).decode()
