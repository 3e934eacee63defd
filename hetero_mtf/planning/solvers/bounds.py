"""Bounds of integer sizes: least and most units of each device, and multiples."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from hetero_mtf.errors import PlanError


@dataclasses.dataclass(frozen=True)
class Bounds:
    """The sizes that are allowed: multiples of one number, except that of one device, which has the remainder too.

    Parameters
    ----------
    least, most : (devices,) least and most units of each device without the remainder.
    least_rest, most_rest : (devices,) the same of the device that has it.
    rest : the remainder; 0 where the multiple divides the units, and no device has one.
    """

    least: tuple[int, ...]
    most: tuple[int, ...]
    least_rest: tuple[int, ...]
    most_rest: tuple[int, ...]
    rest: int

    @classmethod
    def of(cls, devices: int, units: int, lower: Sequence[int] | None, upper: Sequence[int] | None, multiple: int) -> Bounds:
        """Return the bounds as `minimise_maximum` is given them, moved inwards to multiples.

        Parameters
        ----------
        devices : number of devices.
        units, lower, upper, multiple : as for `minimise_maximum`.

        Raises
        ------
        PlanError
            If they are not one a device, leave nothing for a device, or the multiple is less than 1.
        """
        if multiple < 1:
            raise PlanError(f"sizes are to be multiples of {multiple}", "use at least 1")
        low = [0] * devices if lower is None else list(lower)
        high = [units] * devices if upper is None else [min(units, most) for most in upper]
        for name, given in (("lower", low), ("upper", high)):
            if len(given) != devices:
                raise PlanError(f"there are {len(given)} {name} bounds for {devices} devices", "give one a device")
        wrong = [f"device {d} from {max(a, 0)} to {b}" for d, (a, b) in enumerate(zip(low, high)) if max(a, 0) > b]
        if wrong:
            raise PlanError(f"the bounds leave nothing for {', '.join(wrong)} of {units} units", "lower the first or raise the second")
        rest = units % multiple
        low = [max(0, least) for least in low]
        return cls(*_on_grid(low, high, multiple, 0), *_on_grid(low, high, multiple, rest), rest)

    def reaching(self, units: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Return the (least, most) sizes of every choice of the device with the remainder that can sum to `units`.

        Parameters
        ----------
        units : units of the dimension.

        Raises
        ------
        PlanError
            If there is none, with the units that are missing or too many.
        """
        choices = [(self.least, self.most)] if not self.rest else [self._with_rest(d) for d in range(len(self.least))]
        legal = [(least, most) for least, most in choices if all(a <= b for a, b in zip(least, most))]
        if not legal:
            raise PlanError(f"no sizes within the bounds are the multiples asked for, with {self.rest} units over", "widen the bounds")
        reached = [(least, most) for least, most in legal if sum(least) <= units <= sum(most)]
        if not reached:
            self._refuse(units, legal)
        return reached

    def _with_rest(self, device: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        least, most = list(self.least), list(self.most)
        least[device], most[device] = self.least_rest[device], self.most_rest[device]
        return tuple(least), tuple(most)

    @staticmethod
    def _refuse(units: int, legal: Sequence[tuple[Sequence[int], Sequence[int]]]) -> None:
        missing = min(units - sum(most) for _, most in legal)
        if missing > 0:
            raise PlanError(f"the upper bounds hold {units - missing} of {units} units, {missing} too few", "raise them or add a device")
        over = min(sum(least) for least, _ in legal) - units
        raise PlanError(f"the lower bounds ask for {units + over} of {units} units, {over} too many", "lower them or leave a device out")


def _on_grid(low: Sequence[int], high: Sequence[int], multiple: int, rest: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the bounds moved inwards to numbers that leave `rest` when divided by `multiple`."""
    least = tuple(a + (rest - a) % multiple for a in low)
    return least, tuple(b - (b - rest) % multiple for b in high)
