"""Sentences of different lengths to classes."""

import keras
import numpy as np

rng = np.random.default_rng(0)
words = rng.integers(1, 50, (64, 12))
words[::2, 8:] = 0  # shorter sentences are padded
classes = rng.integers(0, 3, 64)

sentence = keras.Input((12,), dtype="int32")
x = keras.layers.Embedding(50, 8, mask_zero=True)(sentence)
x = keras.layers.Bidirectional(keras.layers.LSTM(6))(x)
model = keras.Model(sentence, keras.layers.Dense(3, activation="softmax")(x))
model.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy", metrics=["accuracy"])
history = model.fit(words, classes, epochs=2, batch_size=16, shuffle=False, verbose=0)
