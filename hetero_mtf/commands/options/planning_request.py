"""The options of plan as a record, checked against each other."""

from __future__ import annotations

import dataclasses
from typing import Any

import click

from hetero_mtf.commands.options.pipeline_options import PipelineChoice
from hetero_mtf.commands.options.shared import MANUAL
from hetero_mtf.commands.options.typed import refuse_unused
from hetero_mtf.commands.options.what_if import WhatIfTexts


@dataclasses.dataclass(frozen=True)
class PlanningRequest:
    """The options of plan, by their names on the command line; those of a pipeline as a record."""

    profile_file: str | None
    strategy: str
    shares: tuple[float, ...] | None
    gradient_sync: str
    collective: str | None
    cluster: str
    model: str | None
    model_arguments: tuple[tuple[str, Any], ...]
    precision: str | None
    batch_size: int | None
    extrapolate: bool
    scale: tuple[str, ...]
    add_like: tuple[str, ...]
    memory: tuple[str, ...]
    bandwidth: str | None
    refine: bool
    refine_time: float | None
    output: str
    pipeline: PipelineChoice

    @property
    def changes(self) -> WhatIfTexts:
        """What differs from the measured profile."""
        return WhatIfTexts(self.scale, self.add_like, self.memory, self.bandwidth, self.batch_size if self.extrapolate else None)

    def check(self) -> None:
        """Refuse options that exclude each other, or that would have no effect.

        Raises
        ------
        click.UsageError, PlanError
            If there are some.
        """
        self.pipeline.check(self.strategy, self.shares is not None, self.gradient_sync)
        changed = any(self.changes)
        self._check_source(changed)
        self._check_refinement(changed)
        self._check_unused()
        if self.shares is not None and (self.model is None or self.strategy not in ("auto", *MANUAL)):
            raise click.UsageError(
                f"--shares split a model; add --model, and --strategy {', '.join(MANUAL)} or none, which splits the filters"
            )

    def _check_source(self, changed: bool) -> None:
        """Raise unless there is either a profile or shares, and a profile for what-if changes."""
        if changed and self.profile_file is None:
            raise click.UsageError("what if needs a profile; it does not go with --shares")
        if (self.profile_file is None) == (self.shares is None):
            raise click.UsageError("give either a profile or --shares with --model and --cluster")

    def _check_refinement(self, changed: bool) -> None:
        """Raise unless the options of refinement go with the others, by which a plan of a profile runs on a cluster or does not."""
        if self.refine and (changed or self.pipeline.allow_stale or self.collective or self.shares or self.model is None):
            raise click.UsageError(
                "--refine runs the plan of a profile: give --model and --cluster, no --shares, --collective or what-if changes"
            )
        if self.refine_time is not None and not self.refine:
            raise click.UsageError("--refine-time goes with --refine")

    def _check_unused(self) -> None:
        """Refuse options that would have no effect: of live devices where a profile is enough, and --extrapolate without a batch size."""
        if self.shares is None and not self.refine:
            live = ("model", "model_arguments", "precision", "cluster", "worker_timeout", "wait")
            refuse_unused(live, "a profile is planned from without the model and its devices; leave it out, or add --refine")
        if self.extrapolate and self.batch_size is None:
            raise click.UsageError("--extrapolate goes with --batch-size, the size to extrapolate to")
