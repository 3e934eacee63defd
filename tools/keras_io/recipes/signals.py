"""Recipes of examples of sounds, point clouds and tables."""

from __future__ import annotations

import os
import pathlib
import types
import zlib
from typing import Any

import numpy as np

from tools.keras_io.recipe import Recipe, files, stub_module, written_csv, written_wave

_SOLIDS = ("bathtub", "bed", "chair", "desk", "dresser", "monitor", "night_stand", "sofa", "table", "toilet")


def _speakers() -> None:
    root, rng = pathlib.Path(os.path.expanduser("~")) / "Downloads" / "16000_pcm_speeches", np.random.default_rng(0)
    seconds = np.arange(16000) / 16000
    for i, speaker in enumerate(("ann", "ben", "cleo", "dan", "eve")):
        for j in range(16):
            tone = np.sin(2 * np.pi * (150 + 60 * i) * seconds * rng.uniform(0.95, 1.05))
            written_wave(root / speaker / f"{j}.wav", 0.4 * tone + 0.05 * rng.normal(size=16000))
    for folder in ("other", "_background_noise_"):
        for j in range(2):
            written_wave(root / folder / f"{j}.wav", 0.3 * rng.normal(size=3 * 16000))


def _solids() -> None:
    def write(folder: pathlib.Path) -> pathlib.Path:
        for solid in _SOLIDS:
            for part, count in (("train", 2), ("test", 1)):
                for i in range(1, count + 1):
                    file = folder / "ModelNet10" / solid / part / f"{solid}_{i:04}.off"
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.touch()
        return folder / "modelnet.zip"

    def load(file: str) -> Any:
        rng = np.random.default_rng(zlib.crc32(pathlib.Path(file).name.encode()))
        axes = 0.5 + np.random.default_rng(_SOLIDS.index(pathlib.Path(file).parts[-3])).random(3)
        return types.SimpleNamespace(sample=lambda count: axes * rng.uniform(-1, 1, size=(count, 3)), show=lambda: None)

    stub_module("trimesh", load=load)
    files(write)


def _payments() -> None:
    rng, count = np.random.default_rng(0), 6000
    labels = (rng.random(count) < 0.02).astype(int)
    columns = {f'"V{i}"': np.round(rng.normal(labels * (i % 3), 1.0), 6) for i in range(1, 31)}
    written_csv(pathlib.Path("creditcard.csv"), {**columns, '"Class"': [f'"{label}"' for label in labels]})


RECIPES = (
    Recipe("speaker_recognition_using_cnn", "audio/speaker_recognition_using_cnn.py", (("BATCH_SIZE = 128", "BATCH_SIZE = 8"),), _speakers),
    Recipe(
        "pointnet",
        "vision/pointnet.py",
        (("BATCH_SIZE = 32", "BATCH_SIZE = 8"), ("tf.eye(num_features)", "tf.eye(num_features, dtype=keras.backend.floatx())")),
        _solids,
    ),
    Recipe(
        "imbalanced_classification",
        "structured_data/imbalanced_classification.py",
        (('"/Users/fchollet/Downloads/creditcard.csv"', '"creditcard.csv"'),),
        _payments,
    ),
)
