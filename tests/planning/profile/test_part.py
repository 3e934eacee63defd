"""A profile of some devices alone plans for these as the whole one does for them."""

from __future__ import annotations

import dataclasses

from hetero_mtf.devices.records import renumbered
from hetero_mtf.planning.choose import plan
from hetero_mtf.planning.profile.corrections import Corrections, LayerFactor
from hetero_mtf.planning.profile.feed_link import FeedLink
from tests.planning.networks import pair_net, profile_of

WHOLE = profile_of(pair_net(8, 8, 4), [1e6, 5e5, 2e6])


def test_a_part_has_the_figures_of_its_devices_and_no_others() -> None:
    part = WHOLE.part([2, 0])
    assert [device.name for device in part.cluster.devices] == [WHOLE.cluster.devices[2].name, WHOLE.cluster.devices[0].name]
    for layer in range(1, len(WHOLE.graph.layers)):
        for step_pass in ("forward", "backward"):
            for place, device in enumerate([2, 0]):
                if WHOLE.has_curve(layer, device, "output", step_pass):
                    own, other = (each.seconds(layer, at, "output", 3, step_pass) for each, at in ((part, place), (WHOLE, device)))
                    assert own == other
    of = {(link.source, link.destination): link.latency_s for link in WHOLE.links}
    assert {(link.source, link.destination): link.latency_s for link in part.links} == {(0, 1): of[2, 0], (1, 0): of[0, 2]}
    assert plan(WHOLE.part([0, 1, 2])) == plan(WHOLE)


def test_a_part_on_the_fastest_device_takes_what_that_takes() -> None:
    assert plan(WHOLE.part([2]), strategy="single").predicted.step_s == plan(WHOLE, strategy="single").predicted.step_s  # type: ignore[union-attr]


def test_corrections_and_links_from_the_program_keep_their_devices() -> None:
    factors = tuple(LayerFactor(1, device, "whole", "forward", 1.0 + device) for device in range(3))
    feeds = tuple(FeedLink(device, 1e6 * (device + 1), 1e6) for device in range(3))
    part = dataclasses.replace(WHOLE, corrections=Corrections(factors), feed_links=feeds).part([1, 2])
    assert [(entry.device, entry.factor) for entry in part.corrections.layers] == [(0, 2.0), (1, 3.0)]
    assert [(link.device, link.bytes_per_s) for link in part.feed_links] == [(0, 2e6), (1, 3e6)]


def test_an_entry_of_another_device_is_left_out() -> None:
    link = WHOLE.links[0]
    assert renumbered(link, [link.source], "source", "destination") is None
    assert renumbered(link, [link.destination, link.source], "source", "destination") == dataclasses.replace(link, source=1, destination=0)
