"""Words that refuse what would not be honoured; what they compute is tested with the layers that use them."""

from __future__ import annotations

import types

import pytest
import tensorflow as tf

from hetero_mtf.errors import LayoutError
from hetero_mtf.mesh.compat import mtf
from hetero_mtf.program.ops.spatial import SpaceOps
from hetero_mtf.program.ops.value import Value
from tests.mesh.running import shape


@pytest.mark.parametrize("features, target, dims", [(1, (4, 12), (1, 3, 2)), (3, (1, 1, 48), (1,))])
def test_channels_that_are_split_cannot_be_moved(features: int, target: tuple[int, ...], dims: tuple[int, ...]) -> None:
    mesh = mtf.Mesh(mtf.Graph(), "mesh")
    tensor = mtf.import_tf_tensor(mesh, tf.zeros((2, 3, 4, 4)), shape(batch=2, space0=3, space1=4, layer0=4))
    x = Value(tensor, (3, 1), features)
    site = types.SimpleNamespace(layer=types.SimpleNamespace(output_shape=target), index=1)
    words = "moves the channels of an input that is split [3, 1]; give the layer whole channels"
    with pytest.raises(LayoutError) as caught:
        SpaceOps.reshape(site, x)  # type: ignore[arg-type]
    assert str(caught.value) == f"a Reshape {words}"
    with pytest.raises(LayoutError) as caught:
        SpaceOps.permute(site, x, dims)  # type: ignore[arg-type]
    assert str(caught.value) == f"a Permute {words}"
