"""Modules do not import each other in a circle, and folders, files and functions stay within their limits."""

from __future__ import annotations

import ast
import collections
import functools
import pathlib
from collections.abc import Iterator, Mapping

ROOT = pathlib.Path(__file__).resolve().parents[1]
SOURCES = ("hetero_mtf", "tools", "models")
FILES_PER_FOLDER = 20
LINES_PER_FILE = 400
LINES_PER_FUNCTION = 60  # from `def` on, the docstring counted

OF_LAYERS = "one kind of layer: its description, its operation on a mesh, how a program builds it"
OF_STALE = "the same of schedules with a flush and without one"
SHARED_NAMES = {
    **dict.fromkeys(("activation", "attention", "conv", "depthwise", "heads", "kernel"), OF_LAYERS),
    **dict.fromkeys(("merge", "norm", "pool", "sample_norm", "scaling"), OF_LAYERS),
    **dict.fromkeys(("engine", "passes", "prediction", "search"), OF_STALE),
    **dict.fromkeys(("calibrate", "devices", "doctor", "evaluate"), "a command and what it calls"),
    **dict.fromkeys(("explain", "plan", "predict", "train", "worker"), "a command and what it calls"),
    "contribution": "the contribution of a device, to a plan of one stage and of several",
    "corrections": "a record and how it is reported",
    "records": "the records that a package is about",
    "sections": "the sections of a report",
    "what_if": "a record and the options that name it",
}
"""Names that several files have -> the one idea that they are of; a reader who looks for a file by its name then finds the right ones."""

Imports = Mapping[str, frozenset[str]]


def _trees(*folders: str) -> Iterator[tuple[pathlib.Path, ast.Module]]:
    for path in _files(*folders):
        yield path, _tree(path.read_text())


@functools.cache
def _tree(text: str) -> ast.Module:
    return ast.parse(text)


def _files(*folders: str) -> list[pathlib.Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def _module_name(path: pathlib.Path, folder: pathlib.Path) -> str:
    parts = path.relative_to(folder.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(folder: pathlib.Path) -> Imports:
    """Return module -> modules of the same package that it imports, at the top, under TYPE_CHECKING or inside a function.

    `from a import b` imports the module `a.b` where there is one, else the module `a`.
    """
    paths = {_module_name(path, folder): path for path in sorted(folder.rglob("*.py"))}
    return {name: frozenset(_imported(name, path, paths)) - {name} for name, path in paths.items()}


def _imported(name: str, path: pathlib.Path, modules: Mapping[str, pathlib.Path]) -> Iterator[str]:
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in _statements(_tree(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*above, *([node.module] if node.module else [])])
            targets = (f"{source}.{alias.name}" for alias in node.names)
            yield from (target for target in (known if known in modules else source for known in targets) if target in modules)


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements below a node, within functions and blocks too, and no expressions, which are most of a tree."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        for child in getattr(node, name, ()):
            yield child
            yield from _statements(child)


def import_cycles(imports: Imports) -> list[list[str]]:
    """Return the strongly connected components of more than one module: a and b are in one if each imports the other, even indirectly."""
    reachable = {name: _reachable(imports, name) for name in imports}
    circles = {frozenset(other for other in reachable[name] if name in reachable[other]) for name in imports}
    return sorted(sorted(circle) for circle in circles if len(circle) > 1)


def _reachable(imports: Imports, start: str) -> set[str]:
    reached, queue = set[str](), [start]
    while queue:
        new = imports[queue.pop()] - reached
        reached |= new
        queue += new
    return reached


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert import_cycles(imports_of(ROOT / "hetero_mtf")) == []


def test_a_circle_through_a_type_and_a_function_is_reported(tmp_path: pathlib.Path) -> None:
    package = tmp_path / "package"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "inner" / "__init__.py").write_text("")
    (package / "a.py").write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from package.inner import b\n")
    (package / "inner" / "b.py").write_text("def f():\n    import package.c\n")
    (package / "c.py").write_text("from .a import X\nimport os\n")
    (package / "d.py").write_text("from package.a import X\n")
    imports = imports_of(package)
    assert imports["package.a"] == {"package.inner.b"} and imports["package.d"] == {"package.a"}
    assert import_cycles(imports) == [["package.a", "package.c", "package.inner.b"]]
    (package / "c.py").write_text("from .inner import X\n")
    assert import_cycles(imports_of(package)) == []


def test_no_folder_has_too_many_files() -> None:
    counts = collections.Counter(path.parent.relative_to(ROOT).as_posix() for path in _files(*SOURCES))
    assert {folder: count for folder, count in counts.items() if count > FILES_PER_FOLDER} == {}


def test_files_share_a_name_only_where_they_are_one_idea() -> None:
    counts = collections.Counter(path.stem for path in _files("hetero_mtf") if path.stem != "__init__")
    assert {name for name, count in counts.items() if count > 1} == set(SHARED_NAMES)


def test_no_file_has_too_many_lines() -> None:
    counts = {path.relative_to(ROOT).as_posix(): len(path.read_text().splitlines()) for path in _files(*SOURCES, "tests")}
    assert {name: count for name, count in counts.items() if count > LINES_PER_FILE} == {}


def test_no_function_has_too_many_lines() -> None:
    counts = {
        f"{path.relative_to(ROOT).as_posix()}:{node.lineno} {node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for path, tree in _trees(*SOURCES)
        for node in _statements(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
    assert {name: count for name, count in counts.items() if count > LINES_PER_FUNCTION} == {}
