"""A plan in plain text, for `print(plan)`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hetero_mtf.planning.layout.records import CollectiveRule, LayerLayout, Prediction, Proof, Stage
from hetero_mtf.planning.names import STALE_SCHEDULES
from hetero_mtf.planning.plan.plan_record import PlanRecord
from hetero_mtf.planning.schedule.microbatches import microbatch_sizes
from hetero_mtf.planning.schedule.stale import StaleOptions, delays
from hetero_mtf.units import bytes_text, seconds_text

Part = tuple[int | None, ...]  # what a processor has of a layer, see `processor_parts`; None is a number that the plan lacks


def plan_text(plan: PlanRecord) -> str:
    """Return the plan as text: a line a layer with its layout and each device's part of it, then the prediction.

    A device has units of a layer split by channels, samples of one split by the batch, "samples x units" of one split by both.
    """
    lines = [
        f"Plan by strategy {plan.strategy} for network {plan.digest} ({plan.dtype}), batch size {plan.batch_size}, {execution_text(plan)}",
        f"Devices: {', '.join(plan.devices)}",
    ]
    lines += [f"What-if, not measured: {clause}" for clause in plan.what_if]
    for index, stage in enumerate(plan.stages):
        names = [plan.devices[d] for d in stage.devices]
        lines += [f"Stage {index} on {', '.join(names)}", *(f"  {line}" for line in aligned(stage_rows(stage, plan.devices)))]
    if plan.collectives:
        lines.append(f"All-reduces: {', '.join(_rule_text(rule) for rule in plan.collectives)}")
    if plan.gradient_sync == "all_reduce" and any(entry.copied_along for stage in plan.stages for entry in stage.layouts):
        lines.append(_bucket_text(plan.bucket_bytes))
    if plan.predicted is not None:
        lines += _prediction_lines(plan.predicted)
    if plan.proof is not None:
        lines.append(f"{proven(plan).capitalize()}: {proof_text(plan.proof)}")
    for other in plan.alternatives:
        lines.append(f"Alternative considered: {other.strategy}: {other.reason}")
    lines += [f"Device {contribution.device}: {contribution.reason}" for contribution in plan.contributions]
    return "\n".join(lines)


def plan_line(plan: PlanRecord) -> str:
    """Return a plan in one line, for `repr`: network, strategy, batch size, devices and predicted step."""
    step = "nothing predicted" if plan.predicted is None else f"predicted step {seconds_text(plan.predicted.step_s)}"
    layers = sum(len(stage.layers) for stage in plan.stages)
    stages = f" in {len(plan.stages)} stages" if len(plan.stages) > 1 else ""
    network = f"{layers} layers{stages} (digest {plan.digest}, {plan.dtype})"
    used = ", ".join(plan.devices[device] for device in plan.used)
    return f"{plan.strategy} for {network}, batch size {plan.batch_size}, on {used}, {execution_text(plan)}, {step}"


def proven(plan: PlanRecord) -> str:
    """Return what the proof of a plan is about: its layouts, or the partition of a pipeline."""
    return "partition" if len(plan.stages) > 1 else "layouts"


def proof_text(proof: Proof) -> str:
    """Return the status, value, gap and bound of a proof."""
    known = f"{seconds_text(proof.value_s)}, at most {proof.gap:.2%} above the least possible {seconds_text(proof.bound_s)}"
    return f"{proof.status}, {known} on {proof.space}"


def _rule_text(rule: CollectiveRule) -> str:
    method = f"{rule.method} ({rule.leaders or 'ring'} among leaders)" if rule.method == "two_level" else rule.method
    segments = f" in segments {', '.join(f'{part:.2f}' for part in rule.segments)}" if rule.segments else ""
    limit = "for any size" if rule.up_to_bytes is None else f"up to {bytes_text(rule.up_to_bytes)}"
    return f"{method}{segments} {limit}"


def _bucket_text(bucket_bytes: int) -> str:
    return f"Gradients: in buckets of up to {bytes_text(bucket_bytes)}" if bucket_bytes else "Gradients: each by itself"


def execution_text(plan: PlanRecord) -> str:
    """Return the execution of a plan: its schedule or asynchronous gradient synchronization, microbatches, depths, replicas."""
    words = [plan.schedule if plan.gradient_sync == "all_reduce" else f"{plan.gradient_sync}, which is not synchronous"]
    if plan.schedule in STALE_SCHEDULES and len(plan.stages) > 1:
        options = plan.stale or StaleOptions()
        late = "-".join(map(str, delays(plan.schedule, len(plan.stages), options)))
        words.append(f"not synchronous: gradients late by {late} updates by stage, {stale_text(options)}")
    if plan.microbatches > 1:
        sizes = dict.fromkeys(map(str, microbatch_sizes(plan.batch_size, plan.microbatches)))
        words.append(f"{plan.microbatches} microbatches of {' or '.join(sizes)} samples")
    if plan.depths:
        words.append(f"in flight by stage {'-'.join(map(str, plan.depths))}")
    if len(plan.replicas) > 1:
        words.append(f"replicas of {', '.join(map(str, plan.replicas[:-1]))} and {plan.replicas[-1]} samples")
    if plan.recompute:
        words.append("activations recomputed")
    return ", ".join(words)


def stale_text(options: StaleOptions) -> str:
    """Return the options of a schedule without a flush."""
    words = ["activations stored" if options.backward == "stored" else "forward passes replayed"]
    if options.accumulate > 1:
        words.append(f"gradients of {options.accumulate} batches averaged")
    if options.predict:
        words.append("weights predicted")
    if options.rates:
        words.append(f"learning rate times {'-'.join(f'{rate:g}' for rate in options.rates)} by stage")
    return ", ".join(words)


def stage_rows(stage: Stage, devices: Sequence[str]) -> list[list[str]]:
    """Return the table of a stage: a heading row, then a row a layer.

    Parameters
    ----------
    devices : names of all devices of the plan.
    """
    names = [devices[d] for d in stage.devices]
    parts = [map(part_text, processor_parts(entry, stage)) for entry in stage.layouts]
    return [["layer", "layout", *names], *([_name(entry), entry.layout, *texts] for entry, texts in zip(stage.layouts, parts))]


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the rows as lines of padded columns; the first two columns are flush left, the others flush right.

    Parameters
    ----------
    rows : (rows, columns) texts.
    """
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [cell.ljust(width) if column < 2 else cell.rjust(width) for column, (cell, width) in enumerate(zip(row, widths))]
        yield "  ".join(cells).rstrip()


