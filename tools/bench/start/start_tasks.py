"""What `time_to_train` trains: the compared networks, that of `make train`, and networks that are drawn by seed."""

from __future__ import annotations

from tools.bench.baselines.tasks import COMPARED, TITLES, compared_task
from tools.bench.comparison.side_by_side import TrainingTask

DIGITS, DIGITS_BATCH = "digits", 64
DRAWN = "drawn-"  # before the seed, in hexadecimal digits


def is_network(name: str) -> bool:
    """Return whether a name is one of a network here."""
    return name in COMPARED or name == DIGITS or (name.startswith(DRAWN) and name != DRAWN)


def title_of(name: str) -> str:
    """Return what tables call a network.

    Parameters
    ----------
    name : one of a network.
    """
    return {**TITLES, DIGITS: "digits of `make train`"}.get(name, name.replace("-", " "))


def task_of(name: str) -> TrainingTask:
    """Return what is trained of a network, with its batch.

    Parameters
    ----------
    name : one of a network.
    """
    if name == DIGITS:
        from models.digits import wide_digits

        return TrainingTask(wide_digits(), DIGITS_BATCH)
    if name.startswith(DRAWN):
        from tools.bench.comparison.drawn import drawn_network

        network = drawn_network(int(name.removeprefix(DRAWN), 16))
        return TrainingTask(network.build(), network.batch)
    return compared_task(name)
