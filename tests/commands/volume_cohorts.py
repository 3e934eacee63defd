"""Small cohorts of volumes whose classes differ in one corner, and a small network for them."""

import pathlib

import nibabel
import numpy as np

from tests.data.volumes.nifti_files import write_scan, write_table

SIZE = 8
HEADER = ("participant_id", "session", "diagnosis", "path")
MODEL = """
import keras
import numpy as np

def net(size=8, classes=2, channels=1, filters=4, activation=None):
    layers = keras.layers
    inputs = x = keras.Input((size, size, size, channels))
    x = layers.Conv3D(filters, 3, padding="same", activation="relu", name="first")(x)
    x = layers.AveragePooling3D(2, name="pool")(x)
    x = layers.Conv3D(4, 3, padding="same", activation="relu", name="second")(x)
    x = layers.Flatten(name="flatten")(x)
    return keras.Model(inputs, layers.Dense(classes, activation=activation, name="head")(x))

def bright():
    layers = keras.layers
    inputs = x = keras.Input((8, 8, 8, 1))
    x = layers.AveragePooling3D(2, name="pool")(x)
    start = {"kernel_initializer": "ones", "bias_initializer": keras.initializers.Constant(-1.0)}
    x = layers.Conv3D(1, 1, activation="relu", name="above", **start)(x)
    x = layers.GlobalAveragePooling3D(name="mean")(x)
    model = keras.Model(inputs, layers.Dense(2, name="head")(x))
    model.get_layer("head").set_weights([np.array([[5.0, -5.0]]), np.array([-0.5, 0.5])])
    return model

def flat():
    return keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Flatten(), keras.layers.Dense(2)])
"""
AXES = ("RAS", "LAS", "PSR", "AIL")  # in turn


def corner(label: str, seed: int) -> np.ndarray:
    """Return a volume in RAS order that is bright at the left, back and bottom if it is of class AD."""
    values = np.random.default_rng(seed).normal(100, 10, (SIZE,) * 3)
    if label == "AD":
        values[: SIZE // 2, : SIZE // 2, : SIZE // 2] += 60
    return values.astype(np.float32)


def turned(values: np.ndarray, axes: str) -> nibabel.Nifti1Image:
    """Return a volume in RAS order as an image whose axes point elsewhere."""
    wanted = nibabel.orientations.axcodes2ornt(axes)
    return nibabel.Nifti1Image(values, np.diag([2.0, 2, 2, 1])).as_reoriented(
        nibabel.orientations.ornt_transform(nibabel.orientations.axcodes2ornt("RAS"), wanted)
    )


def write_corners(folder: pathlib.Path, count: int = 12) -> pathlib.Path:
    """Write scans of two classes in turned axes, with their table, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for number in range(count):
        label, axes = ("AD", "NC")[number % 2], AXES[number // 2 % len(AXES)]
        nibabel.save(turned(corner(label, number), axes), folder / f"{number}.nii.gz")
        rows.append((f"sub-{number:02d}", "n/a", label, f"{number}.nii.gz"))
    return write_table(folder, *rows, header=HEADER)


def write_faulty(folder: pathlib.Path) -> pathlib.Path:
    """Write a cohort with a fault of every kind, and return its table."""
    for number in range(6):
        write_scan(folder / f"{number}.nii.gz", corner("NC", number))
    (folder / "gzip.nii.gz").write_bytes((folder / "0.nii.gz").read_bytes()[:200])
    write_scan(folder / "slice.nii", corner("NC", 1)[0])
    write_scan(folder / "nan.nii", np.full((SIZE,) * 3, np.nan, np.float32))
    scans = [("sub-00", "AD", "0.nii.gz"), ("sub-01", "NC", "1.nii.gz"), ("sub-02", "AD", "2.nii.gz"), ("sub-03", "NC", "3.nii.gz")]
    scans += [("sub-04", "AD", "gzip.nii.gz"), ("sub-05", "NC", "slice.nii"), ("sub-06", "NC", "nan.nii"), ("sub-07", "NC", "gone.nii")]
    scans += [("sub-00", "AD", "4.nii.gz"), ("sub-08", "MCI", "5.nii.gz"), ("sub-09", "FTD", "gone-too.nii"), ("sub-10", "n/a", "0.nii")]
    return write_table(folder, *((who, "n/a", label, path) for who, label, path in scans), header=HEADER)
