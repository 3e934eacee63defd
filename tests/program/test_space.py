"""Slabs of a spatial dimension, of any thickness, give one device's numbers."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.planning.layout.stage_from_layouts import full_stage
from models.unet3d import unet3d
from tests.cases import first_fast
from tests.program.oracle import Steps, our_run, worst_error
from tests.program.slab_nets import Drawn


@pytest.mark.parametrize("seed", first_fast(range(300), 8))
def test_slabs_drawn_at_random_give_the_numbers_of_one_device(seed: int) -> None:
    keras.config.set_floatx("float64")
    check(Drawn(seed))


def volume(layers: Callable[[Any], Any], size: int = 7) -> keras.Model:
    """Return a network of volumes with two channels: some layers, and three classes of each position."""
    x = keras.Input((size, size - 1, size, 2))
    return keras.Model(x, keras.layers.Conv3D(3, 1)(layers(x)))


def strided(x: Any) -> Any:
    return keras.layers.Conv3D(4, 3, 2, activation="relu")(keras.layers.ZeroPadding3D(1)(x))


def dilated(x: Any) -> Any:
    return keras.layers.Conv3D(3, 3, padding="same", dilation_rate=2, activation="tanh")(x)


def batch_norm(x: Any) -> Any:
    return keras.layers.BatchNormalization(momentum=0.7)(keras.layers.Conv3D(4, 3, padding="same")(x))


def instance_norm(x: Any) -> Any:
    return keras.layers.GroupNormalization(-1)(keras.layers.Conv3D(4, 3, padding="same")(x))


def overlapping_pools(x: Any) -> Any:
    return keras.layers.AveragePooling3D(3, 1, "same")(keras.layers.MaxPooling3D(3, 2, "same")(x))


@pytest.mark.parametrize("slabs", [(4, 3), (1, 0, 6), (2, 1, 1, 2, 1)])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("layers", [strided, dilated, batch_norm, instance_norm, overlapping_pools])
@pytest.mark.fast("strided-3-slabs1", "dilated-1-slabs2", "batch_norm-3-slabs2", "instance_norm-1-slabs0", "overlapping_pools-1-slabs1")
def test_what_other_libraries_refuse_in_uneven_slabs_has_the_numbers_of_one_device(
    layers: Callable[[Any], Any], batch: int, slabs: tuple[int, ...]
) -> None:
    """A convolution 3x3x3 of stride 2 with padding 1, dilation, batches above 1, batch and instance norm."""
    keras.config.set_floatx("float64")
    with hm.Cluster.local(["cpu:0"] * len(slabs)) as cluster:
        model = volume(layers)
        compare(model, hm.Plan.space(model, slabs, cluster, batch), cluster, batch)


@pytest.mark.parametrize("slabs", [(4, 3), (1, 6)])
def test_every_form_of_a_kernels_gradient_has_the_numbers_of_one_device(slabs: tuple[int, int]) -> None:
    """Windows over either tensor, padded beforehand or not: by more or fewer channels, at most 16, a slab thinner than its halo."""
    keras.config.set_floatx("float64")

    def convolved(x: Any) -> Any:
        for filters in (17, 17, 3, 3):
            x = keras.layers.Conv3D(filters, 3, padding="same", activation="tanh")(x)
        return x

    with hm.Cluster.local(["cpu:0"] * 2) as cluster:
        model = volume(convolved)
        compare(model, hm.Plan.space(model, slabs, cluster, 1), cluster, 1)


def unet2d() -> keras.Model:
    """Return a U-Net of images, with batch norm, pools and repetition."""
    layers = keras.layers
    x = image = keras.Input((13, 10, 1))
    x = first = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(4, 3, padding="same")(layers.Cropping2D(((1, 0), (0, 0)))(x))))
    x = layers.Conv2D(6, 3, padding="same", activation="relu")(layers.MaxPooling2D()(x))
    x = layers.Concatenate()([first, layers.UpSampling2D()(x)])
    return keras.Model(image, layers.Conv2D(3, 1)(layers.Conv2D(4, 3, padding="same", activation="relu")(x)))


@pytest.mark.parametrize("shares", [(2, 1), (5, 1, 3), (1, 0, 1)])
@pytest.mark.parametrize("build", [unet2d, lambda: unet3d(8, 2, 3, (4, 6))], ids=["2-D", "3-D"])
@pytest.mark.fast("2-D-shares0", "3-D-shares1")
def test_a_unet_in_slabs_has_the_numbers_of_one_device(build: Callable[[], keras.Model], shares: tuple[int, ...]) -> None:
    keras.config.set_floatx("float64")
    with hm.Cluster.local(["cpu:0"] * len(shares)) as cluster:
        model = build()
        compare(model, hm.Plan.space(model, shares, cluster, 2), cluster, 2)


@pytest.mark.parametrize("build", [unet2d, lambda: unet3d(8, 2, 3, (4, 6))], ids=["2-D", "3-D"])
def test_backward_passes_in_slabs_read_no_copies_that_a_step_would_keep(build: Callable[[], keras.Model]) -> None:
    """What is padded, joined or exchanged in the forward pass is made once more."""
    copies = re.compile(r"_forward/(pad|concatenate|halo)(_\d+)?/")
    with hm.Cluster.local(["cpu:0"] * 2) as cluster:
        model = build()
        x, y = np.zeros((1, *model.input_shape[1:])), np.zeros((1, *model.output_shape[1:-1]), int)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        with hm.Trainer(model, hm.Plan.space(model, [2, 1], cluster, 1), cluster, loss=loss) as trainer:
            trainer.build(x, y)
            operations = trainer._run.engine._tf_graph.get_operations()
    read = [given.name for op in operations if "_backward/" in op.name for given in op.inputs if given.op.type in ("ConcatV2", "PadV2")]
    assert [name for name in read if "concatenate" in name and "_again" in name]
    assert not [name for name in read if copies.search(name)]


def test_slabs_meet_samples_and_channels_in_one_network() -> None:
    keras.config.set_floatx("float64")
    with hm.Cluster.local(["cpu:0"] * 2) as cluster:
        model = unet2d()
        plan, batch = hm.Plan.space(model, [2, 1], cluster, 3), hm.Plan.batch(model, [2, 1], cluster, 3)
        channels = hm.Plan.filters(model, [3, 1], cluster, 3)
        (stage,), turns = plan.stages, (plan, batch, channels)
        split = [turns[at % 3].stages[0].layouts[at] for at in range(len(stage.layers))]
        kept = [entry if entry.layout in ("space", "batch", "column") else stage.layouts[at] for at, entry in enumerate(split)]
        mixed = dataclasses.replace(plan, stages=(dataclasses.replace(stage, layouts=tuple(kept)),))
        assert {entry.layout for entry in kept} == {"space", "batch", "column"}
        compare(model, mixed, cluster, 3)


def test_a_pipeline_hands_slabs_from_stage_to_stage() -> None:
    keras.config.set_floatx("float64")
    with hm.Cluster.local(["cpu:0"] * 4) as cluster:
        x = keras.Input((9, 6, 1))
        y = keras.layers.Conv2D(3, 3, 2, padding="same", activation="tanh")(keras.layers.Conv2D(4, 3, padding="same")(x))
        model = keras.Model(x, keras.layers.Conv2D(3, 3, padding="same")(y))
        whole = hm.Plan.space(model, [2, 1], cluster=dataclasses.replace(cluster.record, devices=cluster.record.devices[:2]), batch_size=4)
        entries = whole.stages[0].layouts
        stages = tuple(full_stage(entries[a:b], devices) for a, b, devices in ((0, 2, (0, 1)), (2, 4, (2, 3))))
        names = tuple(device.name for device in cluster.devices)
        plan = dataclasses.replace(whole, devices=names, strategy="pipeline", stages=stages, schedule="1f1b", microbatches=2)
        compare(model, plan, cluster, 4)


def check(drawn: Drawn) -> None:
    """Compare the plan of a drawn network with one device."""
    with hm.Cluster.local(["cpu:0"] * drawn.devices) as cluster:
        compare(drawn.model, drawn.plan(cluster), cluster, drawn.batch, drawn.logits)


def compare(model: keras.Model, plan: hm.Plan, cluster: Any, batch: int, logits: bool = True) -> None:
    """Train five steps by a plan and on one device, in float64, and compare losses and weights."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(batch, *model.input_shape[1:]))
    batches = Steps([x] * 5, [rng.integers(0, 3, (batch, *model.output_shape[1:-1]))] * 5, [None] * 5)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=logits)
    losses, weights, _ = our_run(model, plan, cluster, keras.optimizers.SGD(0.01, momentum=0.9), loss, batches)
    single = hm.Plan.single(model, 0, cluster, batch)
    expected_losses, expected, _ = our_run(model, single, cluster, keras.optimizers.SGD(0.01, momentum=0.9), loss, batches)
    assert np.all(np.isfinite(expected_losses))
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-8, atol=1e-8, err_msg=str(plan.stages))
    assert worst_error(expected, weights) <= 1e-8, plan.stages
