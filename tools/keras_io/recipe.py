"""How an example of keras.io is run on generated data: the record `Recipe`, and the data, downloads and modules that stand in."""

from __future__ import annotations

import dataclasses
import importlib
import pathlib
import sys
import types
import wave
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np


def nothing() -> None:
    """Prepare nothing."""


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How one example is run.

    Parameters
    ----------
    name : of the example in the table.
    path : of the script below the folder `examples` of the checkout.
    edits : (old, new) texts of the script; each old one must occur exactly once. They are applied under Keras alone too.
    prepare : called in the run's own process before the script, the working directory and home folder being an empty folder. It
        replaces downloads by generated data, and modules that are not installed by stand-ins. It may import TensorFlow and Keras;
        the module of the recipe must not.
    epochs : the most epochs of a call of `fit`.
    random : whether the network draws random numbers while it trains, other than dropout; then runs of five seeds are compared.
    single : whether the script needs float32, because it names that type itself; else it runs in float64.
    distribute : (old, new) texts by which the model is distributed, where `X = hm.distribute(X, hm_cluster)` directly after each
        `X.compile(...)` is not right. The names `hm` and `hm_cluster` are known from the first line on.
    """

    name: str
    path: str
    edits: tuple[tuple[str, str], ...] = ()
    prepare: Callable[[], None] = nothing
    epochs: int = 2
    random: bool = False
    single: bool = False
    distribute: tuple[tuple[str, str], ...] | None = None


class Anything:
    """An object whose attributes, items and calls are such objects too: it stands in for what only shows something."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Anything()

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return Anything()

    def __getitem__(self, key: Any) -> Any:
        return Anything()

    def __iter__(self) -> Any:
        return iter(())


def stub_module(name: str, **attributes: Any) -> types.ModuleType:
    """Return a module that stands in for one that is not installed; attributes that are not given are `Anything`.

    Parameters
    ----------
    name : as it is imported, with dots; the packages above it are made where they do not exist.
    attributes : its attributes.
    """
    module = types.ModuleType(name)
    module.__dict__.update(attributes)
    module.__dict__["__path__"] = []
    module.__dict__["__getattr__"] = lambda key: Anything().__getattr__(key)
    sys.modules[name] = module
    package, _, last = name.rpartition(".")
    if package:
        setattr(sys.modules.get(package) or stub_module(package), last, module)
    return module


def replace(name: str, new: Any) -> None:
    """Replace a function of Keras in the three packages that have it: `keras`, `tensorflow.keras` and the one behind both.

    Parameters
    ----------
    name : such as "utils.get_file" or "datasets.mnist.load_data".
    new : the function that takes its place.
    """
    folder, _, last = name.rpartition(".")
    for package in ("keras", "keras._tf_keras.keras", "keras.src"):
        try:
            module: Any = importlib.import_module(package)
            for part in folder.split("."):
                module = getattr(module, part, None) or importlib.import_module(f"{module.__name__}.{part}")
        except ImportError:
            continue
        setattr(module, last, new)


def images(count: int, shape: Sequence[int], classes: int = 10, seed: int = 0) -> tuple[Any, Any]:
    """Return images in uint8 and their labels (count,) in uint8; each class has a mean image of its own.

    Parameters
    ----------
    count : of images.
    shape : of an image, such as (28, 28) or (32, 32, 3).
    classes : number of labels.
    seed : of the draw; images of another seed have the same classes.
    """
    means = np.random.default_rng(7).uniform(40, 215, size=(classes, *shape))
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(count) % classes).astype("uint8")
    return np.clip(means[labels] + rng.normal(0, 40, size=(count, *shape)), 0, 255).astype("uint8"), labels


