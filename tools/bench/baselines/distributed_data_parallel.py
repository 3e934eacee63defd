"""One process of PyTorch's DistributedDataParallel over gloo training a network of the benches; started by `limited.LimitedWorkers`.

Weights and images are channels-last, which is faster here. Each process normalises by its own part of the batch and sends no statistics.
DistributedDataParallel takes the mean of the processes' gradients. With "weighted" each loss, the mean of its own samples, is multiplied by
samples * processes / batch, as users do by hand for parts of different sizes: the mean is then the gradient of the full batch's mean.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import torch
from torch import nn

from tools.bench.baselines.torch_networks import NETWORKS
from tools.bench.baselines.turns import Prepared, attend, loss_factor


def prepare(order: dict[str, Any]) -> Prepared:
    """Return the training step and the number of trainable weights, as `turns.attend` wants them."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    task, addresses, trained = order["task"], order["addresses"], json.loads(sys.argv[2])
    torch.distributed.init_process_group("gloo", f"tcp://{addresses[0]}", rank=task, world_size=len(addresses))
    torch.manual_seed(task)
    *sides, channels = trained["shape"]
    memory_format = torch.channels_last if len(sides) == 2 else torch.channels_last_3d
    plain = NETWORKS[trained["network"]](trained["classes"]).to(memory_format=memory_format)
    model = nn.parallel.DistributedDataParallel(plain, broadcast_buffers=False, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    x = torch.randn(order["batch"], channels, *sides).to(memory_format=memory_format)
    factor = loss_factor(order) if "weighted" in sys.argv[3:] else 1.0
    if trained["loss"] == "voxels":
        y, loss_of = (x > 0.5).float(), nn.functional.binary_cross_entropy
    else:
        y, loss_of = torch.randint(0, trained["classes"], (order["batch"],)), nn.functional.cross_entropy

    def step() -> float:
        optimizer.zero_grad()
        loss = loss_of(model(x), y) * factor
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return step, sum(parameter.numel() for parameter in model.parameters())


if __name__ == "__main__":
    attend(prepare)
