"""The whole examination, chapter by chapter; what fails is a finding, and the next chapter follows."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable
from typing import Any

from hetero_mtf.doctor import trials
from hetero_mtf.doctor.findings import FAULT, LEFT_OUT, Chapter, Examination, Finding
from hetero_mtf.doctor.machine import gpus_chapter, machine_chapter, versions_chapter
from hetero_mtf.doctor.network import SMALL_BATCH, larger_network, small_network
from hetero_mtf.errors import HeteroError

BUDGET_S, ROUNDS = 15.0, 5
FULL_BUDGET_S, FULL_ROUNDS, FULL_BATCH = 60.0, 7, 32


def examine(open_cluster: Callable[[], Any], full: bool = False, tell: Callable[[str], None] = lambda text: None) -> Examination:
    """Return what was found. TensorFlow has to be loaded.

    Parameters
    ----------
    open_cluster : opens the cluster, as a context manager; called once or twice.
    full : whether all pairs of devices and a larger network are tried too.
    tell : called with what is looked at next.
    """
    begun = time.monotonic()
    tell("versions and GPUs")
    chapters = [versions_chapter(), gpus_chapter()]
    said: tuple[str, ...] = ()
    try:
        with open_cluster() as cluster:
            chapters.append(machine_chapter(cluster.record, cluster.method, cluster.open_ports))
            said = _tried(cluster, open_cluster, full, tell, chapters)
    except HeteroError as fault:
        chapters.append(Chapter("Devices", (Finding("devices", FAULT, fault.reason, fault.remedy),)))
    found = Examination(tuple(chapters), said or ("nothing could be tried here",), time.monotonic() - begun)
    if not found.faults:
        return found
    counted = f"{found.faults} {'fault' if found.faults == 1 else 'faults'} below: this installation does not work here as it should"
    return dataclasses.replace(found, verdict=(counted, *said))


def _tried(
    cluster: Any, open_cluster: Callable[[], Any], full: bool, tell: Callable[[str], None], chapters: list[Chapter]
) -> tuple[str, ...]:
    count = len(cluster.devices)
    model = small_network()
    tell("speeds of devices and links")
    profile = trials.measured_profile(cluster, model, SMALL_BATCH, FULL_BUDGET_S if full else BUDGET_S)
    chapters.append(trials.speeds_chapter(profile))
    fastest = trials.fastest_pair(profile)
    if fastest is None:
        chapters.append(Chapter("Exactness", (Finding("numbers", LEFT_OUT, "there is one device, so nothing is split"),)))
    else:
        tell("numbers of a split network")
        pairs = list(itertools.combinations(range(count), 2)) if full else [fastest]
        chapters.append(trials.exactness_chapter(cluster, pairs))
    tried = trials.tried_plans(profile)
    tell("steps on each device, under plans, and by Keras")
    speed, seconds = trials.speed_chapter(profile, cluster, model, tried, FULL_ROUNDS if full else ROUNDS)
    chapters.append(speed)
    said = trials.verdict(cluster, seconds, tried)
    if full:
        tell("a larger network")
        said += _larger(cluster, chapters)
    tell("memory")
    chapters.append(trials.memory_chapter(open_cluster, model, tried[trials.PLANNED]))
    return said


def _larger(cluster: Any, chapters: list[Chapter]) -> tuple[str, ...]:
    model = larger_network()
    profile = trials.measured_profile(cluster, model, FULL_BATCH, FULL_BUDGET_S)
    tried = trials.tried_plans(profile)
    chapter, seconds = trials.speed_chapter(profile, cluster, model, tried, FULL_ROUNDS, beside_keras=False)
    chapters.append(Chapter("Speed, a larger network", chapter.findings, chapter.table))
    return tuple(f"a larger network: {sentence}" for sentence in trials.verdict(cluster, seconds, tried)[:-1])
