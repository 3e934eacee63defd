"""What the papers' scripts share: options, cases that are computed once, and the tables of steps and claims."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import click
import numpy as np

from hetero_mtf.planning.profile.spread import median_and_spread
from tools.bench.comparison.lost import ideal_s
from tools.bench.comparison.measured import arrangement_text
from tools.bench.comparison.side_by_side import Pace
from tools.results.output import Cases, Command, Output, output_options, together
from tools.results.publication import TableForm, shown, table_row
from tools.results.records import Column, Row

QUICK, FULL = "quick", "full"
ALONE = "alone "
MB = 1e6


class Experiment:
    """The cases of one script: each is computed once and recorded at once, and --resume keeps those of an earlier run.

    Parameters
    ----------
    extent : "quick", at most 5 minutes, or "full", at most 60.
    pace : how long each case measures.
    output : where it writes.
    """

    def __init__(self, extent: str, pace: Pace, output: Output) -> None:
        self.extent, self.pace, self.output = extent, pace, output
        self._cases = Cases(output)
        self._texts: list[str] = []

    @classmethod
    def of(cls, options: Mapping[str, Any], quick: Pace, full: Pace) -> Experiment:
        """Return the experiment that the options of `experiment_options` ask for.

        Parameters
        ----------
        quick, full : the paces of both extents.
        """
        extent, pace = (QUICK, quick) if options["quick"] else (FULL, full)
        pace = dataclasses.replace(pace, rounds=options["rounds"] or pace.rounds)
        return cls(extent, pace, options["output"])

    @property
    def is_quick(self) -> bool:
        """Whether the experiment is cut short."""
        return self.extent == QUICK

    def case(self, name: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return the figures of a case, computed unless an earlier run has them.

        Parameters
        ----------
        name : the case's name, which no other has.
        compute : returns its figures, which JSON can hold.
        """
        key = {"case": name, "extent": self.extent}
        return self._cases.find(**key) or self._cases.measure(name, lambda: {**key, **compute()})

    def publish(self, form: TableForm, rows: Sequence[Row], notes: Sequence[str] = ()) -> None:
        """Write rows to the results, and keep their table for the terminal.

        Parameters
        ----------
        form, rows, notes : as for `Output.publish`.
        """
        self.output.publish(form, rows, notes)
        self._texts.append(f"{form.title}\n\n{shown(form, rows, notes)}")

    def print(self) -> None:
        """Print all tables."""
        click.echo("\n\n".join(self._texts))


@contextlib.contextmanager
def float64() -> Iterator[None]:
    """Let Keras make models in float64 within a context."""
    import keras

    before = keras.config.floatx(), keras.config.dtype_policy()
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    try:
        yield
    finally:
        keras.config.set_floatx(before[0])
        keras.config.set_dtype_policy(before[1])


def differences(model: Any, arranged: Mapping[str, Any], cluster: Any, settings: Mapping[str, Any], batch: int) -> dict[str, float]:
    """Return the largest difference of losses and weights from one device after two steps, relative to each tensor's largest.

    Parameters
    ----------
    model : in float64, a classifier of ten classes.
    arranged : arrangement -> Plan.
    settings : optimizer and loss.
    batch : samples per step, of noise.
    """
    import hetero_mtf as hm
    from tools.conformance.compare import apart

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, batch, *model.input_shape[1:])), rng.integers(0, 10, (2, batch))

    def trained(plan: Any) -> list[np.ndarray]:
        with hm.Trainer(model, plan, cluster, **settings) as trainer:
            losses = [trainer.train_on_batch(*each) for each in zip(x, y)]
            return [np.array(losses), *trainer.to_keras().get_weights()]

    expected = trained(hm.Plan.single(model, 0, cluster, batch))
    return {name: apart(expected, trained(plan)) for name, plan in arranged.items()}


