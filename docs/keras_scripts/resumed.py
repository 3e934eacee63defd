"""A training that goes on where it was killed."""

import keras
import numpy as np

rng = np.random.default_rng(0)
x, y = rng.normal(size=(40, 6)), rng.normal(size=(40, 1))

model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(1)])
model.compile(keras.optimizers.Adam(0.01), "mse")
backup = keras.callbacks.BackupAndRestore("backup")
history = model.fit(x, y, epochs=6, batch_size=10, callbacks=[backup], shuffle=False, verbose=0)
