"""`hetero-mtf bench`: the benchmarks of a source checkout; hidden where there is none."""

from __future__ import annotations

import difflib
import pathlib
import runpy
import sys

import click

from hetero_mtf.errors import HeteroError

ROOT = pathlib.Path(__file__).resolve().parents[2]  # of the source checkout, or the folder of installed packages
_FOLDER = pathlib.Path("tools", "bench")


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("name", required=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(name: str | None, arguments: tuple[str, ...]) -> None:
    """Run the benchmark NAME, tools/bench/NAME.py of a source checkout, with ARGUMENTS; without NAME list the benchmarks."""
    names = benchmark_names(ROOT)
    if name is None and names:
        click.echo("\n".join(names))
        return
    path = benchmark(name or "", ROOT)
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, str(ROOT))  # as `python -m tools.bench.NAME` does there
    runpy.run_path(str(path), run_name="__main__")


def benchmark_names(root: pathlib.Path) -> list[str]:
    """Return the names of the benchmarks of a source checkout, sorted; none where there is no checkout.

    Parameters
    ----------
    root : where the source checkout would be.
    """
    return sorted(path.stem for path in (root / _FOLDER).glob("*.py") if "__main__" in path.read_text(encoding="utf-8"))


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
    names = benchmark_names(root)
    if not names:
        raise HeteroError(f"{root} has no benchmarks, they are not installed", "run hetero-mtf bench from a source checkout")
    if name not in names:
        alike = difflib.get_close_matches(name, names, n=2)
        remedy = f"did you mean {' or '.join(alike)}?" if alike else f"use one of {', '.join(names)}"
        raise HeteroError(f"there is no benchmark {name!r}", remedy)
    return root / _FOLDER / f"{name}.py"
