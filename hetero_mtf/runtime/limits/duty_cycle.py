"""When to stop and when to continue a process so that it runs for a share of the time."""

from __future__ import annotations

PERIOD_S = 0.010
_LARGEST_DEBT_PERIODS = 10.0


class DutyCycle:
    """A leaky bucket: running fills it, standing still empties it.

    With share s a second of running adds 1 - s of debt and a second of standing still repays s. It runs until the
    debt reaches s (1 - s) P, which from zero takes s P, and then stands still until the debt is repaid. A switch that
    comes late is made good by the next one, so the share holds on a busy machine too.

    Parameters
    ----------
    share : share of the time to run, in (0, 1); 1 means never to stop.
    now_s : the clock now, seconds.
    period_s : P, seconds.
    """

    def __init__(self, share: float, now_s: float, period_s: float = PERIOD_S) -> None:
        self.running = True
        self._share = share
        self._period_s = period_s
        self._since_s = now_s
        self._debt_s = 0.0

    def next_s(self) -> float:
        """Return the time of the next switch, seconds; infinity where there is none."""
        if self._share >= 1:
            return self._since_s if not self.running else float("inf")
        if self.running:
            rest_s = self._share * (1 - self._share) * self._period_s - self._debt_s
            return self._since_s + max(0.0, rest_s / (1 - self._share))
        return self._since_s + max(0.0, self._debt_s / self._share)

    def switch(self, now_s: float) -> bool:
        """Switch if the time has come, and return whether it switched."""
        if now_s < self.next_s():
            return False
        self._account(now_s)
        self.running = not self.running
        return True

    def set_share(self, share: float, now_s: float) -> None:
        """Go on with another share from now on."""
        self._account(now_s)
        self._share, self._debt_s = share, 0.0

    def _account(self, now_s: float) -> None:
        passed_s = now_s - self._since_s
        self._debt_s += passed_s * (1 - self._share) if self.running else -passed_s * self._share
        most_s = _LARGEST_DEBT_PERIODS * self._period_s
        self._debt_s = min(most_s, max(-most_s, self._debt_s))
        self._since_s = now_s
