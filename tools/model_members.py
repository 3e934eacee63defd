"""Publish how each public member of a distributed Keras model compares with that of the same model before, for docs/distribute.md.

    python -m tools.model_members
    python -m tools.render_results
"""

from __future__ import annotations

from typing import Any

import click
import numpy as np

from tools.results.output import Output, tables_option
from tools.results.publication import TableForm, table_row
from tools.results.records import Column

SAME, EQUAL, METHOD, LOOP, DIFFERS = "the same object", "an equal value", "Keras's method", "Keras's loop, steps on the cluster", "differs"
TABLE = TableForm(
    "model_members",
    "Public members of keras.Model after `hm.distribute`",
    (Column("verdict", "is"), Column("count", "members", ".0f"), Column("members", "which")),
    case=("verdict",),
)


def verdicts(cluster: Any, plan: Any, model: Any) -> dict[str, str]:
    """Return {member: what it is after distribution}; the model is distributed and trained for one batch.

    Parameters
    ----------
    cluster : live cluster.
    plan : plan for the model.
    model : compiled keras.Model of images (5, 5, 2) and class numbers.
    """
    import hetero_mtf as hm

    names = [name for name in dir(type(model)) if not name.startswith("_")]
    before = {name: _member(model, name) for name in names}
    several = {name for name in names if _differs_each_time(model, name)}
    hm.distribute(model, cluster, plan=plan)
    looped = {*("fit", "evaluate", "predict", "train_on_batch", "test_on_batch", "predict_on_batch"), *_functions(names)}
    first = {name: LOOP if name in looped else _verdict(before[name], _member(model, name)) for name in names}
    alike = {name for name in several if type(before[name]).__qualname__ == type(_member(model, name)).__qualname__}
    return {name: EQUAL if name in alike else verdict for name, verdict in first.items()}


def _functions(names: list[str]) -> list[str]:
    """Return the members that Keras's loops call for their steps."""
    return [name for name in names if name.startswith("make_") or name == "get_metrics_result"]


def _member(model: Any, name: str) -> Any:
    try:
        return getattr(model, name)
    except Exception as fault:  # as of a property that needs something first
        return type(fault).__name__, str(fault)


def _verdict(before: Any, after: Any) -> str:
    if callable(before) and hasattr(before, "__func__"):
        return METHOD if getattr(after, "__func__", None) is before.__func__ and after.__self__ is before.__self__ else DIFFERS
    if after is before:
        return SAME
    return EQUAL if _is_equal(before, after) else DIFFERS


def _is_equal(before: Any, after: Any) -> bool:
    if isinstance(before, (list, tuple)) and isinstance(after, type(before)) and len(before) == len(after):
        return all(one is other or _is_equal(one, other) for one, other in zip(before, after))
    try:
        return bool(np.all(before == after))
    except Exception:  # what cannot be compared
        return repr(before) == repr(after)


def _differs_each_time(model: Any, name: str) -> bool:
    """Return whether each look at a member makes another object."""
    return type(getattr(type(model), name, None)) is property and _member(model, name) is not _member(model, name)


@click.command(help=__doc__)
@tables_option
def main(output: Output) -> None:
    """Write the table, and print it."""
    import keras

    import hetero_mtf as hm

    layers = [keras.layers.Conv2D(4, 3, activation="relu"), keras.layers.Flatten(), keras.layers.Dense(3, activation="softmax")]
    model = keras.Sequential([keras.Input((5, 5, 2)), *layers])
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    with hm.Cluster.local(["cpu:0"] * 2) as cluster:
        verdict_of = verdicts(cluster, hm.Plan.batch(model, [2, 1], cluster, 8), model)
    rows = []
    for verdict in (SAME, EQUAL, METHOD, LOOP, DIFFERS):
        members = sorted(name for name, own in verdict_of.items() if own == verdict)
        rows.append(table_row({"verdict": verdict, "count": len(members), "members": ", ".join(members) or "none"}))
    output.report(TABLE, rows)


if __name__ == "__main__":
    main()
