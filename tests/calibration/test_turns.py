"""Turns: measurements begin while turns are given, and in no other moment."""

from __future__ import annotations

import concurrent.futures
import threading
import time

import keras
import pytest

import hetero_mtf as hm
from hetero_mtf.calibration.calibrate import calibrate_in_turns
from hetero_mtf.calibration.turns import Abandoned, GivenTurns, Turns
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.training.control.calibration_between import CalibrationBetween


def test_at_any_time_there_is_a_turn_and_the_clock_goes_on() -> None:
    turns = Turns()
    before_s = turns.clock()
    with turns.take():
        time.sleep(0.01)
    assert turns.clock() > before_s


def test_threads_measure_while_a_turn_is_given_and_at_no_other_time() -> None:
    turns, given = GivenTurns(), threading.Event()
    outside, done = [], []

    def measure(count: int) -> None:
        for _ in range(count):
            with turns.take():
                if not given.is_set():
                    outside.append(count)
                time.sleep(0.004)
                if not given.is_set():
                    outside.append(count)
            done.append(count)

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        running = [pool.submit(measure, 12), pool.submit(measure, 30)]
        turns_given = 0
        while not all(each.done() for each in running):
            given.set()
            turns.give(0.01, lambda: False)
            given.clear()
            before_s = turns.clock()
            time.sleep(0.002)
            assert turns.clock() == before_s
            turns_given += 1
    assert outside == [] and len(done) == 42 and turns_given > 3


def test_a_turn_ends_with_the_calibration_and_what_waits_for_one_ends_when_there_will_be_none() -> None:
    def calibrate(turns: Turns) -> Profile:
        with turns.take():
            pass
        raise ValueError("no profile")

    ended = CalibrationBetween(calibrate)
    assert ended.measure(60.0) < 30.0 and isinstance(ended.fault, ValueError)

    def endless(turns: Turns) -> Profile:
        while True:
            with turns.take():
                time.sleep(0.001)

    waiting = CalibrationBetween(endless)
    waiting.measure(0.01)
    assert not waiting.has_ended
    waiting.close()
    assert isinstance(waiting.fault, Abandoned)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::hetero_mtf.calibration.calibration_budget.CalibrationWarning")
def test_a_profile_that_is_measured_in_turns_has_the_points_of_one_that_is_measured_at_once() -> None:
    image = keras.Input((8, 8, 3))
    features = keras.layers.Conv2D(8, 3, activation="relu")(image)
    model = keras.Model(image, keras.layers.Dense(4)(keras.layers.GlobalAveragePooling2D()(features)))
    with hm.Cluster.local(["cpu:0", "cpu:0"]) as cluster:
        between = CalibrationBetween(lambda turns: calibrate_in_turns(turns, cluster, model, 4))
        taken = 0
        while not between.has_ended:
            assert between.measure(0.5) < 20.0
            taken += 1
        assert between.fault is None and between.profile is not None and taken > 1
        at_once = hm.calibrate(cluster, model, 4, verbose=0)
    measured = {(curve.layer, curve.device, curve.dimension, curve.step_pass) for curve in between.profile.curves}
    assert measured == {(curve.layer, curve.device, curve.dimension, curve.step_pass) for curve in at_once.curves}
    assert all(second > 0 for curve in between.profile.curves if curve.step_pass == "forward" for second in curve.seconds)
