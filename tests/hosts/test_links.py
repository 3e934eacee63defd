"""Links between hosts as calibration measures them, with those from the program, and a link that has changed."""

import time
import warnings

import pytest

import hetero_mtf as hm
from hetero_mtf.calibration.calibration_budget import CalibrationWarning
from hetero_mtf.calibration.feed_speed import measure_feed_links
from models.digits import wide_digits

MEGABIT = 1e6 / 8


@pytest.mark.parametrize("rate", [100.0, 1000.0])
def test_links_from_the_program_have_the_speed_of_the_network(workers, rate):
    workers.lab.rate(rate)
    with hm.Cluster.hosts(workers.hosts) as cluster:
        links = measure_feed_links(cluster, [0, 1])
    for link in links:
        assert 0.5 * rate * MEGABIT < link.bytes_per_s < 1.3 * rate * MEGABIT, links  # some of it is TensorFlow's own
        assert 0.4 * 2 * rate * MEGABIT < link.together_bytes_per_s < 1.3 * 2 * rate * MEGABIT, links


def test_a_calibration_over_slow_links_takes_a_minute_and_a_link_that_has_changed_is_measured_again(workers):
    workers.lab.rate(100.0)
    with hm.Cluster.hosts(workers.hosts) as cluster:
        begun_s = time.monotonic()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)
            slow = hm.calibrate(cluster, wide_digits(), 64, verbose=0)
            assert time.monotonic() - begun_s < 75.0
            workers.lab.rate(1000.0)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            fast = hm.calibrate(cluster, wide_digits(), 64, earlier=slow, verbose=0)
    changed = "a transfer between worker:0 and worker:1 takes"
    again = [str(warning.message) for warning in told if "is measured again" in str(warning.message)]
    assert again and (changed in again[0] or "all of worker" in again[0]), again  # a device that deviates takes its links with it
    before, after = slow.links[0].bandwidth_bytes_per_s, fast.links[0].bandwidth_bytes_per_s
    assert 0.5 * 100 * MEGABIT < before < 1.3 * 100 * MEGABIT and after > 4 * before, (before, after)