def _name(entry: LayerLayout) -> str:
    return entry.name or f"layer {entry.layer}"


def processor_parts(entry: LayerLayout, stage: Stage) -> list[Part]:
    """Return each processor's part of a layer: (units,), (samples,), (positions,), (samples, units), ..., or () for all of it.

    Parameters
    ----------
    entry : the layer's layout.
    stage : its stage.
    """
    by_axis = [_numbers(parts, stage.places(axis), dict(stage.axes).get(axis, 0)) for parts, axis in entry.parts]
    return list(zip(*by_axis)) if by_axis else [()] * len(stage.devices)


def part_text(part: Part) -> str:
    """Return a processor's part of a layer for people, such as "8", "4 x 8" or "all"; "?" stands for an unknown number."""
    return " x ".join("?" if number is None else str(number) for number in part) or "all"


def _numbers(sizes: Sequence[int], places: Sequence[int], positions: int) -> list[int | None]:
    """Return each processor's number; None in a plan with faults, which can be shown all the same."""
    return [sizes[place] for place in places] if len(sizes) == positions else [None] * len(places)


def _prediction_lines(predicted: Prediction) -> list[str]:
    step, forward, backward, update = (
        seconds_text(value) for value in (predicted.step_s, predicted.forward_s, predicted.backward_s, predicted.update_s)
    )
    rows = [["device", "", "compute", "communication", "idle"]]
    for part in predicted.parts:
        rows.append([part.device, "", *(seconds_text(value) for value in (part.compute_s, part.communication_s, part.idle_s))])
    overhead = f"launch overhead {seconds_text(predicted.launch_s)}, " if predicted.launch_s > 0 else ""
    heading = f"Predicted: {step}/step ({overhead}forward {forward}, backward {backward}, update {update})"
    return [heading, *(f"  {line}" for line in aligned(rows))]
