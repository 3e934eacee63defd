"""The plan: the slice of every layer that each device computes, for one network and one batch size."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

from hetero_mtf.errors import PlanError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.json_file import read_json, write_json
from hetero_mtf.json_records import Fault, listed, read_fields, unchecked, unless_caused
from hetero_mtf.planning.layout import manual
from hetero_mtf.planning.layout.arrangement import arrange
from hetero_mtf.planning.names import PIPELINE
from hetero_mtf.planning.plan.collective_rule import one_method
from hetero_mtf.planning.plan.manual_pipeline import ManualPipeline, pipeline_stages
from hetero_mtf.planning.plan.plan_faults import graph_faults, plan_faults
from hetero_mtf.planning.plan.plan_record import PlanRecord
from hetero_mtf.planning.plan.plan_text import plan_line, plan_text
from hetero_mtf.planning.plan.version1 import current_keys
from hetero_mtf.planning.schedule.execution import Execution
from hetero_mtf.planning.schedule.stale import StaleOptions
from hetero_mtf.planning.solvers.apportionment import proportional

VERSION, EARLIER = 2, 1
_HEAD = frozenset({"kind", "version"})


@dataclasses.dataclass(frozen=True)
class Plan(PlanRecord):
    """How one network trains on the devices of one cluster.

    The fields are those of `PlanRecord`.

    Raises
    ------
    PlanError
        If anything is wrong with it; all faults are named at once.
    """

    def __post_init__(self) -> None:
        faults = plan_faults(self)
        if faults:
            raise PlanError(f"the plan has {listed(faults)}", "correct them")

    def __repr__(self) -> str:
        return f"<Plan: {plan_line(self)}>"

    def __str__(self) -> str:
        return plan_text(self)

    def check(self, graph: LayerGraph) -> None:
        """Raise unless the plan fits a network.

        Parameters
        ----------
        graph : the network that is to train by this plan.

        Raises
        ------
        PlanError
            If the network has another structure or float type, or a layout or its sizes do not fit a layer; all faults at once.
        """
        layers = sum(len(stage.layers) for stage in self.stages)
        remedy = "plan again with hetero-mtf plan --model ..."
        if self.digest != graph.digest or layers != len(graph.layers) or self.dtype != graph.dtype:
            raise PlanError(
                f"the plan is for a network of {layers} layers in {self.dtype} (digest {self.digest}), "
                f"this model has {len(graph.layers)} in {graph.dtype} (digest {graph.digest})", remedy
            )
        faults = graph_faults(self, graph)
        if faults:
            raise PlanError(f"the plan does not fit the model, {listed(faults)}", remedy)

    def with_collective(self, method: str) -> Plan:
        """Return the plan with one method for every all-reduce; what it predicts stays as it was.

        Parameters
        ----------
        method : "ring" or another of `CollectiveRule.method`.

        Raises
        ------
        PlanError
            If the method is unknown.
        """
        return dataclasses.replace(self, collectives=one_method("all_reduce", method))

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-able document, schema version 2."""
        return {"kind": "plan", "version": VERSION, **dataclasses.asdict(self)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any], source: str = "the plan") -> Plan:
        """Return the plan in a document made by `to_json`.

        Parameters
        ----------
        document : JSON object of schema version 1 or 2; unknown entries are refused, never ignored.
        source : its name in messages.

        Raises
        ------
        PlanError
            If anything is wrong with it; every fault is named with its path.
        """
        faults: list[Fault] = []
        body = {key: value for key, value in current_keys(document).items() if key not in _HEAD}
        values = read_fields(cls, body, "", faults)
        faults += unless_caused(plan_faults(unchecked(cls, values)), faults)
        if faults:
            raise PlanError(f"{source} has {listed(faults)}", "plan again with hetero-mtf plan")
        return cls(**values)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the plan to a JSON file; an existing file is replaced at once.

        Parameters
        ----------
        path : path of the file to write or replace.
        """
        write_json(path, self.to_json())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Plan:
        """Return the plan in a file written by `save`.

        Parameters
        ----------
        path : path of the file.

        Raises
        ------
        HeteroError
            If the file cannot be read, is not a plan of this version, or has faults.
        """
        return cls.from_json(read_json(path, kind="plan", version=VERSION, earlier=(EARLIER,)), os.fspath(path))

    @classmethod
    def single(cls, graph: LayerGraph, device: int | str, cluster: Any, batch_size: int) -> Plan:
        """Return the plan that trains on one device alone.

        Parameters
        ----------
        graph : the network; `hm.Plan` takes a Keras model in its place.
        device : index or name of the device in the cluster.
        cluster : anything with `devices`, such as a Cluster or a ClusterRecord.
        batch_size : samples a step.

        Raises
        ------
        PlanError
            If there is no such device, or the batch size is less than 1.
        """
        names = manual.device_names(cluster)
        stage = manual.single_stage(graph, manual.device_index(device, names))
        return cls(graph.digest, graph.dtype, batch_size, "single", names, (stage,))

    @classmethod
    def equal(cls, graph: LayerGraph, cluster: Any, batch_size: int, pairing: str = "pairs") -> Plan:
        """Return the plan that splits filters equally over all devices.

        Parameters
        ----------
        graph, cluster, batch_size : as for `single`.
        pairing : as for `filters`.
        """
        names = manual.device_names(cluster)
        stage = manual.filter_stage(graph, [1.0] * len(names), pairing)
        return cls(graph.digest, graph.dtype, batch_size, "equal", names, (stage,))

    @classmethod
    def filters(cls, graph: LayerGraph, shares: Sequence[float], cluster: Any, batch_size: int, pairing: str = "pairs") -> Plan:
        """Return the plan that splits filters in proportion to manual shares.

        Parameters
        ----------
        graph, cluster, batch_size : as for `single`.
        shares : (devices,) relative share of each device of the cluster; zero leaves a device out.
        pairing : "pairs" makes columns and rows alternate along chains, "gather" gathers after every split layer.

        Raises
        ------
        PlanError
            If the shares do not fit the devices, are negative or all zero, the pairing is unknown, or the batch size is less than 1.
        """
        names = manual.device_names(cluster)
        stage = manual.filter_stage(graph, manual.checked_shares(shares, names), pairing)
        return cls(graph.digest, graph.dtype, batch_size, "filters", names, (stage,))

    @classmethod
    def batch(cls, graph: LayerGraph, shares: Sequence[float], cluster: Any, batch_size: int, gradient_sync: str = "all_reduce") -> Plan:
        """Return the plan that splits the samples of every batch in proportion to manual shares.

        Parameters
        ----------
        graph, shares, cluster, batch_size : as for `filters`; a device that is left without samples is left out.
        gradient_sync : as the attribute.

        Raises
        ------
        PlanError
            If the shares do not fit the devices, are negative or all zero, the batch size is less than 1, or `gradient_sync` is unknown.
        """
        names = manual.device_names(cluster)
        samples = proportional(_checked_batch(batch_size), manual.checked_shares(shares, names)).sizes
        stage = manual.batch_stage(graph, samples, range(len(names)))
        return cls(graph.digest, graph.dtype, batch_size, "batch", names, (stage,), gradient_sync=gradient_sync)

    @classmethod
    def space(cls, graph: LayerGraph, shares: Sequence[float], cluster: Any, batch_size: int, dimension: int | None = None) -> Plan:
        """Return the plan that cuts one spatial dimension of every layer into slabs in proportion to manual shares.

        Layers that mix space otherwise, such as Flatten, are computed by every device.

        Parameters
        ----------
        graph, shares, cluster, batch_size : as for `filters`.
        dimension : number of the spatial dimension, from 0; None for the longest one of the input.

        Raises
        ------
        PlanError
            If the shares do not fit the devices, are negative or all zero, the batch size is less than 1, or no layer can lie in slabs of
            that dimension.
        """
        names = manual.device_names(cluster)
        stage = manual.space_stage(graph, manual.checked_shares(shares, names), dimension)
        return cls(graph.digest, graph.dtype, _checked_batch(batch_size), "space", names, (stage,))

    @classmethod
    def hybrid(
        cls,
        graph: LayerGraph,
        shares: Sequence[float],
        cluster: Any,
        batch_size: int,
        border: str = "all_gather",
        gradient_sync: str = "all_reduce",
    ) -> Plan:
        """Return the plan that splits samples at the convolutions and hidden units in the dense layers after them.

        Parameters
        ----------
        graph, shares, cluster, batch_size : as for `filters`.
        border : "all_gather" makes the first dense layer a column that reads the full batch, "all_to_all" a row that reads its
            input channels of the full batch.
        gradient_sync : as the attribute; "butterfly_mixing" is of the layers that split the batch.

        Raises
        ------
        PlanError
            If the shares do not fit the devices, are negative or all zero, the batch size is less than 1, the border or
            `gradient_sync` is unknown, or the network has no dense layer after its convolutions.

        References
        ----------
        Jin, Qamar, Zheng, Ahmad, J. Intelligent & Fuzzy Systems 35 (2018) 5449-5466; Krizhevsky, arXiv 1404.5997. The unequal shares
        are this project's.
        """
        names = manual.device_names(cluster)
        stage = manual.hybrid_stage(graph, manual.checked_shares(shares, names), _checked_batch(batch_size), border)
        return cls(graph.digest, graph.dtype, batch_size, "hybrid", names, (stage,), gradient_sync=gradient_sync)

    @classmethod
    def grid(
        cls,
        graph: LayerGraph,
        batch_shares: Sequence[float],
        filter_shares: Sequence[float],
        cluster: Any,
        batch_size: int,
        pairing: str = "pairs",
    ) -> Plan:
        """Return the plan on a mesh of rows, which share the samples, by columns, which share the filters.

        Device r * columns + c of the cluster works on the samples of row r with the filters of column c.

        Parameters
        ----------
        graph, cluster, batch_size : as for `single`.
        batch_shares : (rows,) relative shares of the samples; zero leaves a row of devices out.
        filter_shares : (columns,) relative shares of the filters; zero leaves a column of devices out.
        pairing : as for `filters`.

        Raises
        ------
        PlanError
            If the shares do not multiply to the devices, are negative or all zero, the batch size is less than 1, or the pairing is
            unknown.
        """
        names = manual.device_names(cluster)
        rows, columns = manual.numbers(batch_shares), manual.numbers(filter_shares)
        devices = manual.grid_of(len(rows), len(columns), names)
        arrangement = arrange(graph, pairing)
        sizes = [proportional(segment.units, columns).sizes for segment in arrangement.segments]
        samples = proportional(_checked_batch(batch_size), rows).sizes
        stage = manual.grid_stage(graph, samples, arrangement, sizes, devices)
        return cls(graph.digest, graph.dtype, batch_size, "grid", names, (stage,))

    @classmethod
    def pipeline(
        cls,
        graph: LayerGraph,
        starts: Sequence[int | str],
        devices: Sequence[Sequence[int | str]],
        shares: Sequence[Sequence[float]],
        cluster: Any,
        batch_size: int,
        microbatches: int = 1,
        schedule: str = "1f1b",
        split: str = "filters",
        recompute: bool = False,
        replicas: Sequence[int] | None = None,
        stale: StaleOptions | None = None,
    ) -> Plan:
        """Return the plan that divides the network into stages, which compute microbatches one after another.

        Parameters
        ----------
        graph, cluster, batch_size : as for `single`.
        starts : (stages,) name or index of the layer that each stage begins with, in the order of the layers; the first stage has the
            network's inputs too, so its start may be the first layer after them. A stage may begin anywhere but between the calls of
            a layer with variables that is called more than once.
        devices : (stages, devices) name or index of each stage's devices; with replicas, replica after replica.
        shares : (stages, members) relative shares of a stage's devices inside each replica; zero leaves a device out.
        microbatches : parts that a batch is divided into (`microbatch_sizes`).
        schedule : "1f1b" keeps few microbatches in memory, "fill_drain" all; "interleaved" is for devices in several stages,
            "synchronous" takes one microbatch after another through all stages and back. Two are not synchronous, as their gradients are
            late (`schedule.stale.delays`): in "decoupled" all stages work at once, each on another batch, and update at once; in "1f1b_2bw"
            each on another microbatch, with two versions of the weights.
        split : what the devices of a stage share: "filters" (as in `filters`) or "batch".
        recompute : whether the backward pass recomputes a stage's activations instead of keeping them.
        replicas : samples of each replica of the pipeline; None for one replica.
        stale : options of a schedule that is not synchronous; None for the defaults.

        Raises
        ------
        PlanError
            If anything is wrong with it; all faults are named at once, each with the nearest thing that is possible.
        """
        names = manual.device_names(cluster)
        execution = Execution(schedule, microbatches, recompute, replicas=tuple(replicas or ()), stale=stale)
        stages = pipeline_stages(graph, names, ManualPipeline(starts, devices, shares, split, batch_size, execution))
        return cls(graph.digest, graph.dtype, batch_size, PIPELINE, names, stages, **fields_of(execution))


def fields_of(execution: Execution) -> dict[str, Any]:
    """Return the fields of an execution by name, as a plan has them."""
    return {field.name: getattr(execution, field.name) for field in dataclasses.fields(execution)}


def _checked_batch(batch_size: int) -> int:
    if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size < 1:
        raise PlanError(f"the batch size is {batch_size!r}", "use a whole number, at least 1")
    return batch_size
