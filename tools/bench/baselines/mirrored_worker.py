"""One process of tf.distribute.MultiWorkerMirroredStrategy training a network of the benches; started by `limited.LimitedWorkers`.

Keras 3's own `fit` refuses this strategy's distributed batches, so the step is the custom loop of TensorFlow's documentation: each
replica takes its gradients and applies them with the Keras optimizer, which sums them over the replicas. Without XLA, which is slower
here. Each process normalises by its own half of the batch, as is usual; that sends less than statistics of the whole batch.
"""

from __future__ import annotations

import json
import math
import os
import sys
from typing import Any

from tools.bench.baselines.turns import Prepared, attend


def prepare(order: dict[str, Any]) -> Prepared:
    """Return the training step and the number of trainable weights, as `turns.attend` wants them."""
    from hetero_mtf.devices.environment import bypass_proxy

    bypass_proxy(order["addresses"])
    task = {"type": "worker", "index": order["task"]}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": order["addresses"]}, "task": task})
    import keras
    import tensorflow as tf

    from tools.bench.baselines.tasks import compared_task

    tf.config.threading.set_intra_op_parallelism_threads(1)
    communication = tf.distribute.experimental.CommunicationOptions(
        implementation=tf.distribute.experimental.CommunicationImplementation.RING
    )
    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=communication)
    with strategy.scope():
        trained = compared_task(json.loads(sys.argv[2])["network"])
        model = trained.model
        optimizer = keras.optimizers.SGD(0.001, momentum=0.9)
        optimizer.build(model.trainable_variables)
    loss, before = trained.settings["loss"], sum(order["batches"][: order["task"]])
    own = slice(before, before + order["batch"])
    x, y = (tf.constant(array[own]) for array in trained.drawn(sum(order["batches"])))

    def replica() -> tf.Tensor:
        with tf.GradientTape() as tape:
            part = loss(y, model(x, training=True)) / strategy.num_replicas_in_sync
        optimizer.apply_gradients(zip(tape.gradient(part, model.trainable_variables), model.trainable_variables))
        return part

    @tf.function(jit_compile=False)
    def train() -> tf.Tensor:
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(replica), axis=None)

    return lambda: float(train()), sum(math.prod(variable.shape) for variable in model.trainable_variables)


if __name__ == "__main__":
    attend(prepare)
