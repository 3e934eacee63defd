"""The optimizer that a profile was measured for: its name, and those of its options that decide what it keeps for each variable."""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class OptimizerSpec:
    """An optimizer as far as plans depend on it.

    Parameters
    ----------
    name : of its class, in lower case, such as "sgd"; of one that scales the loss, the inner one's.
    momentum, amsgrad, centered, use_ema, gradient_accumulation_steps : as Keras names them; off by default, and where the optimizer has
        no such option.

    Examples
    --------
    >>> str(OptimizerSpec("sgd", momentum=0.9)), str(OptimizerSpec("adam"))
    ('sgd(momentum=0.9)', 'adam')
    """

    name: str
    momentum: float = 0.0
    amsgrad: bool = False
    centered: bool = False
    use_ema: bool = False
    gradient_accumulation_steps: int | None = None

    @classmethod
    def from_config(cls, name: str, config: Mapping[str, Any]) -> OptimizerSpec:
        """Return the record of an optimizer whose configuration Keras gives.

        Parameters
        ----------
        name : as for the record.
        config : option -> value; what is not an option of the record is left out, as is a momentum that is no number.

        Examples
        --------
        >>> OptimizerSpec.from_config("adam", {"learning_rate": 0.1, "amsgrad": True}).options
        {'amsgrad': True}
        """
        momentum, steps = config.get("momentum"), config.get("gradient_accumulation_steps")
        switches = {option: bool(config.get(option)) for option in ("amsgrad", "centered", "use_ema")}
        number = float(momentum) if isinstance(momentum, numbers.Real) else 0.0
        return cls(name, number, gradient_accumulation_steps=int(steps) if steps else None, **switches)

    @property
    def options(self) -> dict[str, Any]:
        """The options that are on, as Keras names them."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.name != "name"}
        return {option: value for option, value in values.items() if value}

    def __str__(self) -> str:
        texts = [f"{option}={value:g}" if isinstance(value, float) else f"{option}={value}" for option, value in self.options.items()]
        return f"{self.name}({', '.join(texts)})" if texts else self.name


def optimizer_name(optimizer: object) -> str:
    """Return the name of an optimizer, as `OptimizerSpec` has it.

    Parameters
    ----------
    optimizer : OptimizerSpec, a name in any case, or a Keras optimizer; of one that scales the loss the inner one counts.

    Examples
    --------
    >>> optimizer_name("SGD"), optimizer_name(OptimizerSpec("adam", amsgrad=True))
    ('sgd', 'adam')
    """
    if isinstance(optimizer, OptimizerSpec):
        return optimizer.name
    name = optimizer if isinstance(optimizer, str) else type(getattr(optimizer, "inner_optimizer", optimizer)).__name__
    return name.lower()
