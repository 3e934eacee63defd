"""Places of a source text where one small change makes another program: what mutation testing changes, one at a time."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

_COMPARED = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq},
    **{ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is},
}
_COMPUTED = {
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv},
    **{ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd},
}
_CALLED = {"min": "max", "max": "min", "any": "all", "all": "any"}


class Change(NamedTuple):
    """One change: the text from `start` to `end` of a source becomes `after`.

    Parameters
    ----------
    line, column : where it begins, from 1 and 0.
    start, end : offsets in the source.
    kind : what is changed, such as "comparison".
    before, after : the text there, and what stands in its place.
    """

    line: int
    column: int
    start: int
    end: int
    kind: str
    before: str
    after: str

    def applied(self, source: str) -> str:
        """Return the source with this change."""
        return source[: self.start] + self.after + source[self.end :]


def changes(source: str) -> list[Change]:
    """Return all changes of a source text, in its order; texts for people, annotations, assertions and decorators are left alone."""
    offsets = [0]
    for text in source.splitlines(keepends=True):
        offsets.append(offsets[-1] + len(text.encode()))
    tree = ast.parse(source)
    return sorted(_changes_of(tree, source.encode(), offsets))


def _changes_of(tree: ast.AST, source: bytes, offsets: list[int]) -> Iterator[Change]:
    for node in _vichanged(tree):
        for kind, replaced, after in _small_changes(node):
            start = offsets[replaced.lineno - 1] + replaced.col_offset  # type: ignore[attr-defined]
            end = offsets[replaced.end_lineno - 1] + replaced.end_col_offset  # type: ignore[attr-defined]
            before = source[start:end].decode()
            characters = len(source[:start].decode())
            place = replaced.lineno, replaced.col_offset, characters, characters + len(before)  # type: ignore[attr-defined]
            yield Change(*place, kind, before, after)


def _vichanged(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes whose change a test of behaviour could notice."""
    if isinstance(node, (ast.Assert, ast.JoinedStr, ast.Raise, ast.Import, ast.ImportFrom)):
        return
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return
    yield node
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "bases"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _vichanged(child)


def _small_changes(node: ast.AST) -> Iterator[tuple[str, ast.AST, str]]:
    """Yield the changes of one node: what kind, which node's text is replaced, and by what."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARED:
        yield "comparison", node, _text(ast.Compare(node.left, [_COMPARED[type(node.ops[0])]()], node.comparators))
    elif isinstance(node, ast.BinOp) and type(node.op) in _COMPUTED and not _is_text(node):
        yield "arithmetic", node, _text(ast.BinOp(node.left, _COMPUTED[type(node.op)](), node.right))
    elif isinstance(node, ast.BoolOp):
        yield "and, or", node, _text(ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        yield "sign" if isinstance(node.op, ast.USub) else "not", node, _text(node.operand)
    elif isinstance(node, (ast.If, ast.While, ast.IfExp)):
        yield "condition", node.test, _text(ast.UnaryOp(ast.Not(), node.test))
    elif isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
        value = node.value
        yield "constant", node, repr(not value if isinstance(value, bool) else value + 1)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLED:
        yield "least, most", node.func, _CALLED[node.func.id]
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield "call left out", node, "None"
    elif isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
        yield "nothing returned", node, "return None"
    elif isinstance(node, ast.AugAssign) and isinstance(node.op, (ast.Add, ast.Sub)):
        yield "arithmetic", node, f"{ast.unparse(node.target)} {'-' if isinstance(node.op, ast.Add) else '+'}= {ast.unparse(node.value)}"


def _text(node: ast.expr) -> str:
    return f"({ast.unparse(ast.fix_missing_locations(node))})"


def _is_text(node: ast.BinOp) -> bool:
    parts = (node.left, node.right)
    return any(isinstance(part, ast.JoinedStr) or (isinstance(part, ast.Constant) and isinstance(part.value, str)) for part in parts)
