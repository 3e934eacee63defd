"""Mutation testing of the fast tests: how many of the small changes, drawn by a seed, some fast test notices.

    export MUTANTS_COVERAGE=runs/mutants/lines
    coverage run --rcfile tools/mutants/coverage.cfg -m pytest -q -p tools.mutants.contexts -n 2 -m "not slow"
    python -m tools.mutants.run --lines runs/mutants/lines --draw runs/mutants/drawn.json --verdicts runs/mutants/verdicts.json

The first command records which test runs which line. The second draws changes on lines that a test runs, once, into the file of `--draw`,
and runs for each the tests that run its line, in one copy of the tree. It can be interrupted and goes on where it stopped. With other
tests later, `--draw` of the same file and other `--lines` and `--verdicts` repeat the same changes.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import coverage

from tools.mutants.changes import Change, changes

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = ("planning", "mesh", "program", "layers", "data")
LEFT_OUT = (".git", ".venv", "__pycache__", "runs", "docs/_build", ".mypy_cache", ".hypothesis")

Lines = Mapping[str, Mapping[int, Sequence[str]]]


def read_lines(start: str) -> Lines:
    """Return which tests run which lines: file, from the root on -> line -> names of tests.

    Parameters
    ----------
    start : what the names of coverage.py's files begin with.
    """
    data = coverage.CoverageData(no_disk=True)
    for path in sorted(glob.glob(f"{start}*")):
        one = coverage.CoverageData(path)
        one.read()
        data.update(one)
    lines = {}
    for path in sorted(data.measured_files()):
        by_line = {line: sorted(name for name in names if name) for line, names in data.contexts_by_lineno(path).items()}
        lines[str(pathlib.Path(path).relative_to(ROOT))] = {line: names for line, names in by_line.items() if names}
    return lines


def draw(lines: Lines, seed: int, of_each: int) -> list[dict[str, Any]]:
    """Return changes drawn at random, as many of each package, on lines that a test runs; each is a `Change` with its file.

    Parameters
    ----------
    lines : as `read_lines` returns them.
    seed : of the draw.
    of_each : changes of each of `PACKAGES`.
    """
    drawn = []
    for package in PACKAGES:
        files = [path for path in sorted(lines) if path.startswith(f"hetero_mtf/{package}/")]
        candidates = [(path, change) for path in files for change in changes((ROOT / path).read_text()) if change.line in lines[path]]
        chosen = random.Random(f"{seed} {package}").sample(candidates, of_each)
        drawn += [{"file": path, **change._asdict()} for path, change in sorted(chosen)]
    return drawn


def run(drawn: Sequence[dict[str, Any]], lines: Lines, verdicts: pathlib.Path, limit_s: float) -> None:
    """Run the tests of each change that has no verdict yet, and write the verdicts after each.

    Parameters
    ----------
    drawn : changes, as `draw` returns them.
    lines : which tests run which lines of the tree as it is.
    verdicts : file of the verdicts.
    limit_s : seconds for the tests of one change.
    """
    rows = json.loads(verdicts.read_text()) if verdicts.exists() else []
    known = {_key(row) for row in rows}
    tree = _copied_tree(verdicts.with_suffix(".tree"))
    seconds = _Seconds(verdicts.with_suffix(".seconds.json"))
    for number, mutant in enumerate(drawn, 1):
        if _key(mutant) in known:
            continue
        rows.append(mutant | _verdict(mutant, lines, tree, limit_s, seconds))
        verdicts.write_text(json.dumps(rows, indent=1))
        place = f"{number:3} of {len(drawn)} {mutant['file']}:{mutant['line']}"
        print(f"{place} {mutant['kind']}: {rows[-1]['verdict']} ({rows[-1]['by']})", flush=True)


class _Seconds:
    """How long tests took, so that short ones come first."""

    def __init__(self, path: pathlib.Path) -> None:
        self._known: dict[str, float] = json.loads(path.read_text()) if path.exists() else {}

    def ordered(self, tests: Sequence[str]) -> list[str]:
        """Return the tests, short ones first, and those of unknown length as if of a tenth of a second."""
        return sorted(tests, key=lambda name: (self._known.get(name, 0.1), name))


def _verdict(mutant: Mapping[str, Any], lines: Lines, tree: pathlib.Path, limit_s: float, seconds: _Seconds) -> dict[str, Any]:
    path = tree / mutant["file"]
    source = path.read_text()
    change = Change(**{name: mutant[name] for name in Change._fields})
    if source[change.start : change.end] != change.before:
        raise SystemExit(f"{mutant['file']}:{change.line} is no longer {change.before!r}; draw again")
    tests = seconds.ordered(lines.get(mutant["file"], {}).get(change.line, ()))
    if not tests:
        return {"verdict": "survived", "by": "no fast test runs the line", "tests": 0, "seconds": 0.0}
    path.write_text(change.applied(source))
    began_s = time.monotonic()
    try:
        code, text = _pytest(tests, tree, limit_s)
    finally:
        path.write_text(source)
    took_s = round(time.monotonic() - began_s, 1)
    if code is None:
        return {"verdict": "survived", "by": f"{limit_s:g} s over", "tests": len(tests), "seconds": took_s}
    if code not in (0, 1, 2):  # 2 stands for modules of tests that can no longer be imported
        raise SystemExit(f"pytest ended with exit code {code}: {text[-500:]}")
    failed = next((line for line in text.splitlines() if line.startswith(("FAILED", "ERROR"))), "")
    by = failed.split(" - ")[0] if code else "all tests pass"
    return {"verdict": "killed" if code else "survived", "by": by or f"exit code {code}", "tests": len(tests), "seconds": took_s}


def _pytest(tests: Sequence[str], tree: pathlib.Path, limit_s: float) -> tuple[int | None, str]:
    """Return pytest's exit code, None where it was ended by the time limit, and its output."""
    names = tree / "names-of-tests.txt"
    names.write_text("".join(f"{name}\n" for name in tests))
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--tb=no", "-m", "not slow", f"@{names}"]
    process = subprocess.Popen(command, cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
    try:
        text, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # with what the tests started
        process.communicate()
        return None, ""
    return process.returncode, text


def _copied_tree(folder: pathlib.Path) -> pathlib.Path:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=True)
    return folder


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["file"], row["start"], row["after"]


