"""Engines beside the one in force: one that is being built, and those that training may go on with."""

from __future__ import annotations

from collections.abc import Callable, Collection

from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.program.engine import Engine
from hetero_mtf.training.control.background import Background, Finished
from hetero_mtf.training.control.plan_in_force import PlanInForce
from hetero_mtf.training.control.step_call import StepCall


class BesideEngines:
    """Holds engines that are built and not in force.

    Parameters
    ----------
    background : builds them, and does what else goes on beside steps.
    """

    def __init__(self, background: Background) -> None:
        self.background = background
        self._engines: dict[object, Engine] = {}  # by `Plan.built_from`

    def __contains__(self, plan: Plan) -> bool:
        return plan.built_from in self._engines

    def begin_build(self, make: Callable[[], Engine], call: StepCall) -> None:
        """Build an engine in the background, and take a step with it whose results count for nothing: a move writes all values.

        Parameters
        ----------
        make : makes the engine.
        call : the step.
        """

        def build() -> Engine:
            engine = make()
            try:
                call.advance(engine)
            except BaseException:
                engine.close()
                raise
            return engine

        self.background.begin(build)

    def collect(self, wait: bool = False) -> Finished | None:
        """Return what work in the background came to, once; None while it is under way. An engine that was built is held from then on.

        Parameters
        ----------
        wait : whether to wait for its end.
        """
        finished = self.background.poll(wait)
        if finished is not None and isinstance(finished.result, Engine):
            self._engines[finished.result.plan.built_from] = finished.result
        return finished

    def swap(self, in_force: PlanInForce, plan: Plan) -> None:
        """Put the engine of a plan in force, with all values as they are; the one before is held from then on.

        Parameters
        ----------
        in_force : the plan in force.
        plan : one that is held.
        """
        before = in_force.swap(self._engines[plan.built_from])
        del self._engines[plan.built_from]
        self._engines[before.plan.built_from] = before

    def free(self, but: Collection[object] = ()) -> None:
        """Free what engines hold on the cluster.

        Parameters
        ----------
        but : `Plan.built_from` of those that may be gone back to.
        """
        for key in [key for key in self._engines if key not in but]:
            self._engines.pop(key).close()

    def close(self) -> None:
        """End the background's thread, after the work that is under way, and free all."""
        self.collect(wait=True)
        self.background.close()
        self.free()
