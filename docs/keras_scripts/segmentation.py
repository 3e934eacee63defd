"""A small 3-D U-Net with a Dice loss."""

import keras
import numpy as np

x = np.random.default_rng(0).normal(size=(16, 8, 8, 8, 1))
y = (x > 0.5).astype("float64")

image = keras.Input((8, 8, 8, 1))
wide = keras.layers.Conv3D(4, 3, padding="same", activation="relu")(image)
deep = keras.layers.Conv3D(8, 3, strides=2, padding="same", activation="relu")(wide)
up = keras.layers.Concatenate()([keras.layers.Conv3DTranspose(4, 2, strides=2)(deep), wide])
model = keras.Model(image, keras.layers.Conv3D(1, 1, activation="sigmoid")(up))
model.compile(keras.optimizers.SGD(0.1, momentum=0.9), keras.losses.Dice())
history = model.fit(x, y, epochs=2, batch_size=4, validation_data=(x[:8], y[:8]), shuffle=False, verbose=0)
masks = model.predict(x, batch_size=4, verbose=0) > 0.5
