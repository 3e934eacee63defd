"""One network, two tasks with losses, weights and metrics of their own."""

import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(60, 6))
targets = {"kind": rng.integers(0, 3, 60), "size": rng.normal(size=(60, 1))}

features = keras.Input((6,))
shared = keras.layers.Dense(8, activation="tanh")(features)
outputs = {
    "kind": keras.layers.Dense(3, activation="softmax", name="kind")(shared),
    "size": keras.layers.Dense(1, name="size")(shared),
}
model = keras.Model(features, outputs)
model.compile(
    keras.optimizers.RMSprop(0.01),
    loss={"kind": "sparse_categorical_crossentropy", "size": "mse"},
    loss_weights={"kind": 1.0, "size": 0.1},
    metrics={"kind": ["accuracy"], "size": ["mae"]},
)
history = model.fit(x, targets, epochs=2, batch_size=20, shuffle=False, verbose=0)
