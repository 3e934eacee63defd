"""Recipes of examples of time series."""

from __future__ import annotations

import pathlib
import zipfile
from typing import Any

import numpy as np

from tools.keras_io.recipe import Recipe, files, written_csv

_CLIMATE = ("p (mbar)", "T (degC)", "Tpot (K)", "Tdew (degC)", "rh (%)", "VPmax (mbar)", "VPact (mbar)", "VPdef (mbar)")
_CLIMATE += ("sh (g/kg)", "H2OC (mmol/mol)", "rho (g/m**3)", "wv (m/s)", "max. wv (m/s)", "wd (deg)")


def _engine_noise() -> None:
    def loadtxt(name: str, **options: Any) -> Any:
        count = 160 if "TRAIN" in name else 64
        rng = np.random.default_rng(count)
        labels = np.where(np.arange(count) % 2, 1.0, -1.0)
        series = np.sin(np.arange(500) * (0.11 + 0.02 * labels[:, None])) + rng.normal(size=(count, 500))
        return np.concatenate([labels[:, None], series], axis=1)

    np.loadtxt = loadtxt


def _climate() -> None:
    def write(folder: pathlib.Path) -> pathlib.Path:
        rng, count = np.random.default_rng(0), 7000
        hours = np.arange(count) / 6
        columns: dict[str, Any] = {"Date Time": [f"{1 + i // 144:02}.01.2009 {i // 6 % 24:02}:{i % 6}0:00" for i in range(count)]}
        for i, name in enumerate(_CLIMATE):
            columns[name] = np.round(10 + i + 3 * np.sin(2 * np.pi * hours / 24 + i) + rng.normal(0, 0.5, count), 3)
        csv, archive = written_csv(folder / "jena_climate_2009_2016.csv", columns), folder / "jena.zip"
        with zipfile.ZipFile(archive, "w") as file:
            file.write(csv, csv.name)
        return archive

    files(write)


def _daily_noise() -> None:
    import pandas

    def read_csv(address: str, **options: Any) -> Any:
        count, jumps = 1200, "jumpsup" in address
        rng = np.random.default_rng(int(jumps))
        values = 20 + 50 * (np.arange(count) % 288 > 144) + rng.normal(0, 2, count) + 60 * (jumps and np.arange(count) // 20 == 40)
        times = pandas.date_range("2014-04-01", periods=count, freq="5min", name="timestamp")
        return pandas.DataFrame({"value": values}, index=times)

    pandas.read_csv = read_csv


RECIPES = (
    Recipe(
        "timeseries_classification_from_scratch",
        "timeseries/timeseries_classification_from_scratch.py",
        prepare=_engine_noise,
    ),
    Recipe(
        "timeseries_weather_forecasting",
        "timeseries/timeseries_weather_forecasting.py",
        (("data.corr()", "data.corr(numeric_only=True)"), ('"model_checkpoint.h5"', '"model_checkpoint.weights.h5"')),
        _climate,
    ),
    Recipe("timeseries_anomaly_detection", "timeseries/timeseries_anomaly_detection.py", prepare=_daily_noise),
)
