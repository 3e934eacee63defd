"""Runs the cases of operations in a process of its own, since TensorFlow may end one that computes on an empty tensor.

Run as a module: the session configuration (a key of `CONFIGURATIONS`), the family (a key of `FAMILIES`), and the names of cases (none
for all). The name of each case is printed before it runs.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import tensorflow as tf

from hetero_mtf.runtime.session import session_config
from tests.mesh.operations import test_gradients
from tests.mesh.stock import test_layers, test_public


def _of_test_cases() -> Any:
    """Return the configuration of the sessions of `tf.test.TestCase`: no constant is computed while a graph is rewritten."""
    config = tf.compat.v1.ConfigProto()
    config.graph_options.optimizer_options.opt_level = -1
    config.graph_options.rewrite_options.constant_folding = 2  # RewriterConfig.OFF
    config.graph_options.rewrite_options.pin_to_host_optimization = 2
    return config


CONFIGURATIONS: Mapping[str, Callable[[], Any]] = {
    "without folding": _of_test_cases,
    "rewriting": tf.compat.v1.ConfigProto,
    "library's": lambda: session_config(),
}
_LAYOUTS = {**test_public.LAYOUTS, **test_public.MORE_LAYOUTS}
ZEROS = {name: _LAYOUTS[name] for name in ("with a zero", "all on one", "3x2", "2x3")}


def _own(name: str) -> None:
    for sizes in ((4, 0, 2), (0, 6, 0)):
        test_gradients.test_an_operation_and_its_gradients_do_not_depend_on_the_slices(test_gradients.CASES[name], sizes)


FAMILIES: Mapping[str, tuple[Sequence[str], Callable[[str], None]]] = {
    "stock": (list(test_public.CASES), lambda name: test_public._compare(name, ZEROS)),
    "layers": (list(test_layers.LAYERS), test_layers.test_a_layer_gives_what_one_processor_gives_on_every_layout),
    "own": (list(test_gradients.CASES), _own),
}


def check(configuration: str, family: str, *names: str) -> None:
    """Run cases in a process of their own, and fail if it fails.

    Parameters
    ----------
    configuration : key of `CONFIGURATIONS`.
    family : key of `FAMILIES`.
    names : names of cases; none for all.
    """
    command = [sys.executable, "-m", "tests.mesh.without_folding", configuration, family, *names]
    ended = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert ended.returncode == 0, f"code {ended.returncode} after {ended.stdout.splitlines()[-1:]}: {ended.stderr[-2000:]}"
    assert ended.stdout.splitlines() == list(names or FAMILIES[family][0])


def _run(configuration: str, family: str, names: Sequence[str]) -> None:
    every, work = FAMILIES[family]
    session, configure = tf.compat.v1.Session, CONFIGURATIONS[configuration]
    with mock.patch.object(tf.compat.v1, "Session", lambda config=None: session(config=configure())):
        for name in names or every:
            print(name, flush=True)
            work(name)


if __name__ == "__main__":
    _run(sys.argv[1], sys.argv[2], sys.argv[3:])
