from __future__ import annotations

import math
import pathlib

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.keras_reading.layer_graph import layer_graph
from hetero_mtf.planning.layout.blocks import blocks
from models.resattnet3d import resattnet18, resattnet34, resattnet_small
from models.volume import resnet18_3d
from tools.generated.profiles import Figures, Interconnect, generated_profile


def _named(model: keras.Model, kind: str) -> list[keras.layers.Layer]:
    return [layer for layer in model.layers if type(layer).__name__ == kind]


def _trained(model: keras.Model) -> int:
    return sum(math.prod(variable.shape) for variable in model.trainable_variables)


@pytest.mark.slow
@pytest.mark.parametrize(("build", "blocks"), [(resattnet18, (2, 2, 2, 2)), (resattnet34, (3, 4, 6, 3))])
def test_it_has_as_many_blocks_as_its_layers_say_and_attention_behind_two_downsamplings(build, blocks: tuple[int, ...]) -> None:
    model = build(48, width=4)
    windows = [layer.kernel.shape[0] for layer in _named(model, "Conv3D")]
    assert (windows.count(3), windows.count(1)) == (1 + 2 * sum(blocks), 3 + 2 * 3)
    ends = [model.get_layer(f"block{stage}_{count}_add").output.shape[1:] for stage, count in enumerate(blocks, 1)]
    assert ends == [(24, 24, 24, 4), (12, 12, 12, 8), (6, 6, 6, 16), (3, 3, 3, 32)]
    assert [layer.output.shape[1:] for layer in _named(model, "Attention")] == [(216, 16), (27, 32)]
    assert [layer.name for layer in _named(model, "ResidualWeight")] == ["attention3_weight", "attention4_weight"]


@pytest.mark.slow
def test_it_has_the_weights_of_a_residual_network_and_of_its_attention() -> None:
    plain, attended, reduced = resattnet18(attention=()), resattnet18(attention=(4, 3)), resattnet18(attention=[4], reduction=8)
    assert _trained(plain) == _trained(resnet18_3d(64))
    assert _trained(attended) - _trained(plain) == sum(3 * (n * n + n) + 1 for n in (128, 256))
    assert _trained(reduced) - _trained(plain) == sum(n * n + n + 2 * (n * n // 8 + n // 8) + 1 for n in (256,))


@pytest.mark.slow
def test_at_first_the_attention_changes_nothing() -> None:
    model = resattnet_small()
    before = keras.Model(model.input, model.get_layer("block2_1_relu2").output)
    behind = keras.Model(model.input, model.get_layer("attention2_add").output)
    x = np.random.default_rng(0).normal(size=(2, 16, 16, 16, 1)).astype(np.float32)
    np.testing.assert_array_equal(before.predict(x, verbose=0), behind.predict(x, verbose=0))


@pytest.mark.slow
def test_blocks_of_a_pipeline_end_behind_sums_and_every_strategy_finds_a_plan() -> None:
    graph = layer_graph(resattnet18(48))
    ends = [graph.layers[block[-1]].name for block in blocks(graph)]
    sums = [layer.name for layer in graph.layers if layer.kind == "Add"]
    assert [name for name in ends if not name.endswith("relu2")] == ["start", "start_norm", "start_relu", *sums, "mean", "logits"]
    profile = generated_profile(graph, [Figures(5e10), Figures(2.5e10)], 8, Interconnect(devices_per_host=1))
    made = hm.plan(profile)
    assert {"single", "equal", "filters", "batch", "layers", "pipeline"} <= {other.strategy for other in made.alternatives} | {
        made.strategy
    }
    assert made.alternatives[0].step_s is not None and made.predicted.step_s <= min(o.step_s for o in made.alternatives if o.step_s)


@pytest.mark.slow
def test_scores_begin_with_a_variance_of_about_one() -> None:
    keras.utils.set_random_seed(0)
    model = resattnet18(32, attention=(3,))
    parts = keras.Model(model.input, [model.get_layer(f"attention3_{part}_positions").output for part in ("query", "key")])
    query, key = map(np.asarray, parts(np.random.default_rng(0).normal(size=(2, 32, 32, 32, 1)), training=True))
    assert not np.allclose(query, key)
    assert 0.5 < np.matmul(query, key.transpose(0, 2, 1)).var() < 2


def test_attention_where_positions_are_many_is_refused() -> None:
    with pytest.raises(ValueError, match="attention1 has 13824 positions, whose scores take 729 MiB a volume in float32; give att"):
        resattnet18(48, attention=(1, 3))


@pytest.mark.parametrize("stages", [(0,), (3, 5)])
def test_attention_in_a_stage_that_is_not_there_is_refused(stages: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=rf"attention in stages \[{stages[-1]}\] of 4; give numbers from 1 to 4"):
        resattnet18(attention=stages)


@pytest.mark.slow
def test_it_learns_to_tell_volumes_apart() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(32) % 2
    x = rng.normal(size=(32, 16, 16, 16, 1))
    x[y == 1, 4:9, 4:9, 4:9] += 1.0
    keras.utils.set_random_seed(0)
    model = resattnet_small()
    model.compile(keras.optimizers.Adam(3e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    assert model.fit(x, y, batch_size=8, epochs=6, verbose=0).history["accuracy"][-1] > 0.9
    assert float(model.get_layer("attention2_weight").weight) != 0.0


@pytest.mark.slow
def test_it_comes_back_from_a_file_with_its_weights(tmp_path: pathlib.Path) -> None:
    model = resattnet_small(8)
    model.get_layer("attention2_weight").weight.assign(0.3)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    x = np.random.default_rng(0).normal(size=(2, 8, 8, 8, 1))
    np.testing.assert_allclose(again.predict(x, verbose=0), model.predict(x, verbose=0), rtol=1e-6)
