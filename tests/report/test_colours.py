from __future__ import annotations

import itertools

import pytest

from hetero_mtf.report.colours import DEVICES, STATES, colours, declarations, device_colour, rules

THEMES = [False, True]
# Viénot, Brettel and Mollon 1999: what a person without red- or green-sensitive cones sees, on linear RGB
CONFUSED = {
    "protan": ((0.11238, 0.88762, 0.0), (0.11238, 0.88762, 0.0), (0.00401, -0.00401, 1.0)),
    "deutan": ((0.29275, 0.70725, 0.0), (0.29275, 0.70725, 0.0), (-0.02234, 0.02234, 1.0)),
}


def linear(colour: str) -> tuple[float, ...]:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return tuple(part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)


def luminance(colour: str) -> float:
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear(colour)))


def contrast(one: str, other: str) -> float:
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def seen(colour: str, matrix: tuple[tuple[float, ...], ...]) -> tuple[float, ...]:
    return tuple(max(0.0, sum(weight * part for weight, part in zip(row, linear(colour)))) ** (1 / 2.2) for row in matrix)


@pytest.mark.parametrize("dark", THEMES)
def test_text_on_every_colour_can_be_read(dark: bool) -> None:
    assert min(contrast(colour, ink) for colour, ink in colours(dark).values()) >= 4.5


@pytest.mark.parametrize("dark", THEMES)
def test_no_device_has_the_colour_of_what_devices_do(dark: bool) -> None:
    palette = {name: colour for name, (colour, _) in colours(dark).items()}
    devices = {palette[device_colour(index)] for index in range(DEVICES)}
    assert len(devices) == DEVICES and not devices & {colour for name, colour in palette.items() if not name.startswith("device")}


@pytest.mark.parametrize("dark", THEMES)
@pytest.mark.parametrize("kind", CONFUSED)
def test_states_and_the_first_devices_are_told_apart_without_red_against_green(dark: bool, kind: str) -> None:
    palette = colours(dark)
    names = [*STATES, device_colour(0), device_colour(1)]
    for one, other in itertools.combinations(names, 2):
        pair = [seen(palette[name][0], CONFUSED[kind]) for name in (one, other)]
        assert max(abs(a - b) for a, b in zip(*pair)) > 0.15, (one, other)


@pytest.mark.parametrize("dark", THEMES)
def test_states_are_told_apart_by_their_lightness_alone(dark: bool) -> None:
    states = [colours(dark)[name][0] for name in STATES]
    assert min(contrast(*pair) for pair in itertools.combinations(states, 2)) > 1.3


def test_every_colour_is_declared_and_used_by_name() -> None:
    for name in colours():
        assert f"--{name}: " in declarations() and f"--on-{name}: " in declarations(dark=True)
        assert any(rule.startswith(f".fill-{name} ") for rule in rules())
    assert device_colour(0) == device_colour(DEVICES)
