"""PlanInForce: the engine of the plan that training is under, and how that of another takes its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from hetero_mtf.devices.records import Device
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.program.engine import Engine
from hetero_mtf.training.trained_network import TrainedNetwork


class PlanInForce:
    """Holds the engine of the plan in force.

    Parameters
    ----------
    network : what is trained.
    plan : the plan to begin with.
    seed : seed of dropout.

    Attributes
    ----------
    engine : the engine.
    seed : as given, or as the last `replace` was.
    first : the values to begin with, by their keys, until others take their place; None then, or when they are no longer wanted.

    Raises
    ------
    HeteroError
        If the plan cannot be honoured.
    """

    def __init__(self, network: TrainedNetwork, plan: Plan, seed: int) -> None:
        self._network, self.seed = network, seed
        self._is_freed = False
        self.first: Mapping[str, np.ndarray] | None = network.first_values()
        self.engine = network.engine(plan, self.first, seed)

    @property
    def plan(self) -> Plan:
        """The plan in force."""
        return self.engine.plan

    @property
    def devices(self) -> Sequence[Device]:
        """The devices of the cluster."""
        return self._network.cluster.devices  # type: ignore[no-any-return]

    def beside(self, plan: Plan) -> Engine:
        """Return an engine of a plan, with the first values, that is not in force.

        Parameters
        ----------
        plan : the plan.

        Raises
        ------
        HeteroError
            If it cannot be honoured.
        """
        return self._network.engine(plan, self._network.first_values(), self.seed)

    def swap(self, engine: Engine) -> Engine:
        """Put an engine in force, with all values as they are, and return the one before, which stays open.

        Parameters
        ----------
        engine : as `beside` returns it.
        """
        before, self.first = self.engine, None
        engine.write(before.read())
        self.engine = engine
        return before

    def replace(self, plan: Plan, values: Mapping[str, np.ndarray] | None = None, seed: int | None = None) -> None:
        """Put another plan in force and free what the one before holds; where it cannot be honoured, that stays.

        Parameters
        ----------
        plan : the plan; it may be the same.
        values : variable or slot key -> whole array; None for the present ones.
        seed : seed of dropout; None for the present one.

        Raises
        ------
        HeteroError
            If the plan cannot be honoured, or the engine is closed.
        """
        if not self._is_freed:
            self.engine.check_open()
        seed = self.seed if seed is None else seed
        engine = self._network.engine(plan, self.engine.read() if values is None else values, seed)
        self.engine.close()
        self.engine, self.seed, self.first, self._is_freed = engine, seed, None, False

    def free(self) -> None:
        """Free what the plan holds on the cluster; nothing but `replace` with values may follow."""
        self._is_freed = True
        self.engine.close()

    def overwrite(self, values: Mapping[str, np.ndarray]) -> None:
        """Go on with other values of some variables and slots, in the engine that runs where it can.

        Parameters
        ----------
        values : variable or slot key -> whole array.
        """
        self.first = None
        if self.engine.writable:
            self.engine.write(values)
        else:
            self.replace(self.plan, {**self.engine.read(), **values})
