"""Callbacks that stop early, change the learning rate, and keep the best model and a log."""

import keras
import numpy as np

rng = np.random.default_rng(0)
x, y = rng.normal(size=(60, 6)), rng.integers(0, 2, 60)

model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(1, activation="sigmoid")])
model.compile(keras.optimizers.Adam(0.05), "binary_crossentropy", metrics=["accuracy"])
callbacks = [
    keras.callbacks.EarlyStopping(patience=2, restore_best_weights=True),
    keras.callbacks.ReduceLROnPlateau(factor=0.5, patience=1),
    keras.callbacks.ModelCheckpoint("best.keras", save_best_only=True),
    keras.callbacks.CSVLogger("log.csv"),
]
history = model.fit(x, y, epochs=8, batch_size=15, validation_split=0.25, callbacks=callbacks, shuffle=False, verbose=0)