def sequences(count: int, length: int, vocabulary: int, classes: int = 2, seed: int = 0) -> tuple[Any, Any]:
    """Return lists of token numbers from 1, half to all of a length long, as an object array, and their labels (count,).

    Parameters
    ----------
    count : of sequences.
    length : the longest sequence.
    vocabulary : numbers of tokens end before it.
    classes : number of labels; each class prefers tokens of its own.
    seed : of the draw.
    """
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(count) % classes)
    lists = np.empty(count, dtype=object)
    for i, label in enumerate(labels):
        tokens = rng.integers(1, vocabulary, size=int(rng.integers(length // 2, length + 1)))
        lists[i] = [int(token) for token in np.where(rng.random(len(tokens)) < 0.2, label + 1, tokens)]
    return lists, labels


def words(count: int, seed: int = 0, vocabulary: int = 500) -> str:
    """Return a text of made-up lower-case words with spaces between, the frequent ones short.

    Parameters
    ----------
    count : of words.
    seed : of the draw.
    vocabulary : number of different words.
    """
    letters = np.random.default_rng(11)
    known = ["".join(letters.choice(list("etaoinshrdlu"), size=2 + i % 7)) for i in range(vocabulary)]
    rng = np.random.default_rng(seed)
    return " ".join(known[i] for i in np.minimum(rng.zipf(1.3, size=count) - 1, vocabulary - 1))


def keras_images(name: str, shape: Sequence[int], train: int, test: int, classes: int = 10, column: bool = False) -> None:
    """Replace `keras.datasets.NAME.load_data` by one of generated images.

    Parameters
    ----------
    name : such as "mnist" or "cifar10".
    shape : of an image.
    train, test : number of images.
    classes : number of labels.
    column : whether labels are (count, 1) as those of CIFAR, else (count,).
    """

    def load_data(*arguments: Any, **options: Any) -> Any:
        parts = [images(count, shape, classes, seed) for count, seed in ((train, 0), (test, 1))]
        return tuple((x, y[:, None] if column else y) for x, y in parts)

    replace(f"datasets.{name}.load_data", load_data)


def keras_reviews(train: int, test: int, length: int = 250) -> None:
    """Replace `keras.datasets.imdb.load_data` by one of generated reviews.

    Parameters
    ----------
    train, test : number of reviews.
    length : of the longest one.
    """

    def load_data(*arguments: Any, num_words: int = 20000, **options: Any) -> Any:
        return tuple(sequences(count, length, num_words, 2, seed) for count, seed in ((train, 0), (test, 1)))

    replace("datasets.imdb.load_data", load_data)


def files(write: Callable[[pathlib.Path], pathlib.Path]) -> None:
    """Replace `keras.utils.get_file` by one that returns the path of a written file or folder.

    Parameters
    ----------
    write : given the folder (the working directory) as a path, writes the files there and returns the path that `get_file` is to return.
    """
    replace("utils.get_file", lambda *arguments, **options: str(write(pathlib.Path.cwd())))


def written_csv(path: pathlib.Path, columns: Mapping[str, Sequence[Any]], header: bool = True, separator: str = ",") -> pathlib.Path:
    """Write a table, and return its path.

    Parameters
    ----------
    path : of the file.
    columns : heading -> entries, of the same number.
    header : whether the first line has the headings.
    separator : between entries.
    """
    lines = [separator.join(columns)] if header else []
    lines += [separator.join(map(str, entries)) for entries in zip(*columns.values(), strict=True)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path


def written_image(path: pathlib.Path, pixels: Any) -> pathlib.Path:
    """Write an array (height, width) or (height, width, 3) in uint8 as an image of the kind that its name says, and return its path.

    Parameters
    ----------
    path : of the file.
    pixels : the array.
    """
    import keras

    path.parent.mkdir(parents=True, exist_ok=True)
    keras.utils.save_img(str(path), pixels if pixels.ndim == 3 else pixels[..., None], scale=False)
    return path


def written_wave(path: pathlib.Path, samples: Any, rate: int = 16000) -> pathlib.Path:
    """Write samples from -1 to 1 as a WAV file of 16 bits, and return its path.

    Parameters
    ----------
    path : of the file.
    samples : (count,).
    rate : samples a second.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes())
    return path


def stub_datasets(splits: Mapping[str, tuple[Any, Any]], names: Sequence[str]) -> None:
    """Stand in for `tensorflow_datasets`, whose `load` returns (image, label) datasets of arrays.

    Parameters
    ----------
    splits : such as "train" -> (images, labels), of which "train[:90%]" is a part, or a name with the part, whose arrays are taken whole.
    names : of the classes.
    """

    def part(split: str) -> Any:
        import tensorflow as tf

        name, _, bounds = ("", "", "") if split in splits else split.partition("[")
        x, y = splits[name or split]
        first, _, last = bounds.rstrip("]").partition(":")
        start, end = (len(x) * int(text.rstrip("%")) // 100 if text else default for text, default in ((first, 0), (last, len(x))))
        return tf.data.Dataset.from_tensor_slices((x[start:end], y[start:end].astype("int64")))

    def load(name: str, split: Any = None, with_info: bool = False, as_supervised: bool = False, **options: Any) -> Any:
        if split is None:
            chosen: Any = {key: part(key) for key in splits}
        else:
            chosen = part(split) if isinstance(split, str) else type(split)(part(key) for key in split)
        if not as_supervised:
            raise NotImplementedError("give the script's own edit: this stand-in returns pairs")
        return (chosen, info()) if with_info else chosen

    def info() -> Any:
        image = types.SimpleNamespace(shape=next(iter(splits.values()))[0].shape[1:])
        label = types.SimpleNamespace(num_classes=len(names), names=list(names), int2str=lambda i: names[i])
        counts = {key: types.SimpleNamespace(num_examples=len(x)) for key, (x, _) in splits.items()}
        return types.SimpleNamespace(features={"image": image, "label": label}, splits=counts)

    split = types.SimpleNamespace(TRAIN="train", TEST="test", VALIDATION="validation")
    stub_module("tensorflow_datasets", load=load, Split=split, disable_progress_bar=lambda: None)


def stub_addons() -> None:
    """Stand in for `tensorflow_addons` with the optimizers of Keras that have since taken the place of its own."""
    import keras

    stub_module("tensorflow_addons")
    stub_module("tensorflow_addons.optimizers", AdamW=keras.optimizers.AdamW, Lamb=keras.optimizers.Lamb)
