"""`hetero-mtf bench`: the benchmarks of a source checkout."""

from __future__ import annotations

import pathlib
import runpy
import sys

import click

from hetero_mtf.errors import HeteroError


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("name")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(name: str, arguments: tuple[str, ...]) -> None:
    """Run the benchmark NAME, tools/bench/NAME.py of a source checkout, with ARGUMENTS."""
    path = benchmark(name, pathlib.Path(__file__).resolve().parents[2])
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, str(path.parent))  # as for a script
    runpy.run_path(str(path), run_name="__main__")


def benchmark(name: str, root: pathlib.Path) -> pathlib.Path:
    """Return the file of a benchmark.

    Parameters
    ----------
    name : its name, without folder and ending.
    root : where the source checkout would be.

    Raises
    ------
    HeteroError
        If this is no source checkout, or it has no such benchmark.
    """
    folder = root / "tools" / "bench"
    names = sorted(path.stem for path in folder.glob("*.py") if "__main__" in path.read_text(encoding="utf-8"))
    if not names:
        raise HeteroError(f"{root} has no benchmarks, they are not installed; run hetero-mtf bench from a source checkout")
    if name not in names:
        raise HeteroError(f"there is no benchmark {name!r}; there are {', '.join(names)}")
    return folder / f"{name}.py"
