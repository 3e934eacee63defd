"""Logs of a training's epochs in a folder: epochs.csv, epochs.jsonl, and event files of TensorBoard; imported after TensorFlow is."""

from __future__ import annotations

import contextlib
import csv
import importlib.util
import io
import json
import os
import pathlib
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click
import keras
import numpy as np

from hetero_mtf.data.source import BatchSource
from hetero_mtf.errors import HeteroError
from hetero_mtf.json_file import replace_file

CSV, JSON_LINES = "epochs.csv", "epochs.jsonl"
_OTHER = "choose another --log-dir"


class EpochLogs:
    """The loggers of a folder as callbacks, closed when the block ends, however it ends.

    Parameters
    ----------
    folder : made where it is missing.
    source : what is trained on.
    samples : samples in an epoch of it.
    resumed_epoch : the epoch that training goes on in, from 0; rows of it and later ones are replaced. None for a new training, which
        replaces all.
    names : names in the logs of an epoch, those of validation included.

    Raises
    ------
    HeteroError
        If the folder cannot be written to, or what it holds is no log, or one of other metrics.
    """

    def __init__(self, folder: str, source: BatchSource, samples: int, resumed_epoch: int | None, names: Sequence[str]) -> None:
        place = pathlib.Path(folder)
        try:
            place.mkdir(parents=True, exist_ok=True)
            if resumed_epoch is not None:
                _trim_csv(place / CSV, resumed_epoch, names)
            _trim_json_lines(place / JSON_LINES, resumed_epoch or 0)
        except OSError as fault:
            raise HeteroError(f"cannot write the logs in {folder}: {fault.strerror or fault}", _OTHER) from fault
        self.callbacks: list[keras.callbacks.Callback] = [
            _CsvRows(str(place / CSV), append=resumed_epoch is not None),
            _JsonLines(place / JSON_LINES, source, samples),
        ]
        if importlib.util.find_spec("tensorboard") is None:
            missing = "tensorboard is not installed, so there are no event files for it"
            click.echo(f"hetero-mtf: warning: {missing}; {CSV} and {JSON_LINES} are written, install tensorboard for the rest", err=True)
        else:
            self.callbacks.append(keras.callbacks.TensorBoard(log_dir=folder, write_graph=False))

    def __enter__(self) -> EpochLogs:
        return self

    def __exit__(self, *fault: object) -> None:
        for callback in self.callbacks:
            callback.on_train_end()  # closes files; closing twice is harmless


@contextlib.contextmanager
def _warned(path: str | os.PathLike[str]) -> Iterator[None]:
    """Say that a row cannot be written, rather than end the training for it."""
    try:
        yield
    except OSError as fault:
        wrong = f"a row of {os.fspath(path)} cannot be written: {fault.strerror or fault}"
        click.echo(f"hetero-mtf: warning: {wrong}; training goes on, free some space", err=True)


class _CsvRows(keras.callbacks.CSVLogger):
    """Keras's CSVLogger, which leaves out the rest of an epoch that was over when its state was saved, and so has no loss."""

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        if "loss" in (logs or {}):
            with _warned(self.filename):
                super().on_epoch_end(epoch, logs)

    def on_train_end(self, logs: Any = None) -> None:
        with contextlib.suppress(OSError):  # of what could not be written, which was said
            super().on_train_end(logs)


class _JsonLines(keras.callbacks.Callback):
    """Appends a JSON object an epoch: its number from 0, samples, seconds of its steps, samples/s, learning rate, and all metrics."""

    def __init__(self, path: pathlib.Path, source: BatchSource, samples: int) -> None:
        super().__init__()
        self._path, self._source, self._samples = path, source, samples
        self._first, self._begin_s, self._end_s = 0, 0.0, 0.0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._first = self._source.state()["sample"]
        self._begin_s = self._end_s = time.perf_counter()
        self._trained = 0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._end_s = time.perf_counter()
        self._trained = self._source.state()["sample"] - self._first

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        if "loss" not in (logs or {}):
            return
        spent_s = self._end_s - self._begin_s
        rate = float(np.asarray(self.model.optimizer.learning_rate))
        row = {"epoch": epoch, "samples": self._trained, "seconds": spent_s, "samples_per_s": self._trained / spent_s if spent_s else 0.0}
        values = {name: float(value) for name, value in (logs or {}).items()}
        finite = {name: value if np.isfinite(value) else None for name, value in {**row, "learning_rate": rate, **values}.items()}
        with _warned(self._path), open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(finite) + "\n")


def _trim_csv(path: pathlib.Path, epoch: int, names: Sequence[str]) -> None:
    """Remove the rows of an epoch and of later ones, in a file that must have the columns of this training."""
    if not path.exists():
        return
    rows = list(csv.reader(io.StringIO(_text(path))))
    if not rows or not rows[0]:
        return _write(path, "")
    columns, validated = set(rows[0]) - {"epoch"}, {f"val_{name}" for name in names}
    if columns not in (set(names), {*names, *validated}):
        there, wanted = ", ".join(sorted(columns)), ", ".join(sorted(names))
        raise HeteroError(f"{path} has the columns {there} and this training {wanted}", f"give the metrics of the first run, or {_OTHER}")
    at = rows[0].index("epoch") if "epoch" in rows[0] else -1
    if at < 0 or not all(len(row) > at and row[at].isdigit() for row in rows[1:]):
        raise HeteroError(f"{path} is no log of the epochs of a training", _OTHER)
    text = io.StringIO()
    csv.writer(text).writerows([rows[0], *(row for row in rows[1:] if int(row[at]) < epoch)])
    return _write(path, text.getvalue())


def _trim_json_lines(path: pathlib.Path, epoch: int) -> None:
    """Remove the rows of an epoch and of later ones, so that of a new training nothing is left of an earlier one."""
    if not path.exists() or not epoch:
        return _write(path, "")
    lines = _text(path).splitlines(keepends=True)
    try:
        kept = [line for line in lines if json.loads(line)["epoch"] < epoch]
    except (ValueError, TypeError, KeyError, RecursionError) as fault:
        raise HeteroError(f"{path} is no log of the epochs of a training", _OTHER) from fault
    return _write(path, "".join(kept))


def _text(path: pathlib.Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as fault:
        raise HeteroError(f"{path} is no log of the epochs of a training", _OTHER) from fault


def _write(path: pathlib.Path, text: str) -> None:
    with replace_file(path) as file:
        file.write(text.encode())
