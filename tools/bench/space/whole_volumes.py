"""Claim: sliding windows on two unequal devices give MONAI's results, in less time than on the fast device alone.

Five settings of windows are predicted in float64 by two devices of this process and by MONAI, with the same weights. MONAI computes the
Gaussian in float32; with the map in float64 that is used here the results have to be equal. Then a 3-D U-Net predicts a volume on emulated
devices, by all of them and by each alone, which take turns. The ideal is the sum of what they reach alone.

    python -m tools.bench.space.whole_volumes [--torch-python ~/torch-env/bin/python] [--shares 1.0,0.5] [--rounds 5]
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import click
import numpy as np

from hetero_mtf.errors import HeteroError
from hetero_mtf.inference.windowing import Windowing
from hetero_mtf.planning.profile.spread import median_and_spread
from tools.bench.comparison.options import rounds_option, shares_option, torch_option
from tools.results.output import Cases, Output, output_options
from tools.results.publication import TableForm, shown, table_row
from tools.results.records import Column, Row

CLOSE, FLOAT32 = 1e-8, 1e-6
EXTENT, WINDOW, OVERLAP, FILTERS = 96, 32, 0.5, (16, 32, 64)
DEFAULTS = {"roi_size": None, "overlap": 0.25, "mode": "constant", "sigma_scale": 0.125, "padding_mode": "constant", "cval": 0.0}
NO_MONAI = "The comparison with MONAI was left out: name a Python with torch and monai by `--torch-python`."


@dataclasses.dataclass(frozen=True)
class Setting:
    """One way of laying windows over some volumes.

    Parameters
    ----------
    title : what tables call it.
    shape : (samples, *extents) of the volumes.
    options : of `hm.SlidingWindow` and of MONAI's function alike.
    """

    title: str
    shape: tuple[int, ...]
    options: dict[str, Any]


SETTINGS = (
    Setting("3-D, means", (1, 37, 30, 41), {"roi_size": (16, 16, 16), "overlap": 0.25}),
    Setting(
        "3-D, Gaussian, batches over two volumes",
        (2, 33, 26, 45),
        {"roi_size": (16, 12, 20), "overlap": 0.5, "mode": "gaussian", "sw_batch_size": 4},
    ),
    Setting(
        "3-D, Gaussian, thinner than a window",
        (1, 11, 30, 24),
        {"roi_size": (16, 16, 16), "overlap": 0.5, "mode": "gaussian", "padding_mode": "reflect"},
    ),
    Setting(
        "2-D, Gaussian, options of each dimension",
        (3, 61, 50),
        {"roi_size": (24, 16), "overlap": (0.6, 0.3), "mode": "gaussian", "sigma_scale": (0.25, 0.1)},
    ),
    Setting("3-D, smaller than a window", (2, 9, 10, 7), {"roi_size": (16, 12, 14), "cval": 1.5, "sw_batch_size": 2}),
)
EQUAL = TableForm(
    "sliding_windows",
    "Sliding windows on two devices beside MONAI's, in float64",
    (
        Column("setting", "setting"),
        Column("windows", "windows"),
        Column("difference", "largest difference, same map", ".0e", "at_most"),
        Column("own_difference", "MONAI's map in float32", ".0e", "at_most"),
    ),
    case=("setting",),
)
SPEED = TableForm(
    "whole_volumes",
    "A volume by sliding windows on unequal devices",
    (
        Column("cluster", "cluster"),
        Column("arrangement", "arrangement"),
        Column("windows", "windows of each device"),
        Column("seconds", "s/volume", ".2f"),
        Column("spread", "spread", ".0%"),
        Column("times_fast", "x fastest device", ".2f"),
        Column("efficiency", "efficiency", ".2f"),
    ),
    case=("cluster",),
)


def network(dimensions: int) -> Any:
    """Return two convolutions with instance norm between, whose outputs depend on where a window lies.

    Parameters
    ----------
    dimensions : spatial ones.
    """
    import keras

    layer = {2: keras.layers.Conv2D, 3: keras.layers.Conv3D}[dimensions]
    image = keras.Input((*(None,) * dimensions, 2))
    x = keras.layers.GroupNormalization(-1, epsilon=1e-5, name="norm")(layer(3, 3, padding="same", name="first")(image))
    return keras.Model(image, layer(2, 3, padding="same", name="second")(keras.layers.LeakyReLU(0.01)(x)))


def compared(setting: Setting, torch_python: str) -> dict[str, Any]:
    """Return the differences of a setting's results from MONAI's.

    Parameters
    ----------
    torch_python : a Python with torch and monai.
    """
    import keras

    import hetero_mtf as hm
    from tools.papers.experiment import float64

    dimensions = len(setting.shape) - 1
    rng = np.random.default_rng(7)
    volumes = rng.normal(size=(*setting.shape, 2))
    with float64(), hm.Cluster.local(["cpu:0", "cpu:0"]) as cluster:
        keras.utils.set_random_seed(3)
        model = network(dimensions)
        norm = model.get_layer("norm")
        norm.set_weights([rng.uniform(0.5, 2, weight.shape) for weight in norm.get_weights()])
        with hm.SlidingWindow(model, cluster=cluster, **setting.options) as windows:
            got = windows.predict(volumes)
        (kernel1, bias1), (kernel2, bias2) = (model.get_layer(name).get_weights() for name in ("first", "second"))
        scale, shift = norm.get_weights()
    laid = Windowing.of(dimensions, **{**DEFAULTS, **{name: value for name, value in setting.options.items() if name in DEFAULTS}})
    importance = laid.importance(setting.options["roi_size"], np.float64)
    weights = {"kernel1": kernel1, "bias1": bias1, "kernel2": kernel2, "bias2": bias2, "scale": scale, "shift": shift}
    options = {"sw_batch_size": 1, **DEFAULTS, **setting.options}
    with tempfile.TemporaryDirectory() as folder:
        source, target = (os.path.join(folder, f"{name}.npz") for name in ("case", "result"))
        np.savez(source, volumes=volumes, importance=importance[..., 0], options=json.dumps(options), **weights)
        script = pathlib.Path(__file__).with_name("monai_inference.py")
        ended = subprocess.run([os.path.expanduser(torch_python), str(script), source, target], capture_output=True, text=True)
        if ended.returncode:
            raise HeteroError(f"MONAI's windows failed ({ended.stderr.strip().splitlines()[-1]})", "install torch and monai there")
        with np.load(target) as result:
            differences = {name: float(np.abs(result[name] - got).max()) for name in ("given", "own")}
    return {"setting": setting.title, "windows": len(laid.places(setting.shape[1:])) * setting.shape[0], **differences}


def equal_row(case: dict[str, Any]) -> Row:
    """Return the row of a setting."""
    cells = {"setting": case["setting"], "windows": case["windows"], "difference": case["given"], "own_difference": case["own"]}
    return table_row(cells, {"difference": CLOSE, "own_difference": FLOAT32})


def timed(shares: Sequence[float], rounds: int) -> dict[str, Any]:
    """Return the seconds of a volume by all devices and by each alone, and what each device did.

    Parameters
    ----------
    shares : (devices,) of a core.
    rounds : turns.
    """
    import hetero_mtf as hm
    from models.unet3d import unet3d

    model = unet3d(None, 1, 2, FILTERS)
    volume = np.random.default_rng(1).normal(size=(1, EXTENT, EXTENT, EXTENT, 1)).astype("float32")
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(hm.Cluster.emulate(shares))
        chosen = {"all devices": None, **{f"{device.name} alone": [at] for at, device in enumerate(cluster.devices)}}
        options: dict[str, Any] = {"overlap": OVERLAP, "mode": "gaussian"}
        arranged = {
            name: stack.enter_context(hm.SlidingWindow(model, WINDOW, cluster, devices=devices, **options))
            for name, devices in chosen.items()
        }
        seconds: dict[str, list[float]] = {name: [] for name in arranged}
        for turn in range(rounds + 1):
            for name, windows in arranged.items():
                start_s = time.perf_counter()
                windows.predict(volume)
                if turn:  # the first one builds the graphs
                    seconds[name].append(time.perf_counter() - start_s)
        taken = {name: list(windows.taken) for name, windows in arranged.items()}
    return {"shares": list(shares), "seconds": seconds, "taken": taken}


def speed_rows(case: dict[str, Any]) -> list[Row]:
    """Return a row for all devices, and for each alone."""
    medians = {name: statistics.median(values) for name, values in case["seconds"].items()}
    alone = {name: seconds for name, seconds in medians.items() if name.endswith("alone")}
    fast_s, ideal_s = min(alone.values()), 1 / sum(1 / seconds for seconds in alone.values())
    cluster = ",".join(f"{share:g}" for share in case["shares"])
    table = []
    for name, values in case["seconds"].items():
        median_s, spread = median_and_spread(values)
        cells = {"cluster": cluster, "arrangement": name, "windows": [float(count) for count in case["taken"][name]]}
        figures = {"seconds": median_s, "spread": spread, "times_fast": fast_s / median_s}
        table.append(table_row({**cells, **figures, "efficiency": None if name in alone else ideal_s / median_s}))
    return table


@click.command(help=__doc__)
@torch_option
@shares_option
@rounds_option(5)
@output_options(after="setting", resumes=True)
def main(torch_python: str | None, shares: tuple[float, ...], rounds: int, output: Output) -> None:
    """Compare with MONAI, measure, and print both tables."""
    cases, equal = Cases(output), []
    for setting in SETTINGS if torch_python is not None else ():
        measure = functools.partial(compared, setting, torch_python)
        equal.append(equal_row(cases.find(setting=setting.title) or cases.measure(setting.title, measure)))
    if equal:
        output.report(EQUAL, equal)
    case = cases.find(shares=list(shares)) or cases.measure(f"a volume on {shares}", functools.partial(timed, shares, rounds))
    network_text = f"A 3-D U-Net of {', '.join(map(str, FILTERS))} filters"
    extent = f"{network_text}, a volume of {EXTENT}^3, windows of {WINDOW}^3, overlap {OVERLAP:g}, Gaussian."
    output.publish(SPEED, speed_rows(case), [extent])
    click.echo(shown(SPEED, speed_rows(case), [extent] if equal else [extent, NO_MONAI]))


if __name__ == "__main__":
    main()
