"""Recipes of examples that classify or make text."""

from __future__ import annotations

import functools
import pathlib

from tools.keras_io.recipe import Recipe, keras_reviews, words


def _reviews() -> None:
    for i, folder in enumerate(("train/pos", "train/neg", "test/pos", "test/neg")):
        place = pathlib.Path("aclImdb") / folder
        place.mkdir(parents=True)
        for j in range(16):
            (place / f"{j}.txt").write_text(f"this movie is {words(90, seed=16 * i + j)}.<br /> {words(20, seed=99 - j)}!")


RECIPES = (
    Recipe("addition_rnn", "nlp/addition_rnn.py", (("TRAINING_SIZE = 50000", "TRAINING_SIZE = 1000"), ("epochs = 30", "epochs = 3"))),
    Recipe(
        "text_classification_with_transformer",
        "nlp/text_classification_with_transformer.py",
        (("def call(self, inputs, training):", "def call(self, inputs, training=None):"),),
        functools.partial(keras_reviews, 400, 100),
    ),
    Recipe(
        "text_generation_with_miniature_gpt",
        "generative/text_generation_with_miniature_gpt.py",
        (
            ("vocab_size = 20000", "vocab_size = 300"),
            ("max_tokens=vocab_size - 1", "max_tokens=vocab_size"),  # the callback looks any token up that the network predicts
            ("batch_size = 128", "batch_size = 16"),
        ),
        _reviews,
    ),
)
