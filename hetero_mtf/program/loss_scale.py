"""Dynamic loss scaling, as by `keras.optimizers.LossScaleOptimizer`.

Gradients of float16 underflow. The loss is multiplied by a scale before the backward pass, and the gradients are divided by it before the
update. Where one is NaN or infinite on any device, the step updates nothing on all of them, and the scale is halved; after some
steps without that it is doubled.

References
----------
Micikevicius et al., "Mixed precision training", ICLR 2018, arXiv 1710.03740.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.operations.local import Local, Processor
from hetero_mtf.mesh.operations.precision import NotFinite
from hetero_mtf.mesh.operations.transfer import on_every_mesh
from hetero_mtf.mesh.variables import Update

SCALAR = "loss_scale"  # its name among the scalars of a step
SCALED_POLICY = "mixed_float16"  # models of this policy are trained with it, as in Keras


@dataclasses.dataclass(frozen=True)
class LossScaling:
    """Options of dynamic loss scaling.

    Parameters
    ----------
    initial : the scale of the first step.
    growth_steps : steps without overflow after which it is doubled.
    """

    initial: float = 2.0**15
    growth_steps: int = 2000


@dataclasses.dataclass(frozen=True)
class LossScale:
    """The state of dynamic loss scaling.

    Parameters
    ----------
    scale : the factor of the next step.
    finite_steps : steps since it was last changed.
    skipped : steps that updated nothing, in all.
    """

    scale: float
    finite_steps: int = 0
    skipped: int = 0

    def after(self, finite: bool, options: LossScaling) -> LossScale:
        """Return the state after a step.

        Parameters
        ----------
        finite : whether all its gradients were finite.

        >>> LossScale(4.0).after(False, LossScaling())
        LossScale(scale=2.0, finite_steps=0, skipped=1)
        >>> LossScale(4.0, finite_steps=1).after(True, LossScaling(growth_steps=2))
        LossScale(scale=8.0, finite_steps=0, skipped=0)
        """
        if not finite:
            return LossScale(self.scale * 0.5, 0, self.skipped + 1)
        if self.finite_steps + 1 == options.growth_steps:
            return LossScale(self.scale * 2.0, 0, self.skipped)
        return dataclasses.replace(self, finite_steps=self.finite_steps + 1)


def scaled_optimizer(optimizer: keras.optimizers.Optimizer | str, model: Any) -> Any:
    """Return the optimizer that a model is trained by: with dynamic loss scaling where its policy is mixed_float16, as Keras compiles it.

    Parameters
    ----------
    optimizer : keras.optimizers.Optimizer, or its name.
    model : keras.Model, or anything without a policy.
    """
    policy = getattr(getattr(model, "dtype_policy", None), "name", None)
    if policy != SCALED_POLICY or isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        return optimizer
    if isinstance(optimizer, str):
        try:
            optimizer = keras.optimizers.get(optimizer)
        except ValueError:
            return optimizer  # which is refused where it is read
    return keras.optimizers.LossScaleOptimizer(optimizer) if isinstance(optimizer, keras.optimizers.Optimizer) else optimizer


def seed_of_loss(loss: Tensor, weight: float, scale: tf.Tensor | None) -> Tensor:
    """Return the gradient that a backward pass begins with at a loss: its weight, times the scale where there is one.

    Parameters
    ----------
    loss : mtf.Tensor.
    weight : its factor in the sum of losses.
    scale : () the loss scale; None without scaling.
    """
    if scale is None:
        return mtf.Constant(loss.mesh, weight, loss.shape, loss.dtype).outputs[0]
    return mtf.import_tf_tensor(loss.mesh, tf.cast(scale, loss.dtype) * tf.constant(weight, loss.dtype), loss.shape)


def unscaled(gradient: Tensor, scale: tf.Tensor) -> Tensor:
    """Return a gradient divided by the loss scale."""

    def divide(_: Processor, piece: tf.Tensor) -> tf.Tensor:
        return piece / tf.cast(scale, piece.dtype)

    return Local("unscale", divide, [gradient], [(gradient.shape, gradient.dtype)]).outputs[0]


def not_finite(gradients: Sequence[Tensor]) -> dict[mtf.Mesh, Tensor]:
    """Return for each mesh a () number that is 0 where all gradients of all meshes are finite.

    Parameters
    ----------
    gradients : (gradients,) mtf.Tensor, on one mesh or several.
    """
    by_mesh: dict[mtf.Mesh, list[Tensor]] = {}
    for gradient in gradients:
        by_mesh.setdefault(gradient.mesh, []).append(gradient)
    shared = on_every_mesh([NotFinite(tensors).outputs[0] for tensors in by_mesh.values()])
    return {mesh: functools.reduce(mtf.add, counts) for mesh, counts in shared.items()}


def skip_where_not_finite(updates: Sequence[Update], counts: Mapping[mtf.Mesh, Tensor]) -> None:
    """Let updates write nothing in steps with gradients that are not finite.

    Parameters
    ----------
    updates : of variables and their slots.
    counts : for each mesh, what `not_finite` gives.
    """
    for update in updates:
        update.skip_where(counts[update.parameters[0].mesh])
