from __future__ import annotations

import dataclasses

from hetero_mtf.report.page import page
from hetero_mtf.report.profile.profile_facts import profile_facts
from hetero_mtf.report.profile.sections import profile_sections
from hetero_mtf.report.section import Section, sections_text
from hetero_mtf.report.table import NOTHING
from hetero_mtf.units import bandwidth_text, seconds_text
from tests.planning.networks import pair_net, profile_of
from tools.generated.profiles import Figures, generated_profile

GRAPH = pair_net(64, 48, 24)
FACTS = profile_facts(generated_profile(GRAPH, [Figures(2e9, start_s=0.0, tile=1), Figures(1e9, 1e10, start_s=0.0, tile=1)], 30))


def titled(sections: tuple[Section, ...]) -> dict[str, Section]:
    return {section.title: section for section in sections}


def test_the_age_of_a_profile_stands_behind_its_date() -> None:
    assert any(line.endswith(f"measured at {FACTS.measured_at}") for line in titled(profile_sections(FACTS))["Profile"].sentences)
    aged = titled(profile_sections(FACTS, age="3 days ago"))["Profile"].sentences
    assert any(line.endswith(f"measured at {FACTS.measured_at}, 3 days ago") for line in aged)


def test_the_tables_hold_the_facts() -> None:
    sections = titled(profile_sections(FACTS))
    devices, links, shares = (sections[name].table for name in ("Devices", "Links", "Shares that these speeds suggest"))
    assert devices is not None and links is not None and shares is not None
    assert devices.headings[:3] == ("device", "samples/s", "relative speed") and devices.headings[3] == "second GFLOP/s"
    assert [row[2] for row in devices.rows] == ["1.00", "0.50"]
    assert float(devices.rows[0][3]) == round((FACTS.devices[0].layers[0].flops_per_s or 0.0) / 1e9, 2)
    assert links.rows[0][1:3] == (bandwidth_text(FACTS.links[0].bandwidth_bytes_per_s), seconds_text(FACTS.links[0].latency_s))
    assert shares.rows[0] == ("30 samples", "20", "10")


def test_the_verdict_names_the_fastest_device_and_the_gain() -> None:
    verdict = profile_sections(FACTS)[0]
    assert verdict.leads and FACTS.gain is not None
    assert "device:0 is fastest" in verdict.sentences[0] and "device:1 has 0.50 of its speed" in verdict.sentences[0]
    assert f"{FACTS.gain.times_single:.2f} x faster than the best single device" in verdict.sentences[0]


def test_it_fits_in_eighty_columns() -> None:
    named = dataclasses.replace(FACTS.devices[0].layers[0], layer="block3_unit2_conv1_expanded")
    devices = tuple(dataclasses.replace(device, layers=(named,) * 3) for device in FACTS.devices)
    for columns in (80, 140):
        lines = sections_text(profile_sections(dataclasses.replace(FACTS, devices=devices)), columns).splitlines()
        assert max(map(len, lines)) <= columns


def test_a_link_that_is_alike_both_ways_is_one_row_and_of_many_the_slowest_are_shown() -> None:
    three = titled(profile_sections(profile_facts(profile_of(GRAPH, [1e6] * 3))))["Links"].table
    assert three is not None and [row[0] for row in three.rows] == [
        "worker:0 and worker:1",
        "worker:0 and worker:2",
        "worker:1 and worker:2",
    ]
    many = titled(profile_sections(profile_facts(profile_of(GRAPH, [1e6] * 17))))["Links"]
    assert many.table is not None and len(many.table.rows) == 12 and "136 links" in many.sentences[0]
    one_way = dataclasses.replace(FACTS, links=(FACTS.links[0],))
    table = titled(profile_sections(one_way))["Links"].table
    assert table is not None and table.rows[0][0] == "device:0 to device:1"


def test_warnings_and_what_ifs_are_told_and_a_missing_gain_has_its_reason() -> None:
    facts = dataclasses.replace(FACTS, gain=None, no_gain="nothing fits")
    sections = titled(profile_sections(facts, ["the profile is old"], ["a device is added"]))
    assert sections["Profile"].sentences[-2:] == ("what-if, not measured: a device is added", "the profile is old")
    assert sections["What a plan would gain"].sentences == ("not known: nothing fits",)


def test_it_is_a_page_too() -> None:
    text = page("A profile", profile_sections(FACTS))
    assert "device:0 is fastest" in text and "What a plan would gain" in text


def test_devices_of_which_nothing_takes_time_are_not_compared() -> None:
    devices = tuple(
        dataclasses.replace(
            device,
            samples_per_s=None,
            relative_speed=None,
            layers=tuple(dataclasses.replace(layer, flops_per_s=None) for layer in device.layers),
        )
        for device in FACTS.devices
    )
    sections = profile_sections(dataclasses.replace(FACTS, devices=devices))
    assert "the devices cannot be compared" in sections[0].sentences[0]
    shown = titled(sections)["Devices"]
    assert shown.table is not None and shown.bars is None
    assert all(row[1:3] == (NOTHING, NOTHING) for row in shown.table.rows)
