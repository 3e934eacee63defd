"""Examples whose layers add the loss, or whose classes are models of their own, on generated data."""

from __future__ import annotations

import pathlib

import numpy as np

from tools.keras_io.recipe import Recipe, files, images, replace, written_csv, written_image


def _captchas() -> None:
    letters = np.random.default_rng(0).choice(list("2345678bcdefgmnpwxy"), size=(40, 5))
    pixels, _ = images(40, (50, 200), 40)
    for letter, picture in zip(letters, pixels, strict=True):
        written_image(pathlib.Path("captcha_images_v2", "".join(letter) + ".png"), picture)


def _houses() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(128, 13))
    y = 20 + x @ rng.normal(size=13) + rng.normal(size=128)
    replace("datasets.boston_housing.load_data", lambda *arguments, **options: ((x[:96], y[:96]), (x[96:], y[96:])))


def _ratings(folder: pathlib.Path) -> pathlib.Path:
    rng = np.random.default_rng(0)
    pairs = rng.permutation(np.arange(20 * 30))[:400]
    columns = {"userId": pairs // 30 + 1, "movieId": pairs % 30 + 1, "rating": rng.integers(1, 11, size=400) / 2, "timestamp": pairs}
    written_csv(folder / "ml-latest-small" / "ratings.csv", columns)
    films = {"movieId": range(1, 41), "title": [f"Film {i}" for i in range(40)], "genres": ["Comedy"] * 40}
    written_csv(folder / "ml-latest-small" / "movies.csv", films)
    return folder / "ml-latest-small.zip"


def _films() -> None:
    files(_ratings)


RECIPES = (
    Recipe(
        "endpoint_layer_pattern",
        "keras_recipes/endpoint_layer_pattern.py",
        # add_metric is not in Keras 3
        edits=(("self.add_metric(self.accuracy_fn(targets, logits, sample_weight))", "self.accuracy_fn(targets, logits, sample_weight)"),),
    ),
    Recipe(
        "captcha_ocr",
        "vision/captcha_ocr.py",
        edits=(('model.get_layer(name="image").input', 'model.get_layer(name="image").output'),),  # in Keras 3 an input layer has no input
        prepare=_captchas,
    ),
    Recipe("tensorflow_numpy_models", "keras_recipes/tensorflow_numpy_models.py", prepare=_houses),
    # "lr" has another name in Keras 3
    Recipe(
        "collaborative_filtering_movielens",
        "structured_data/collaborative_filtering_movielens.py",
        edits=(("lr=0.001", "learning_rate=0.001"),),
        prepare=_films,
    ),
)
