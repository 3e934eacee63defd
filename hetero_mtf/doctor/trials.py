"""What runs: a split network against Keras on one device, steps under several plans beside Keras's `fit`, and memory."""

from __future__ import annotations

import itertools
import statistics
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hetero_mtf.calibration.calibrate import calibrate
from hetero_mtf.calibration.calibration_budget import CalibrationWarning
from hetero_mtf.devices.host import available_cores
from hetero_mtf.doctor.findings import DOUBT, FAULT, GOOD, LEFT_OUT, Chapter, Finding
from hetero_mtf.doctor.keras_steps import keras_step_s
from hetero_mtf.doctor.network import exact_network, samples
from hetero_mtf.errors import HeteroError, PlanError
from hetero_mtf.keras_reading.layer_graph import layer_graph
from hetero_mtf.planning.choose import plan
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.report.profile.profile_facts import profile_facts
from hetero_mtf.report.table import Table
from hetero_mtf.runtime.process_memory import peak_bytes
from hetero_mtf.training.timing import time_plans
from hetero_mtf.training.trainer import Trainer
from hetero_mtf.units import bytes_text, seconds_text

STEPS, BATCH = 3, 12
LIMITS = {"float64": 1e-8, "float32": 1e-4}
PAYS = 1.1  # times as fast as the fastest device alone
KERAS_STEPS, KERAS_LIMIT_S = 12, 8.0
PLANNED, BESIDE = "planned", ("filters", "batch")


def exactness_chapter(cluster: Any, pairs: Sequence[tuple[int, int]]) -> Chapter:
    """Return whether a network that is split over two devices trains to the numbers of Keras on one device.

    Parameters
    ----------
    cluster : live cluster.
    pairs : indices of two devices each.
    """
    findings = []
    for (first, second), (dtype, limit) in itertools.product(pairs, LIMITS.items()):
        names = f"{cluster.devices[first].name} and {cluster.devices[second].name}"
        try:
            off = split_difference(cluster, (first, second), dtype)
        except HeteroError as fault:
            findings.append(Finding(f"numbers in {dtype}", FAULT, f"{names}: {fault.reason}", fault.remedy))
            continue
        figures = {"devices": [first, second], "dtype": dtype, "difference": off}
        text = f"{names} give those of Keras on one device to {off:.0e} after {STEPS} steps, allowed is {limit:.0e}"
        remedy = "report it with the file of --json" if off > limit else ""
        findings.append(Finding(f"numbers in {dtype}", GOOD if off <= limit else FAULT, text, remedy, figures))
    return Chapter("Exactness", tuple(findings))


def split_difference(cluster: Any, pair: tuple[int, int], dtype: str) -> float:
    """Return the largest difference of weights from Keras's own after some steps, relative to the largest element of each.

    Parameters
    ----------
    cluster : live cluster.
    pair : indices of the two devices that share the filters, two to one.
    dtype : of the network.
    """
    import keras

    model = exact_network(dtype)
    oracle = keras.models.clone_model(model)
    oracle.set_weights(model.get_weights())
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, dtype=dtype)
    # rate and momentum are exact in every precision: Keras keeps them in float32
    oracle.compile(keras.optimizers.SGD(0.0625, momentum=0.5), loss)
    shares = [0.0] * len(cluster.devices)
    shares[pair[0]], shares[pair[1]] = 2.0, 1.0
    batches = [samples(model, BATCH) for _ in range(STEPS)]
    split = Plan.filters(layer_graph(model), shares, cluster, BATCH)
    with Trainer(model, split, cluster, optimizer=keras.optimizers.SGD(0.0625, momentum=0.5), loss=loss) as trainer:
        for x, y in batches:
            trainer.train_on_batch(x, y)
        weights = trainer.to_keras().get_weights()
    for x, y in batches:
        oracle.train_on_batch(x, y)
    pairs = zip(weights, oracle.get_weights(), strict=True)
    return max(float(np.max(np.abs(ours - theirs)) / max(float(np.max(np.abs(theirs))), 1e-12)) for ours, theirs in pairs)


def tried_plans(profile: Profile) -> dict[str, Plan]:
    """Return the plans to measure: what the planner chose as `PLANNED`, then the best of each of `BESIDE` that is another one.

    One prediction that is a little wrong, or one slow layout, would otherwise decide alone whether a device pays.

    Parameters
    ----------
    profile : of the network on the cluster.
    """
    plans = {PLANNED: plan(profile)}
    for strategy in BESIDE:
        try:
            other = plan(profile, strategy=strategy)
        except PlanError:
            continue
        if all(known.built_from != other.built_from for known in plans.values()):
            plans[strategy] = other
    return plans


