"""What is known to differ from Keras's numbers, in a sentence for the model at hand."""

from __future__ import annotations

from typing import Any

from hetero_mtf.units import list_text

_LINEAR = ("SGD", "Lion")  # optimizers that look at no square or absolute value of a gradient itself
_NAMED = 4  # layers named


def rows_text(model: Any) -> str:
    """Return a sentence on tables whose rows Keras updates by other squares than the optimizer's formula, "" where there are none.

    The gradient of a table is a list of rows in Keras's TensorFlow backend. A number that a batch has twice is in it twice, and its two
    gradients are squared one by one; here, as for every other weight, their sum is.

    Parameters
    ----------
    model : compiled keras.Model.
    """
    import keras

    given = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    optimizers = getattr(given, "optimizers", [given])
    squares = [type(each).__name__ for each in optimizers if type(each).__name__ not in _LINEAR or each.clipnorm or each.global_clipnorm]
    layers = [each for each in model._flatten_layers() if isinstance(each, keras.layers.Embedding)]
    rows = [each.name for each in layers if each.trainable and each.embeddings_regularizer is None]
    if not squares or not rows:
        return ""
    which = f"{squares[0]} squares the gradients of {list_text(rows, _NAMED)}"
    return f"{which} row by row, where Keras's TensorFlow backend squares each number's of a batch; losses may differ by about a percent"
