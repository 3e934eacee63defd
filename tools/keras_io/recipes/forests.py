"""The example of forest cover types, whose inputs are numbers and strings, on a generated table."""

from __future__ import annotations

from typing import Any

import numpy as np

from tools.keras_io.recipe import Recipe


def _cover_types() -> None:
    import pandas as pd

    rng = np.random.default_rng(0)
    cover = rng.permutation(np.arange(420) % 7)
    numbers = rng.integers(0, 300, size=(420, 10)) + 30 * cover[:, None]
    areas, soils = np.eye(4, dtype=int)[rng.permutation(np.arange(420) % 4)], np.eye(40, dtype=int)[rng.permutation(np.arange(420) % 40)]
    table = pd.DataFrame(np.concatenate([numbers, areas, soils, cover[:, None] + 1], axis=1))
    read_csv = pd.read_csv

    def read(path: Any, *arguments: Any, **options: Any) -> Any:
        return table.copy() if str(path).endswith("covtype.data.gz") else read_csv(path, *arguments, **options)

    pd.read_csv = read


RECIPES = (
    Recipe(
        "wide_deep_cross_networks",
        "structured_data/wide_deep_cross_networks.py",
        edits=(
            ("batch_size = 265", "batch_size = 64"),
            # Keras 3 refuses functions of TensorFlow on symbolic tensors
            ("lookup(tf.expand_dims(", "lookup(keras.ops.expand_dims("),
            ("encoded_feature = tf.expand_dims(", "encoded_feature = keras.ops.expand_dims("),
            # and takes the features of an ordered dictionary for its inputs in another order
            ("return dataset.cache()", "return dataset.map(lambda features, label: (dict(features), label)).cache()"),
        ),
        prepare=_cover_types,
    ),
)
