"""Whether a change of the planner changes a plan: 1,088 plans of 64 generated profiles, bit for bit.

The first run writes profiles and plans into a folder; a later one, of changed code, reads the profiles, plans again and lists every plan
that differs: a field of it, or the exception that is raised instead. Sentences for people (reasons, what-if clauses, the space of a proof)
are not compared. No device is needed. Some twenty minutes on one core; `--only` takes some of the networks.

    git checkout OLD && python -m tools.plan_snapshot snapshot/
    git checkout NEW && python -m tools.plan_snapshot snapshot/
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import pathlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import click
import numpy as np

import hetero_mtf as hm

CLUSTERS = {2: (3e10, 1.5e10), 3: (3e10, 1.1e10, 7e9), 4: (3e10, 3e10, 1.2e10, 1.2e10), 5: (4e10, 2e10, 2e10, 1e10, 5e9)}
LINKS = {"fast": (2e-5, 3e9), "slow": (2e-4, 2e8)}
BATCHES = {"digits": 64, "cifar": 64, "mnist": 100, "vgg8": 32, "resnet18": 32, "residual20": 32, "alexnet": 32, "resnet10_3d": 8}


def graphs() -> Iterator[tuple[str, Any]]:
    """Yield the example networks as graphs, by name."""
    from hetero_mtf.keras_reading.layer_graph import layer_graph
    from models import alexnet, digits, paper_a, residual, vgg, volume

    makers: dict[str, Callable[[], Any]] = {
        "digits": digits.wide_digits,
        "cifar": paper_a.cifar,
        "mnist": paper_a.mnist,
        "vgg8": vgg.vgg8,
        "resnet18": residual.resnet18,
        "residual20": lambda: residual.residual(20),
        "alexnet": alexnet.alexnet,
        "resnet10_3d": volume.resnet10_3d,
    }
    for name, make in makers.items():
        yield name, layer_graph(make())


def write_profiles(folder: pathlib.Path) -> None:
    """Write a profile for each network, cluster and speed of links; the curves are noisy, so that no two plans cost the same."""
    from tools.generated.profiles import Figures, Interconnect, generated_profile

    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for name, graph in graphs():
        for devices, flops in CLUSTERS.items():
            for at, (speed, (latency_s, bytes_per_s)) in enumerate(LINKS.items()):
                memory_bytes = 2**34 if (devices + at) % 2 else 3 * 2**28
                figures = [Figures(f, memory_bytes_per_s=f / 3, memory_bytes=memory_bytes) for f in flops]
                links = Interconnect(2, latency_s, bytes_per_s, 2 * latency_s, bytes_per_s / 3)
                profile = generated_profile(graph, figures, BATCHES[name], links)
                curves = tuple(
                    dataclasses.replace(curve, seconds=tuple((np.array(curve.seconds) * rng.lognormal(0.0, 0.1)).tolist()))
                    for curve in profile.curves
                )
                dataclasses.replace(profile, curves=curves).save(folder / f"{name}-{devices}-{speed}.json")


def questions(profile: Any) -> dict[str, Callable[[], Any]]:
    """Return what is asked of the planner for a profile, by name."""
    first, last = profile.cluster.devices[0].name, profile.cluster.devices[-1].name
    names = ("auto", "single", "equal", "filters", "batch", "hybrid", "grid", "layers", "pipeline")
    pipelines = {
        "genetic": {"allocator": "genetic", "groups": False, "replicas": 1, "microbatches": 4},
        "fill_drain": {"schedule": "fill_drain", "groups": False, "microbatches": 2, "recompute": True},
        "proportional": {"allocator": "proportional", "groups": False, "microbatches": 4},
    }
    what_ifs = {
        "filters": hm.WhatIf(scale=((first, 2.0),), bandwidth=0.5),
        "batch": hm.WhatIf(add_like=(last,)),
        "hybrid": hm.WhatIf(batch_size=2 * profile.batch_size),
        "layers": hm.WhatIf(memory=((first, 2**24),)),
    }
    asked: dict[str, Callable[[], Any]] = {name: lambda name=name: hm.plan(profile, strategy=name) for name in names}
    asked["mixing"] = lambda: hm.plan(profile, strategy="batch", gradient_sync="butterfly_mixing")
    for name, options in pipelines.items():
        asked[f"pipeline-{name}"] = lambda o=options: hm.plan(profile, strategy="pipeline", pipeline=hm.PipelineOptions(**o))
    for name, what_if in what_ifs.items():
        asked[f"if-{name}"] = lambda name=name, what_if=what_if: hm.plan_if(profile, what_if, strategy=name)
    return asked


def answer(ask: Callable[[], Any]) -> dict[str, Any]:
    """Return a plan as JSON, or the name of the exception that is raised instead."""
    try:
        return dict(ask().to_json())
    except hm.errors.HeteroError as fault:
        return {"refused": type(fault).__name__}


def without_sentences(plan: dict[str, Any]) -> dict[str, Any]:
    """Return a plan without what is written for people."""
    plan = json.loads(json.dumps(plan))
    plan.pop("what_if", None)
    (plan.get("proof") or {}).pop("space", None)
    for entry in (*plan.get("alternatives", ()), *plan.get("contributions", ())):
        entry.pop("reason", None)
    return plan


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Return the lines of a plan that differ."""
    texts = [json.dumps(without_sentences(plan), indent=0, sort_keys=True).splitlines() for plan in (before, now)]
    return [line for line in difflib.unified_diff(*texts, n=0, lineterm="") if line[:2] not in ("--", "++", "@@")]


@click.command()
@click.argument("folder", type=click.Path(path_type=pathlib.Path))
@click.option("--only", default="", help="Beginning of the profiles' names, such as digits-2; all by default.")
def main(folder: pathlib.Path, only: str) -> None:
    """Write the plans of generated profiles, or compare them with those written before."""
    if not (folder / "profiles").exists():
        write_profiles(folder / "profiles")
    compared = written = unequal = 0
    for path in sorted((folder / "profiles").glob(f"{only}*.json")):
        for name, ask in questions(hm.Profile.load(path)).items():
            place = folder / "plans" / f"{path.stem}--{name}.json"
            now = answer(ask)
            if not place.exists():
                place.parent.mkdir(exist_ok=True)
                place.write_text(json.dumps(now))
                written += 1
                continue
            before = json.loads(place.read_text())
            compared += 1
            if "refused" not in before:
                before = hm.Plan.from_json(before).to_json()
            lines = differences(before, now)
            if lines:
                unequal += 1
                click.echo(f"{place.stem}: {' '.join(lines)[:300]}")
    click.echo(f"{written} plans written, {compared} compared, {unequal} of them unequal")
    sys.exit(bool(unequal))


if __name__ == "__main__":
    main()
