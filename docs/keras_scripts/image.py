"""Handwritten digits, a convolutional network."""

import keras
from sklearn.datasets import load_digits

digits = load_digits()
x, y = digits.images[:600, :, :, None] / 16.0, digits.target[:600]

model = keras.Sequential(
    [
        keras.Input((8, 8, 1)),
        keras.layers.Conv2D(8, 3, padding="same", activation="relu"),
        keras.layers.BatchNormalization(),
        keras.layers.MaxPooling2D(),
        keras.layers.Flatten(),
        keras.layers.Dense(10, activation="softmax"),
    ]
)
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
history = model.fit(x, y, epochs=2, batch_size=50, validation_split=0.25, shuffle=False, verbose=0)
scores = model.evaluate(x, y, batch_size=50, verbose=0, return_dict=True)
model.save("digits.keras")
