"""Claim: what Keras trains on TensorFlow is trained, with Keras's numbers: layers, losses, optimizers, applications, backbones, graphs.

Each class of keras.layers, in a small network, trains five steps on one device, by filters and by samples on three unequal devices, and
in Keras; the largest relative difference of losses, weights and a test is shown. In float64; in float32 where TensorFlow has no
kernels of float64; then in the mixed policies. What draws at random is compared between plans alone. Backbones are those of keras_hub,
where it is installed.

Cases run in processes of their own, which end after some cases, as TensorFlow keeps memory of graphs.

    python -m tools.conformance.run [--only layers] [--name Conv2D] [--processes 2]
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import math
import multiprocessing
import os
import re
import signal
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import click
import keras
import numpy as np

from hetero_mtf.errors import HeteroError
from tools.conformance import applications, backbones, graphs, layers, losses, optimizers
from tools.conformance.compare import BATCH, POLICIES, TOLERANCE, Batches, NotInKerasError, compare, sgd
from tools.results.output import Output, tables_option
from tools.results.publication import TableForm, shown, table_row
from tools.results.records import Column, Row

SEED = 11
LIMIT_S = 600  # of a case
GROUPS = ("layers", *POLICIES, "losses", "optimizers", "applications", "backbones", "graphs")
GRAPHS = 500
CASES_PER_PROCESS = {"applications": 1, "backbones": 4}  # else 20


def layer_row(name: str) -> Row:
    """Return the row of a class of layers."""
    reason = layers.excluded(name)
    if reason:
        return _row("layers", name, "-", f"left out: {reason}")
    row = None
    for dtype in ("float64", "float32"):
        try:
            row = _checked("layers", name, dtype, lambda: _layer(name))
        except NotInKerasError as fault:
            row = row or _row("layers", name, "-", f"left out: Keras raises {fault}")
        if not row.texts["result"].startswith(("fails", "left out")):
            return row
    assert row is not None
    return row


def policy_row(policy: str, name: str) -> Row:
    """Return the row of a class of layers in a network of a mixed policy."""
    reason = layers.excluded(name)
    if reason:
        return _row(policy, name, "-", f"left out: {reason}")
    try:
        row = _checked(policy, name, policy, lambda: _layer(name))
        if row.texts["result"].startswith("fails"):
            keras.config.set_dtype_policy(policy)
            _check_in_graph(name)
        return row
    except NotInKerasError as fault:
        return _row(policy, name, "-", f"left out: Keras raises {fault}")


def loss_row(name: str) -> Row:
    """Return the row of a loss."""
    make, kind, activation = {**losses.LOSSES, **losses.FLAT}[name]

    def build() -> tuple[Any, Batches, bool, str]:
        rng = np.random.default_rng(SEED)
        i = keras.Input((4, 2) if name in losses.LOSSES else (8,))
        model = keras.Model(i, keras.layers.Dense(3, activation=activation)(keras.layers.Dense(5, activation="tanh")(i)))
        shape = (BATCH, *model.output_shape[1:])
        x = [rng.normal(size=(BATCH, *i.shape[1:])) for _ in range(5)]
        y = [losses.targets(kind, rng, shape) for _ in range(5)]
        from hetero_mtf.program.losses import is_samplewise, read_loss

        return model, Batches(x, y, make, sgd), False, "samples" if is_samplewise(read_loss(make())) else "whole"

    return _checked("losses", name, "float64", build)


def optimizer_row(name: str) -> Row:
    """Return the row of an optimizer."""

    def build() -> tuple[Any, Batches, bool, str]:
        rng = np.random.default_rng(SEED)
        i = keras.Input((5, 5, 2))
        x = keras.layers.Flatten()(keras.layers.Conv2D(4, 3, activation="relu")(i))
        model = keras.Model(i, keras.layers.Dense(3)(keras.layers.Dense(6, activation="tanh")(x)))
        xs, ys = [rng.normal(size=(BATCH, 5, 5, 2)) for _ in range(5)], [rng.normal(size=(BATCH, 3)) for _ in range(5)]
        from hetero_mtf.program.optimizer_reading import read_optimizer

        rule, _ = read_optimizer(optimizers.OPTIMIZERS[name](), "float64")
        full = getattr(getattr(rule, "steps", None), "needs_full_variable", False)
        return model, Batches(xs, ys, lambda: "mse", optimizers.OPTIMIZERS[name]), False, "gathered" if full else "slices"

    return _checked("optimizers", name, "float64", build)


def application_row(name: str) -> Row:
    """Return the row of a constructor of keras.applications: one step by filters, by samples and by the layout search."""

    def build() -> tuple[Any, Batches, bool, str]:
        model, data = applications.case(name, np.random.default_rng(SEED))
        return model, data, layers.draws(model), f"{len(model.layers)} layers"

    return _checked("applications", name, "float64", build, large=True)


def backbone_row(name: str) -> Row:
    """Return the row of a backbone of keras_hub: two steps; in float32 where its own code is not of float64."""

    def build() -> tuple[Any, Batches, bool, str]:
        model, data = backbones.case(name, np.random.default_rng(SEED))
        return model, data, layers.draws(model), f"{len(list(model._flatten_layers()))} layers"

    row = _checked("backbones", name, "float64", build)
    return _checked("backbones", name, "float32", build) if row.texts["result"].startswith(("fails", "refused")) else row


@contextlib.contextmanager
def _limited(seconds: int) -> Iterator[None]:
    """Raise TimeoutError after some seconds."""

    def stop(*_: Any) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def graph_row(name: str) -> Row:
    """Return the row of a graph that is drawn at random."""
    seed = int(name.removeprefix("seed "))

    def build() -> tuple[Any, Batches, bool, str]:
        rng = np.random.default_rng(seed)
        model = graphs.network(rng)
        return model, graphs.batches(model, rng), False, f"{len(model.operations)} operations"

    return _checked("graphs", name, "float64", build)


def _layer(name: str) -> tuple[Any, Batches, bool, str]:
    try:
        model = layers.network(name)
        data = layers.batches(model, np.random.default_rng(SEED))
        model(data.x[0], training=True)
        model(data.x[0], training=False)
    except Exception as fault:  # whatever Keras raises
        raise NotInKerasError(" ".join(str(fault).split())[:80]) from fault
    if not layers.is_read(model, name):
        raise NotInKerasError("nothing, but leaves the layer out of the model")
    own = " (Keras's call)" if layers.taken_as_it_is(model, name) else ""
    return model, data, layers.draws(model), layers.placed(model, name) + own


def _check_in_graph(name: str) -> None:
    """Raise NotInKerasError where Keras itself cannot train a network in a TensorFlow graph."""
    model, data, _, _ = _layer(name)
    model.compile("sgd", data.loss(), run_eagerly=False)
    try:
        model.train_on_batch(data.x[0], data.y[0])
    except Exception as fault:  # whatever TensorFlow and Keras raise
        raise NotInKerasError(f"in a graph {_plain(fault)[:60]}") from fault


def _checked(group: str, name: str, dtype: str, build: Callable[[], tuple[Any, Batches, bool, str]], large: bool = False) -> Row:
    keras.config.set_floatx("float32" if dtype in POLICIES else dtype)
    keras.config.set_dtype_policy(dtype)
    keras.utils.set_random_seed(zlib.crc32(name.encode()) & 0xFFFF)
    split = "-"
    try:
        with _limited(LIMIT_S):
            model, data, drawn, split = build()
            error = compare(model, data, drawn, large)
    except TimeoutError:
        return _row(group, name, split, f"not finished in {LIMIT_S} s", dtype)
    except HeteroError as fault:
        return _row(group, name, split, f"refused: {' '.join(str(fault).split())[:120]}", dtype)
    except NotInKerasError as fault:
        if group == "layers" or group in POLICIES:
            raise
        return _row(group, name, split, f"fails in Keras: {fault}", dtype)
    except Exception as fault:  # whatever TensorFlow and Keras raise
        return _row(group, name, split, f"fails: {type(fault).__name__}: {_plain(fault)[:80]}", dtype)
    finally:
        keras.backend.clear_session()
    result = "equal under plans" if drawn else "as Keras"
    return _row(group, name, split, result if error <= TOLERANCE[dtype] else "differs", dtype, error)


def _plain(fault: Exception) -> str:
    """Return a message in one line, without the codes by which Keras colours it."""
    return " ".join(re.sub(r"\x1b\[[0-9;]*m", "", str(fault)).split())


def _row(group: str, name: str, split: str, result: str, dtype: str = "", error: float | None = None) -> Row:
    cells: dict[str, Any] = {"name": name, "split": split, "dtype": dtype, "result": result}
    if error is not None and math.isfinite(error):
        cells["error"] = error
    return table_row(cells, {"error": TOLERANCE[dtype]} if "error" in cells else None)


def summarise(table: Sequence[Row]) -> list[str]:
    """Return how many are as in Keras; nothing of graphs, whose row says it."""
    if any(row.texts["name"].startswith("seeds ") for row in table):
        return []
    rows = [row for row in table if not row.texts["result"].startswith("left out")]
    good = sum(row.texts["result"] in ("as Keras", "equal under plans") for row in rows)
    return [f"{good} of {len(rows)} are as in Keras, or equal under plans where they draw at random."]


def together(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of a group as they are published: of graphs one, and those that are not as in Keras."""
    if not rows or not rows[0].texts["name"].startswith("seed "):
        return list(rows)
    bad = [row for row in rows if row.texts["result"] != "as Keras"]
    worst = max(row.numbers.get("error", 0.0) for row in rows)
    seeds = f"seeds 0 to {len(rows) - 1}"
    return [_row("graphs", seeds, "-", f"{len(rows) - len(bad)} of {len(rows)} as Keras", "float64", worst), *bad]


