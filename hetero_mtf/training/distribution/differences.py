"""What is known to differ from Keras's numbers, in a sentence for the model at hand."""

from __future__ import annotations

from typing import Any

import keras

from hetero_mtf.keras_reading.operations import layers_in
from hetero_mtf.units import list_text

_BY_OCCURRENCE = ("Adadelta", "Adafactor", "Adamax", "Muon", "Lamb")  # Keras's optimizers that do more than square a gradient
_CLIPPING = ("clipnorm", "global_clipnorm", "clipvalue")
_NAMED = 4  # layers named


def rows_text(model: Any) -> str:
    """Return a sentence on tables whose rows Keras updates otherwise than the optimizer's formula says, "" where there are none.

    The gradient of a table is a list of rows in Keras's TensorFlow backend. A number that a batch has twice is in it twice, and its two
    gradients are clipped, squared and compared one by one. Squares are the same here; for the rest, here their sum is taken.

    Parameters
    ----------
    model : compiled keras.Model.
    """
    given = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    optimizers = getattr(given, "optimizers", [given])
    other = [each for each in optimizers if type(each).__name__ in _BY_OCCURRENCE or any(getattr(each, name, None) for name in _CLIPPING)]
    layers = [each for each in layers_in(model) if isinstance(each, keras.layers.Embedding)]
    rows = [each.name for each in layers if each.trainable and each.embeddings_regularizer is None]
    if not other or not rows:
        return ""
    which = f"{type(other[0]).__name__}{' that clips' * (type(other[0]).__name__ not in _BY_OCCURRENCE)}"
    what = f"takes the gradients of {list_text(rows, _NAMED)} row by row"
    return f"{which} {what}, where Keras's TensorFlow backend takes each number's of a batch; losses may differ by about a percent"
