"""Examples of models with a step of their own, on generated images."""

from __future__ import annotations

import pathlib
from typing import Any

from tools.keras_io.recipe import Recipe, images, keras_images, replace, stub_addons, stub_datasets


def _digits() -> None:
    keras_images("mnist", (28, 28), 96, 32)


def _flower_network(size: int = 128, classes: int = 102) -> Any:
    """Return a small network for images (size, size, 3) in place of one that is downloaded."""
    import keras

    layers = [
        keras.Input((size, size, 3)),
        keras.layers.Conv2D(16, 7, strides=4, activation="relu"),
        keras.layers.MaxPooling2D(2),
        keras.layers.Conv2D(32, 3, activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(classes),
    ]
    network = keras.Sequential(layers)
    network.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    return network


def _flowers() -> None:
    import keras

    load_model = keras.models.load_model

    def load(path: Any, *arguments: Any, **options: Any) -> Any:
        return load_model(path, *arguments, **options) if pathlib.Path(str(path)).exists() else _flower_network()

    replace("models.load_model", load)
    stub_addons()
    seeds = {"train": (16, 0), "validation": (8, 1), "test": (8, 2)}
    splits = {name: images(count, (144, 144, 3), 102, seed) for name, (count, seed) in seeds.items()}
    stub_datasets(splits, [f"flower {i}" for i in range(102)])


RECIPES = (
    Recipe("vae", "generative/vae.py", edits=(("batch_size=128", "batch_size=32"), ("n=30", "n=3")), prepare=_digits, random=True),
    Recipe("trainer_pattern", "keras_recipes/trainer_pattern.py", prepare=_digits),
    Recipe("knowledge_distillation", "vision/knowledge_distillation.py", prepare=_digits),
    Recipe(
        "better_knowledge_distillation",
        "keras_recipes/better_knowledge_distillation.py",
        edits=(
            ("AUTO = tf.data.AUTOTUNE", "AUTO = 1"),  # draws of several threads come in any order
            ("BATCH_SIZE = 64", "BATCH_SIZE = 4"),
            ("range(25)", "range(4)"),
            # Keras 3 asks metrics for results that no step has updated
            (
                'return {"distillation_loss": self.loss_tracker.result()}',
                'self.compiled_metrics.update_state(_, student_predictions); return {"distillation_loss": self.loss_tracker.result()}',
            ),
            # and refuses to evaluate without a loss
            (
                'student_model.compile(metrics=["accuracy"])',
                'student_model.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])',
            ),
            ("steps_per_epoch=int(np.ceil(DATASET_NUM_TRAIN_EXAMPLES / BATCH_SIZE))", "steps_per_epoch=2"),
        ),
        prepare=_flowers,
    ),
)