COLUMNS = (
    Column("name", "class"),
    Column("split", "split over"),
    Column("dtype", "dtype"),
    Column("error", "largest difference", ".0e", "at_most"),
    Column("result", "result"),
)
TABLES = {
    group: TableForm(f"conformance_{group}", f"Conformance: {group}", COLUMNS, case=("name",), summarise=summarise) for group in GROUPS
}
CASES: dict[str, tuple[Callable[[], Sequence[str]], Callable[[str], Row]]] = {
    "layers": (lambda: list(layers.classes()), layer_row),
    **{policy: (lambda: list(layers.classes()), functools.partial(policy_row, policy)) for policy in POLICIES},
    "losses": (lambda: [*losses.LOSSES, *losses.FLAT], loss_row),
    "optimizers": (lambda: list(optimizers.OPTIMIZERS), optimizer_row),
    "applications": (applications.names, application_row),
    "backbones": (backbones.names, backbone_row),
    "graphs": (lambda: [f"seed {seed}" for seed in range(GRAPHS)], graph_row),
}


def cases(groups: Sequence[str], names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield (group, name) of the cases asked for."""
    for group in groups:
        yield from ((group, name) for name in CASES[group][0]() if not names or name in names)


def timed_row(case: tuple[str, str]) -> tuple[Row, float]:
    """Return the row of a case, a group and a name, and the seconds that it took."""
    group, name = case
    begun = time.perf_counter()
    return CASES[group][1](name), time.perf_counter() - begun


def timed_rows(wanted: Sequence[tuple[str, str]], processes: int, most: int) -> Iterator[tuple[Row, float]]:
    """Yield what `timed_row` returns for each case, computed by processes that end after some cases.

    Parameters
    ----------
    wanted : the cases.
    processes : how many compute at the same time.
    most : cases of a process.
    """
    context = multiprocessing.get_context("spawn")
    for begin in range(0, len(wanted), processes * most):
        with concurrent.futures.ProcessPoolExecutor(processes, mp_context=context) as pool:
            yield from pool.map(timed_row, wanted[begin : begin + processes * most])


@click.command(help=__doc__)
@click.option("--only", "groups", multiple=True, type=click.Choice(GROUPS), help="A group, several times for more.  [default: all]")
@click.option("--name", "names", multiple=True, help="A class, several times for more.  [default: all]")
@click.option("--processes", type=click.IntRange(1), default=os.cpu_count(), help="Cases at the same time.  [default: one a core]")
@tables_option
def main(groups: tuple[str, ...], names: tuple[str, ...], processes: int, output: Output) -> None:
    """Run the cases, print the table."""
    for group in groups or GROUPS:
        wanted, rows = list(cases([group], names)), list[Row]()
        if not wanted:
            continue
        for (_, name), (row, seconds) in zip(wanted, timed_rows(wanted, processes, CASES_PER_PROCESS.get(group, 20))):
            rows.append(row)
            if group != "graphs":
                output.publish(TABLES[group], [row])
            texts, error = row.texts, row.numbers.get("error", 0.0)
            print(f"{group} {name}: {texts['split']}, {texts['result']}, {error:.0e} ({seconds:.1f} s)", flush=True)
        if group == "graphs":
            output.publish(TABLES[group], together(rows))
        print(shown(TABLES[group], together(rows)))


if __name__ == "__main__":
    main()
