"""A Keras layer that Keras does not have: a learnt weight of a residual branch."""

from __future__ import annotations

from typing import Any

import keras


@keras.saving.register_keras_serializable(package="hetero_mtf")
class ResidualWeight(keras.layers.Layer):
    """Its input times one trained number, 0 at first: a branch so weighted and added leaves a network as it was until it learns.

    Keras loads a saved model with this layer once this module has been imported.
    """

    def build(self, input_shape: Any) -> None:
        """Make the weight."""
        self.weight = self.add_weight(name="weight", shape=(), initializer="zeros")

    def call(self, x: Any) -> Any:
        """Return `x` times the weight."""
        return x * self.weight

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Return the shape of the output: that of the input."""
        return input_shape