def speed_chapter(
    profile: Profile, cluster: Any, model: Any, tried: Mapping[str, Plan], rounds: int, beside_keras: bool = True
) -> tuple[Chapter, dict[str, float]]:
    """Return how long steps take on each device alone, under each plan, and by Keras's `fit`; and seconds by name.

    Parameters
    ----------
    profile : of the model on the cluster.
    tried : plans, see `tried_plans`.
    rounds : a figure is their median.
    beside_keras : whether Keras trains the network of `small_network` too, on the first device.
    """
    import keras

    batch, names, graph = profile.batch_size, [device.name for device in cluster.devices], layer_graph(model)
    plans = {f"{name} alone": Plan.single(graph, at, cluster, batch) for at, name in enumerate(names)}
    plans |= tried
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    x, y = samples(model, batch)
    optimizer = keras.optimizers.SGD(0.001, momentum=0.9)
    times = time_plans(model, plans, cluster, x, y, optimizer=optimizer, loss=loss, rounds=rounds, steps=2)
    seconds = {name: statistics.median(each) for name, each in times.items()}
    facts = {device.device: device.step_s for device in profile_facts(profile).devices}
    predicted = {f"{name} alone": facts.get(name) for name in names}
    predicted |= {name: each.predicted.step_s if each.predicted is not None else None for name, each in tried.items()}
    titles = {**{name: name for name in plans}, PLANNED: f"{PLANNED}: {tried[PLANNED].strategy}"}
    rows = [_timed_row(titles[name], predicted[name], seconds[name]) for name in plans]
    findings = [_planned_finding(tried[PLANNED], seconds[PLANNED])]
    if beside_keras and cluster.devices[0].share == 1.0:
        for jit in (False, True):
            took_s = _keras_s(cluster, batch, jit)
            name = f"Keras fit{' with jit_compile' if jit else ''}, {names[0]}"
            rows.append((name, "-", "failed" if took_s is None else seconds_text(took_s), "-"))
            seconds[name] = float("nan") if took_s is None else took_s
        findings.append(_keras_finding(names[0], seconds))
    table = Table(("one training step", "predicted", "measured", "error"), tuple(rows))
    return Chapter("Speed", tuple(findings), table), seconds


def _timed_row(name: str, predicted_s: float | None, measured_s: float) -> tuple[str, ...]:
    if predicted_s is None:
        return name, "-", seconds_text(measured_s), "-"
    return name, seconds_text(predicted_s), seconds_text(measured_s), f"{predicted_s / measured_s - 1:+.0%}"


def _planned_finding(automatic: Plan, measured_s: float) -> Finding:
    predicted_s = automatic.predicted.step_s if automatic.predicted is not None else measured_s
    off = predicted_s / measured_s - 1
    text = f"{automatic.strategy}, predicted {seconds_text(predicted_s)}, measured {seconds_text(measured_s)} ({off:+.0%})"
    figures = {"strategy": automatic.strategy, "predicted_s": predicted_s, "measured_s": measured_s}
    remedy = "measure again on a quiet machine" if abs(off) > 0.25 else ""
    return Finding("plan", DOUBT if abs(off) > 0.25 else GOOD, text, remedy, figures)


def _keras_s(cluster: Any, batch: int, jit: bool) -> float | None:
    device = cluster.devices[0]
    core = available_cores()[0] if cluster.process_ids() else None
    name = "/CPU:0" if device.kind == "CPU" else "/GPU:" + device.tf_device.rsplit(":", 1)[1]
    return keras_step_s(name, core, jit, batch, KERAS_STEPS, KERAS_LIMIT_S)


def _keras_finding(device: str, seconds: dict[str, float]) -> Finding:
    ours_s, plain_s = seconds[f"{device} alone"], seconds[f"Keras fit, {device}"]
    figures = {name: value for name, value in seconds.items() if value == value}
    if plain_s != plain_s:
        return Finding("Keras beside it", LEFT_OUT, "Keras's own fit failed or took too long here", figures=figures)
    part = ours_s / plain_s
    text = f"a step on {device} takes {part:.2f} times as long as by Keras's fit"
    return Finding("Keras beside it", GOOD if part < 1.5 else DOUBT, text, figures=figures)


