"""Mixed precision, with loss scaling."""

import keras
from sklearn.datasets import load_digits

keras.config.set_dtype_policy("mixed_float16")

digits = load_digits()
x, y = digits.images[:600, :, :, None] / 16.0, digits.target[:600]

model = keras.Sequential(
    [
        keras.Input((8, 8, 1)),
        keras.layers.Conv2D(8, 3, padding="same", use_bias=False),
        keras.layers.BatchNormalization(),
        keras.layers.ReLU(),
        keras.layers.MaxPooling2D(),
        keras.layers.Flatten(),
        keras.layers.Dense(10, dtype="float32"),
    ]
)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.SGD(0.05, momentum=0.9), loss, metrics=["accuracy"])
history = model.fit(x, y, epochs=2, batch_size=50, validation_split=0.25, shuffle=False, verbose=0)
scores = model.evaluate(x, y, batch_size=50, verbose=0, return_dict=True)
model.save("digits.keras")
