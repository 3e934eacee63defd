"""A calibration between training steps: it measures for a second or so at a time, while no step runs."""

from __future__ import annotations

import threading
from collections.abc import Callable

from hetero_mtf.calibration.turns import GivenTurns, Turns
from hetero_mtf.keras_reading.thread_policy import with_policy_of_caller
from hetero_mtf.planning.profile.profile import Profile


class CalibrationBetween:
    """Calibrates in turns.

    Parameters
    ----------
    calibrate : calibrates, with what gives it its turns.

    Attributes
    ----------
    profile : what was measured; None before the end.
    fault : what it raised; None where it did not.
    """

    def __init__(self, calibrate: Callable[[Turns], Profile]) -> None:
        self._calibrate, self._turns = calibrate, GivenTurns()
        self._thread: threading.Thread | None = None
        self.profile: Profile | None = None
        self.fault: BaseException | None = None

    @property
    def has_ended(self) -> bool:
        """Whether nothing more is to be measured."""
        return self.profile is not None or self.fault is not None

    def measure(self, seconds: float) -> float:
        """Measure for some seconds, and to the end of what was begun; return how many it took.

        Parameters
        ----------
        seconds : for so long.
        """
        if self._thread is None:
            work = with_policy_of_caller(self._work)
            self._thread = threading.Thread(target=work, name="hetero_mtf calibration", daemon=True)
            self._thread.start()
        return self._turns.give(seconds, lambda: self.has_ended)

    def close(self) -> None:
        """Measure nothing more."""
        self._turns.abandon()
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        try:
            self.profile = self._calibrate(self._turns)
        except BaseException as fault:  # noqa: BLE001 - raised where training goes on, if it is a worker's death
            self.fault = fault
        self._turns.wake()