def measured_profile(cluster: Any, model: Any, batch: int, budget_s: float | None) -> Profile:
    """Return the profile of a network on a cluster; see `calibrate`. A budget that is short is meant so, and spreads are told of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        return calibrate(cluster, model, batch, budget_s=budget_s, verbose=0)


def speeds_chapter(profile: Profile) -> Chapter:
    """Return the relative speeds of devices and the links between them, as they were measured."""
    facts = profile_facts(profile)
    rows = [
        (d.device, "-" if d.samples_per_s is None else f"{d.samples_per_s:.3g}", f"{d.relative_speed or 0:.2f}", f"{d.spread:.0%}")
        for d in facts.devices
    ]
    links = [
        f"{link.source} to {link.destination} {bytes_text(link.bandwidth_bytes_per_s)}/s, latency {seconds_text(link.latency_s)}"
        for link in facts.links
    ]
    worst = max((device.spread for device in facts.devices), default=0.0)
    state = DOUBT if worst > 0.5 else GOOD
    figures = {
        "samples_per_s": {d.device: d.samples_per_s for d in facts.devices},
        "relative_speed": {d.device: d.relative_speed for d in facts.devices},
        "links": [
            {"from": link.source, "to": link.destination, "bytes_per_s": link.bandwidth_bytes_per_s, "latency_s": link.latency_s}
            for link in facts.links
        ],
    }
    text = f"measured with a spread of {worst:.0%}"
    findings = [Finding("speeds", state, text, "nothing else should run meanwhile" if state == DOUBT else "", figures)]
    findings += [Finding("link", GOOD, text) for text in links]
    return Chapter("Measured", tuple(findings), Table(("device", "samples/s", "relative speed", "spread"), tuple(rows)))


def memory_chapter(open_cluster: Callable[[], Any], model: Any, automatic: Plan) -> Chapter:
    """Return predicted and measured peak memory of each device under the plan, where it can be read.

    Parameters
    ----------
    open_cluster : opens a fresh cluster, as memory that was once taken is not given back.
    """
    import keras

    predicted = {part.device: part.memory_bytes for part in automatic.predicted.parts} if automatic.predicted is not None else {}
    with open_cluster() as cluster:
        before = _peaks(cluster)
        if before is None or not predicted:
            return Chapter("Memory", (Finding("memory", LEFT_OUT, "it can be read of emulated devices and of GPUs of this process only"),))
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        x, y = samples(model, automatic.batch_size)
        with Trainer(model, automatic, cluster, optimizer=keras.optimizers.SGD(0.001, momentum=0.9), loss=loss) as trainer:
            for _ in range(4):
                trainer.train_on_batch(x, y)
            trainer.wait()
            after = _peaks(cluster) or before
    findings = []
    for name, guess in predicted.items():
        if name not in after:
            continue
        taken = after[name] - before[name]
        off = guess / taken - 1 if taken > 0 else float("inf")
        figures = {"predicted_bytes": guess, "measured_bytes": taken}
        text = f"predicted {bytes_text(guess)}, measured {bytes_text(max(taken, 0))}"
        near = abs(off) <= 0.2 or abs(guess - taken) < 100e6
        findings.append(Finding(f"memory of {name}", GOOD if near else DOUBT, text, figures=figures))
    return Chapter("Memory", tuple(findings))


def _peaks(cluster: Any) -> dict[str, int] | None:
    """Return device -> most bytes held so far; None where that cannot be read."""
    processes = cluster.process_ids()
    if processes:
        return {device.name: peak_bytes(process) for device, process in zip(cluster.devices, processes)}
    gpus = [device for device in cluster.devices if device.kind == "GPU" and device.tf_device.startswith("/device:GPU")]
    if not gpus:
        return None
    import tensorflow as tf

    return {gpu.name: int(tf.config.experimental.get_memory_info(gpu.tf_device.removeprefix("/device:"))["peak"]) for gpu in gpus}


def verdict(cluster: Any, seconds: Mapping[str, float], tried: Mapping[str, Plan]) -> tuple[str, ...]:
    """Return whether the second device pays here, for this network.

    Parameters
    ----------
    cluster : of the devices.
    seconds : of a step, by name; see `speed_chapter`.
    tried : plans that were measured, the planner's as `PLANNED`.
    """
    alone_s = {device.name: seconds[f"{device.name} alone"] for device in cluster.devices}
    fastest = min(alone_s, key=lambda name: alone_s[name])
    if len(alone_s) < 2:
        return (f"there is one device, {fastest}; a second one is needed before anything can be gained",)
    best = min(tried, key=lambda name: seconds[name])
    gain = alone_s[fastest] / seconds[best]
    text = f"{tried[best].strategy} is {gain:.2f} times as fast as {fastest} alone"
    said = []
    if gain >= PAYS:
        reached = 1 / sum(1 / value for value in alone_s.values()) / seconds[best]
        said += [f"a second device pays: {text}, {reached:.2f} of the ideal"]
    else:
        said += [f"a second device does not pay for this network: at best {text}"]
    if seconds[PLANNED] > PAYS * min(seconds[best], alone_s[fastest]):
        behind = seconds[PLANNED] / min(seconds[best], alone_s[fastest])
        said += [f"the planner chose {tried[PLANNED].strategy}, which takes {behind:.2f} times as long: calibrate for longer, or refine"]
    return (*said, "larger networks gain more, small ones less; hetero-mtf plan says it for yours")


def fastest_pair(profile: Profile) -> tuple[int, int] | None:
    """Return the indices of the two fastest devices; None where there are fewer."""
    speeds = [device.samples_per_s or 0.0 for device in profile_facts(profile).devices]
    order = sorted(range(len(speeds)), key=lambda at: -speeds[at])
    return (order[0], order[1]) if len(order) > 1 else None