def compared(before: pathlib.Path, after: pathlib.Path) -> Iterator[str]:
    """Yield what other tests changed: changes that were noticed and are not any more, and the other way round."""
    verdicts = [{_key(row): row for row in json.loads(path.read_text())} for path in (before, after)]
    for key, row in verdicts[0].items():
        if key in verdicts[1] and verdicts[1][key]["verdict"] != row["verdict"]:
            yield f"{row['file']}:{row['line']} {row['kind']} {row['before']!r}: {row['verdict']}, then {verdicts[1][key]['verdict']}"


def main() -> None:
    """Draw and run as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", required=True, help="What the names of coverage.py's files begin with.")
    parser.add_argument("--draw", type=pathlib.Path, required=True, help="File of the drawn changes; written where it is missing.")
    parser.add_argument("--verdicts", type=pathlib.Path, required=True, help="File of the verdicts, which is continued.")
    parser.add_argument("--seed", type=int, default=38, help="Of the draw (38).")
    parser.add_argument("--of-each", type=int, default=12, help="Changes of each of the five packages (12).")
    parser.add_argument("--limit", type=float, default=60.0, help="Seconds for the tests of one change (60).")
    parser.add_argument("--before", type=pathlib.Path, help="Earlier verdicts to compare with.")
    options = parser.parse_args()
    lines = read_lines(options.lines)
    if not options.draw.exists():
        options.draw.write_text(json.dumps(draw(lines, options.seed, options.of_each), indent=1))
    run(json.loads(options.draw.read_text()), lines, options.verdicts, options.limit)
    rows = json.loads(options.verdicts.read_text())
    print(f"{sum(row['verdict'] == 'killed' for row in rows)} of {len(rows)} killed")
    if options.before is not None:
        print("\n".join(compared(options.before, options.verdicts)) or "the same verdicts")


if __name__ == "__main__":
    main()
