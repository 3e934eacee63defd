"""The facts of a profile as sections: tables for the terminal and the page."""

from __future__ import annotations

from collections.abc import Sequence

from hetero_mtf.report.profile.corrections import correction_sections
from hetero_mtf.report.profile.profile_facts import DeviceSpeed, LinkSpeed, ProfileFacts
from hetero_mtf.report.section import Bar, Bars, Section
from hetero_mtf.report.table import NOTHING, Table
from hetero_mtf.report.verdict import relative_text
from hetero_mtf.units import bandwidth_text, list_text, seconds_text

LINKS_UP_TO = 12  # rows; of more links the slowest are shown
_HEADING = 14  # characters of a layer's name in a heading


def profile_sections(
    facts: ProfileFacts, warnings: Sequence[str] = (), what_if: Sequence[str] = (), age: str = ""
) -> tuple[Section, ...]:
    """Return the sections of a profile, its verdict first.

    Parameters
    ----------
    warnings : warnings of the profile (`validity.profile_warnings`).
    what_if : hypothetical changes, for a profile that was changed.
    age : how long ago it was measured (`validity.age_text`); "" where that does not matter.
    """
    sections = [Section("Verdict", (_verdict(facts),), leads=True), _heading(facts, warnings, what_if, age), _devices(facts)]
    sections += [_links(facts.links)] if facts.links else []
    sections += [_shares(facts)] if facts.shares and len(facts.devices) > 1 else []
    sections += correction_sections(facts.corrections) if facts.corrections is not None else []
    return (*sections, *([_gain(facts)] if len(facts.devices) > 1 else []))


def _verdict(facts: ProfileFacts) -> str:
    speeds = [device for device in facts.devices if device.relative_speed is not None]
    if not speeds:
        return "nothing that was measured takes time, so the devices cannot be compared"
    fastest = max(speeds, key=lambda device: device.relative_speed or 0.0)
    slower = [f"{d.device} has {d.relative_speed:.2f} of its speed" for d in speeds if d is not fastest]
    text = f"{fastest.device} is fastest with {_number(fastest.samples_per_s)} samples/s"
    text += f", {list_text(slower, 4)}" if slower else ""
    if facts.gain is None:
        return text
    best = f"{relative_text(facts.gain.times_single)} the best single device, {facts.gain.of_ideal:.2f} of ideal"
    return f"{text}; a plan is predicted to be {best}"


def _heading(facts: ProfileFacts, warnings: Sequence[str], what_if: Sequence[str], age: str) -> Section:
    measured_at = f"{facts.measured_at}, {age}" if age else facts.measured_at
    lines = [
        f"network {facts.network} of {facts.layers} layers in {facts.dtype}, batches of {facts.batch_size} samples, {facts.optimizer}",
        f"{facts.curves} curves and {len(facts.links)} links of {len(facts.devices)} devices, measured at {measured_at}",
    ]
    return Section("Profile", (*lines, *(f"what-if, not measured: {clause}" for clause in what_if), *warnings))


def _devices(facts: ProfileFacts) -> Section:
    layers = facts.devices[0].layers
    told = ["samples/s are of the network on that device alone, by its measured layers; relative speed 1 is the fastest device"]
    if layers:
        names = ", ".join(layer.layer for layer in layers)
        told.append(f"GFLOP/s: forward and backward operations / measured seconds of the heaviest layers, {names}")
    told.append("spread: inter-quartile range / median, in the median and at worst over the measurements; a dash where measured once")
    headings = ["device", "samples/s", "relative speed", *(f"{_short(layer.layer)} GFLOP/s" for layer in layers), "spread", "worst spread"]
    rows = [
        (
            device.device,
            _number(device.samples_per_s),
            _fixed(device.relative_speed),
            *(_number(layer.flops_per_s, 1e9) for layer in device.layers),
            _spread(device.spread),
            _spread(device.worst_spread),
        )
        for device in facts.devices
    ]
    return Section("Devices", tuple(told), Table(tuple(headings), tuple(rows)), _speed_bars(facts.devices))


def _speed_bars(devices: Sequence[DeviceSpeed]) -> Bars | None:
    """Return a bar a device with its samples/s."""
    rates = [device.samples_per_s or 0.0 for device in devices]
    if not any(rates):
        return None
    none = [""] * (len(devices) + 1)
    bars = []
    for at, (device, rate) in enumerate(zip(devices, rates)):
        lengths, texts = [0.0] * len(none), list(none)
        lengths[at], texts[at] = rate, f"{_number(rate)} samples/s"
        bars.append(Bar(device.device, tuple(lengths), tuple(texts)))
    return Bars((*(device.device for device in devices), ""), tuple(bars), max(rates))


def _links(links: Sequence[LinkSpeed]) -> Section:
    shown = sorted(links, key=lambda link: link.bandwidth_bytes_per_s)
    both = {(link.source, link.destination, link.bandwidth_bytes_per_s, link.latency_s, link.spread) for link in links}
    rows = []
    for link in shown:
        figures = link.bandwidth_bytes_per_s, link.latency_s, link.spread
        symmetric = (link.destination, link.source, *figures) in both
        if symmetric and link.source > link.destination:
            continue
        name = f"{link.source} and {link.destination}" if symmetric else f"{link.source} to {link.destination}"
        rows.append((name, bandwidth_text(figures[0]), seconds_text(figures[1]), _spread(figures[2])))
    sentences: tuple[str, ...] = ()
    if len(rows) > LINKS_UP_TO:
        sentences = (f"of {len(rows)} links the {LINKS_UP_TO} with the least bandwidth are shown",)
    return Section("Links", sentences, Table(("link between", "bandwidth", "latency", "spread"), tuple(rows[:LINKS_UP_TO])))


def _shares(facts: ProfileFacts) -> Section:
    told = "integer sizes in proportion to the relative speeds; a plan also weighs communication, and how the speed depends on the size"
    rows = tuple((share.of, *map(str, share.sizes)) for share in facts.shares)
    return Section("Shares that these speeds suggest", (told,), Table(("share of", *(d.device for d in facts.devices)), rows))


def _gain(facts: ProfileFacts) -> Section:
    gain, title = facts.gain, "What a plan would gain"
    if gain is None:
        return Section(title, (f"not known: {facts.no_gain}",))
    rows = [
        (f"planned ({gain.strategy})", seconds_text(gain.step_s), "1.00"),
        (f"best single device ({gain.single})", seconds_text(gain.single_s), f"{gain.times_single:.2f}"),
        ("equal split", seconds_text(gain.equal_s), f"{gain.times_equal:.2f}"),
        ("ideal", seconds_text(gain.of_ideal * gain.step_s), f"{gain.of_ideal:.2f}"),
    ]
    told = "predicted; the ideal is 1 / (sum of 1 / alone): all devices compute all the time, without communication"
    return Section(title, (told,), Table(("one training step", "predicted", "relative to the plan"), tuple(rows)))


def _short(name: str) -> str:
    return name if len(name) <= _HEADING else f"{name[: _HEADING - 2]}.."


def _number(value: float | None, unit: float = 1.0) -> str:
    """Return three figures of a number, or all before the point; below 1e-4 one figure and an exponent; a dash for None."""
    if value is None:
        return NOTHING
    number = value / unit
    return f"{number:.0f}" if number >= 99.95 else f"{number:#.3g}" if number >= 1e-4 else f"{number:.1g}"


def _spread(spread: float) -> str:
    return f"{spread:.0%}" if spread > 0 else NOTHING


def _fixed(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f}"
