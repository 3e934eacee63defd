"""The README's piece for users of Mesh-TensorFlow runs as printed."""

from __future__ import annotations

import pathlib
import re

import pytest

EXAMPLE = """\
import tensorflow as tf

import hetero_mtf as hm

mtf = hm.mesh.mtf  # Mesh-TensorFlow itself, which cannot be imported by its own name on today's TensorFlow


def model(mesh):  # as for Mesh-TensorFlow's own meshes
    x = mtf.import_tf_tensor(mesh, tf.eye(16), "batch:16;inputs:16")
    hidden = mtf.layers.dense(x, mtf.Dimension("hidden", 8), x.shape[1:], activation=mtf.relu, name="first")
    y = mtf.layers.dense(hidden, mtf.Dimension("outputs", 4), hidden.shape[1:], name="second")
    return mtf.reduce_mean(mtf.square(y - 1.0))


impl = hm.mesh.UnevenMeshImpl([("devices", 3)], {"hidden": "devices"}, ["cpu:0"] * 3, sizes={"hidden": [5, 2, 1]})
with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    tf.compat.v1.set_random_seed(0)
    mesh = mtf.Mesh(mtf.Graph(), "mesh")
    loss, variables = model(mesh), mesh.graph.trainable_variables
    updates = mtf.optimize.SgdOptimizer(0.3).apply_grads(mtf.gradients([loss], [v.value for v in variables]), variables)
    lowering = hm.mesh.lower(mesh.graph, {mesh: impl})
    step = [lowering.export_to_tf_tensor(loss), *(lowering.lowered_operation(update) for update in updates)]
    session.run(lowering.initializer)
    print(*(f"{session.run(step)[0]:.3f}" for _ in range(5)))
"""


@pytest.mark.slow
def test_it_trains_and_prints_falling_losses(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(EXAMPLE, "README.md", "exec"), {})
    losses = [float(word) for word in capsys.readouterr().out.split()]
    assert len(losses) == 5 and losses == sorted(losses, reverse=True) and losses[-1] < 0.5 * losses[0]


def test_the_readme_prints_these_lines_where_it_prints_any() -> None:
    readme = (pathlib.Path(__file__).parents[3] / "README.md").read_text()
    shown = [block for block in re.findall(r"^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL) if "hm.mesh.lower(" in block]
    assert shown in ([], [EXAMPLE])