def experiment_options(command: Command) -> Command:
    """Give a script the options --quick, --rounds, --json, --resume and --results."""
    quick = "At most 5 minutes: smaller batches, fewer rounds and steps.  [default: at most 60]"
    options = (
        click.option("--quick", is_flag=True, help=quick),
        click.option("--rounds", type=click.IntRange(1), help="Rounds; a figure is their median.  [default: by extent]"),
        output_options(after="case", resumes=True),
    )
    return together(*options)(command)


STEP_COLUMNS = (
    Column("network", "network"),
    Column("cluster", "cluster"),
    Column("batch", "batch"),
    Column("arrangement", "arrangement"),
    Column("split", "sizes of the first split"),
    Column("predicted_ms", "predicted ms", ".0f"),
    Column("step_ms", "ms/step", ".0f"),
    Column("spread", "spread", ".0%"),
    Column("epoch_s", "s/epoch", ".0f"),
    Column("sent_mb", "MB sent a step", ".2f"),
    Column("rounds", "rounds of messages", ".0f"),
    Column("times", "x fastest device", ".2f"),
    Column("efficiency", "efficiency", ".2f"),
)
STEP_CASE = ("network", "cluster", "arrangement")


def steps_form(name: str, title: str, without: Sequence[str] = ()) -> TableForm:
    """Return the form of a table of steps.

    Parameters
    ----------
    name, title : as in `TableForm`.
    without : keys of `STEP_COLUMNS` to leave out.
    """
    return TableForm(name, title, tuple(column for column in STEP_COLUMNS if column.key not in without), STEP_CASE)


def step_rows(cells: Mapping[str, Any], times: Mapping[str, Mapping[str, Any]], samples: int, alike: Sequence[int] = ()) -> list[Row]:
    """Return a row an arrangement: seconds of a step and of an epoch, and how they compare with the devices alone.

    Parameters
    ----------
    cells : network, cluster and batch.
    times : arrangement -> rounds_s and, where they are known, predicted_s, sent_bytes, rounds and split; "alone 0" and so on are devices.
    samples : of an epoch.
    alike : (devices,) for each device the one that was measured alone in its place; empty where each one was.
    """
    medians = {name: median_and_spread(entry["rounds_s"]) for name, entry in times.items()}
    alone_s = [step_s for name, (step_s, _) in medians.items() if name.startswith(ALONE)]
    alone_s = [medians[f"{ALONE}{device}"][0] for device in alike] or alone_s
    rows = []
    for name, (step_s, spread) in medians.items():
        entry = times[name]
        figures = {
            "predicted_ms": _times(1e3, entry.get("predicted_s")),
            "step_ms": 1e3 * step_s,
            "spread": spread,
            "epoch_s": samples / int(cells["batch"]) * step_s,
            "sent_mb": _times(1 / MB, entry.get("sent_bytes")),
            "rounds": entry.get("rounds"),
        }
        if alone_s:
            figures |= {"times": min(alone_s) / step_s, "efficiency": None if name.startswith(ALONE) else ideal_s(alone_s) / step_s}
        rows.append(table_row({**cells, "arrangement": arrangement_text(name), "split": entry.get("split"), **figures}))
    return rows


def _times(factor: float, value: float | None) -> float | None:
    return None if value is None else factor * value


def claims_form(paper: str, title: str) -> TableForm:
    """Return the form of a paper's table of claims.

    Parameters
    ----------
    paper : name of the script, such as "filters".
    title : of the table.
    """
    columns = (Column("claim", "claim"), Column("measured", "measured here"), Column("why", "why they differ"))
    return TableForm(f"paper_{paper}_claims", title, columns, ("claim",))


def claim(said: str, measured: str, why: str) -> Row:
    """Return a row of a table of claims.

    Parameters
    ----------
    said : what the paper claims, as far as it is known.
    measured : what was measured here.
    why : why they differ, or what the comparison leaves open.
    """
    return table_row({"claim": said, "measured": measured, "why": why})
