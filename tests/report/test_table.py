from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest

from hetero_mtf.planning.choose import plan
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.report.step_time import StepTime, StepTimes
from hetero_mtf.report.table import (
    Table,
    alternatives_table,
    considered_table,
    contribution_table,
    devices_table,
    plan_table,
    prediction_table,
    sizes_table,
    step_time_table,
)
from hetero_mtf.units import seconds_text
from tests.planning.networks import cluster_of, pair_net, profile_of


def test_text_lines_up_and_shows_brackets_as_they_are() -> None:
    text = Table(("name", "units"), (("[red]conv", "7"), ("dense", "12")), "A title").text()
    lines = text.splitlines()
    assert lines[0] == "A title" and any(line.startswith("[red]conv") and line.endswith(" 7") for line in lines)
    assert len({len(line) for line in lines if "conv" in line or "dense" in line}) == 1
    assert "\x1b" not in text


def test_text_keeps_to_the_width_and_loses_nothing() -> None:
    text = Table(("name",), (("x" * 50,),)).text(width=20)
    assert max(map(len, text.splitlines())) <= 20 and text.count("x") == 50


def test_markdown_has_a_rule_and_escapes_bars() -> None:
    made = Table(("name", "units"), (("a|b", "7"),), "Title").markdown()
    assert made == "Title\n\n| name | units |\n| --- | ---: |\n| a\\|b | 7 |"


def test_the_devices_table_says_what_there_is() -> None:
    table = devices_table(cluster_of(2, memory_bytes=2**31))
    assert table.rows[1] == ("1", "worker:1", "CPU", "-", "here", "2.0 GiB", "1")


def test_the_plan_table_gives_idle_devices_a_column_of_their_own() -> None:
    table = plan_table(Plan.filters(pair_net(), [2, 0, 1], cluster_of(3), 8))
    assert table.headings == ("stage", "layer", "layout", "worker:0", "worker:1", "worker:2")
    assert table.rows[1] == ("0", "first", "column", "8", "-", "4")
    assert table.rows[0] == ("0", "input", "replicated", "all", "-", "all")


def test_the_prediction_and_alternatives_of_a_plan_are_tables() -> None:
    made = plan(profile_of(pair_net(24, 24, 24), [2e6, 1e6], 1e-6))
    assert [row[0] for row in prediction_table(made).rows] == ["worker:0", "worker:1"]
    assert [row[0] for row in alternatives_table(made).rows] == [
        "single",
        "equal",
        "filters",
        "batch",
        "hybrid",
        "grid",
        "pipeline",
    ]
    assert prediction_table(Plan.single(pair_net(), 0, cluster_of(1), 8)).rows == ()


def test_what_was_considered_is_told_with_the_parts_of_the_binding_device() -> None:
    made = plan(profile_of(pair_net(24, 24, 24), [2e6, 1e6], 1e-6))
    rows = {row[0]: row for row in considered_table(made).rows}
    other = next(a for a in made.alternatives if a.strategy == "equal")
    assert other.bottleneck is not None and other.step_s is not None
    spent = tuple(seconds_text(s) for s in (other.bottleneck.compute_s, other.bottleneck.communication_s, other.bottleneck.idle_s))
    assert rows["equal"] == ("equal", seconds_text(other.step_s), "worker:1", *spent, other.reason)
    assert rows["grid"][1:6] == ("-",) * 5


def test_what_devices_are_worth_is_a_table() -> None:
    made = plan(profile_of(pair_net(24, 24, 24), [2e6, 1e6], 1e-6))
    assert [row[:2] for row in contribution_table(made).rows] == [("worker:0", "uses it"), ("worker:1", "uses it")]


def test_sizes_of_many_devices_are_told_by_the_least_and_the_most() -> None:
    few, many = (Plan.filters(pair_net(24, 24), [3] + [1] * (n - 1), cluster_of(n), 8) for n in (3, 13))
    assert sizes_table(few) == plan_table(few)
    assert sizes_table(many).rows[1] == ("0", "first", "column", "13", "1", "6")


def test_the_step_time_table_sets_predicted_beside_measured() -> None:
    alone = (StepTime("worker:0", 0.2, 0.2), StepTime("worker:1", 0.4, 0.4))
    times = StepTimes(alone, StepTime("planned split", 0.14, 0.16), StepTime("equal split", None, 0.24))
    table = step_time_table(times)
    assert table.rows == (
        ("worker:0 alone", "200 ms", "200 ms", "1.25"),
        ("worker:1 alone", "400 ms", "400 ms", "2.50"),
        ("equal split", "-", "240 ms", "1.50"),
        ("planned split", "140 ms", "160 ms", "1.00"),
        ("ideal", "133 ms", "133 ms", "0.83"),
        ("efficiency (ideal / planned)", "0.95", "0.83", ""),
    )
    assert re.search(r"planned split +140 ms +160 ms +1\.00", table.text())


def test_times_that_are_missing_are_dashes() -> None:
    table = step_time_table(StepTimes((StepTime("worker:0"),), StepTime("planned split")))
    assert table.rows[0] == ("worker:0 alone", "-", "-", "-")
    assert table.rows[-1] == ("efficiency (ideal / planned)", "-", "-", "")


def test_a_table_that_is_too_wide_goes_on_below_beside_its_keys() -> None:
    numbers = tuple(f"{at}.23 ms" for at in range(6))
    table = Table(("stage", "layer", *(f"device {at}" for at in range(6))), (("0", "conv", *numbers),), left=2, keys=2)
    lines = table.text(40).splitlines()
    assert max(map(len, lines)) <= 40
    rows = [line for line in lines if line.startswith("0 ")]
    assert len(rows) > 1 and all(line.split()[:2] == ["0", "conv"] for line in rows)
    assert " ".join(" ".join(line.split()[2:]) for line in rows) == " ".join(numbers)
    assert len([line for line in table.text(140).splitlines() if line.startswith("0 ")]) == 1


def test_sentences_in_a_table_are_folded_and_numbers_keep_their_units() -> None:
    made = plan(profile_of(pair_net(24, 24, 24), [2e6, 1e6], 1e-6))
    for width in (60, 80, 100, 140):
        for table in (considered_table(made), contribution_table(made), prediction_table(made)):
            text = table.text(width)
            assert max(map(len, text.splitlines())) <= width
            times = re.findall(r"[\d.]+ (?:ms|us|s|times)\b", "\n".join("\n".join(row[-1:]) for row in table.rows))
            assert all(text.count(each) >= times.count(each) for each in times)
            assert all(cell in text for row in table.rows for cell in row if len(cell) < 20)


@pytest.mark.slow
def test_the_width_is_that_of_the_terminal() -> None:
    leader, follower = pty.openpty()
    code = "from hetero_mtf.report.table import terminal_columns; print(terminal_columns())"
    try:
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("4H", 24, 83, 0, 0))
        subprocess.run([sys.executable, "-c", code], stdout=follower, check=True)
        assert os.read(leader, 100).split() == [b"83"]
    finally:
        os.close(leader)
        os.close(follower)
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True)
    assert done.stdout.split() == [b"None"]
