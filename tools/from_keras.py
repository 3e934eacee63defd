"""Writes docs/from_keras.md: scripts for Keras, and the lines that change for several devices.

The scripts are docs/keras_scripts/*.py. What changes is the same in all of them: the import, and behind `compile` a cluster and the
call that distributes the model. `tests/docs/test_from_keras.py` runs both versions of each and compares their results.

    python -m tools.from_keras
"""

from __future__ import annotations

import ast
import difflib
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[1]
SCRIPTS = ROOT / "docs" / "keras_scripts"
PAGE = ROOT / "docs" / "from_keras.md"
CLUSTER = "cluster = hm.Cluster.local()"
_HEADING = """# From a script for Keras

A script for Keras trains on several devices with two more lines beside the import. Below are scripts as people write them, with the
lines that are added. Tests run both versions of each, on one device under Keras and on three unequal slices here. They compare
histories, weights, predictions and files: to 1e-8 in float64, to 0.03 in mixed precision.

`hm.Cluster.local()` stands for the GPUs and the CPU of this machine; others are `hm.Cluster.emulate([1.0, 0.5])`, `from_slurm()`,
`from_tf_config()` and `hosts([...])` ([several hosts](hosts.md)). The model stays the one of the script
([a model on a cluster](distribute.md)).
"""


def names() -> list[str]:
    """Return the names of the scripts."""
    return sorted(path.stem for path in SCRIPTS.glob("*.py"))


def keras_script(name: str) -> str:
    """Return a script for Keras."""
    return (SCRIPTS / f"{name}.py").read_text()


def changed_script(name: str) -> str:
    """Return a script with the lines that change."""
    lines = keras_script(name).splitlines()
    compiling = next(node for node in ast.parse("\n".join(lines)).body if ast.unparse(node).startswith("model.compile("))
    lines[compiling.end_lineno : compiling.end_lineno] = [CLUSTER, "model = hm.distribute(model, cluster)"]
    last = max(number for number, line in enumerate(lines) if line.startswith(("import ", "from ")))
    lines.insert(last + 1, "import hetero_mtf as hm")
    return "\n".join(lines) + "\n"


def changes(name: str) -> list[str]:
    """Return the lines that are added to a script for Keras, the import left out."""
    lines = difflib.ndiff(keras_script(name).splitlines(), changed_script(name).splitlines())
    return [line[2:] for line in lines if line.startswith("+ ") and "import hetero_mtf" not in line]


def page() -> str:
    """Return the text of the page."""
    parts = [_HEADING]
    for name in names():
        own, other = keras_script(name).splitlines(), changed_script(name).splitlines()
        title = ast.get_docstring(ast.parse("\n".join(own))) or name
        diff = list(difflib.unified_diff(own, other, lineterm="", n=len(own)))[3:]
        parts += [f"\n## {title.rstrip('.')}\n", "```diff", *(line.rstrip() for line in diff[2:]), "```"]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
