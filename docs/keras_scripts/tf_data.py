"""A tf.data pipeline."""

import keras
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
data = tf.data.Dataset.from_tensor_slices((rng.normal(size=(40, 5)), rng.normal(size=(40, 2))))
train, held = data.take(32).batch(8).prefetch(1), data.skip(32).batch(8)

model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(2)])
model.compile(keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(0.01, 8)), "mse")
history = model.fit(train, validation_data=held, epochs=2, shuffle=False, verbose=0)
