"""The options that benches share: emulated devices, what their shares limit, how long to measure, and a Python with torch."""

from __future__ import annotations

import functools
from typing import Any

import click

from hetero_mtf.commands.options.shared import Shares
from hetero_mtf.devices.records import LIMITS
from tools.bench.comparison.side_by_side import Pace
from tools.results.output import Command, Option, together


def shares_option(command: Command) -> Command:
    """Give a bench the option --shares: (devices,) share of a core of each."""
    text = "Share of a core of each emulated device."
    return click.option("--shares", type=Shares(), default="1.0,0.5", show_default=True, help=text)(command)


def limit_option(command: Command) -> Command:
    """Give a bench the option --limit: what the shares of emulated devices and of the baselines limit."""
    text = "What shares limit: processes as a whole, or their threads that compute only."
    return click.option("--limit", type=click.Choice(LIMITS), default=LIMITS[0], show_default=True, help=text)(command)


def torch_option(command: Command) -> Command:
    """Give a bench the option --torch-python, as the argument `torch_python`; None where it is not given."""
    return click.option("--torch-python", help="Python of an environment with torch; without it PyTorch is left out.")(command)


def rounds_option(rounds: int) -> Option:
    """Return what gives a bench the option --rounds, with this default."""
    text = "Rounds of turns; a figure is their median."
    return click.option("--rounds", type=click.IntRange(1), default=rounds, show_default=True, help=text)


def pace_options(rounds: int, steps: int, budget_s: float | None) -> Option:
    """Return what gives a bench --rounds, --steps and --budget, with these defaults, and its function a `Pace` as the argument `pace`."""
    each, budget = "Steps of each arrangement in one round.", "Seconds that each calibration may take."
    options = (
        rounds_option(rounds),
        click.option("--steps", type=click.IntRange(1), default=steps, show_default=True, help=each),
        click.option("--budget", type=float, default=budget_s, show_default="as calibrate" if budget_s is None else True, help=budget),
    )

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def with_pace(rounds: int, steps: int, budget: float | None, **others: Any) -> Any:
            return command(pace=Pace(rounds, steps, budget), **others)

        return together(*options)(with_pace)

    return decorate
