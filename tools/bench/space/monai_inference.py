"""MONAI's sliding windows over a network whose weights come in a file; runs in an environment with PyTorch and MONAI.

    python monai_inference.py CASE.npz RESULT.npz

CASE.npz holds the volumes (samples, *extents, channels), the weights of two convolutions with instance norm between, and a JSON document of
options. RESULT.npz gets the logits by MONAI's own importance map, which it computes in float32, and by one that is given in float64.
"""

from __future__ import annotations

import json
import sys

import numpy as np
import torch
from monai.inferers import sliding_window_inference

CONVOLVE = {2: torch.nn.functional.conv2d, 3: torch.nn.functional.conv3d}


def main(source: str, target: str) -> None:
    """Read a case and write its result."""
    with np.load(source) as case:
        arrays = {name: torch.from_numpy(case[name]) for name in case.files if name != "options"}
        options = json.loads(str(case["options"]))
    volumes = arrays["volumes"].movedim(-1, 1)
    dimensions = volumes.ndim - 2
    kernels = [arrays[f"kernel{number}"].permute(-1, -2, *range(dimensions)) for number in (1, 2)]

    def predict(window: torch.Tensor) -> torch.Tensor:
        x = CONVOLVE[dimensions](window, kernels[0], arrays["bias1"], padding="same")
        x = torch.nn.functional.instance_norm(x, weight=arrays["scale"], bias=arrays["shift"], eps=1e-5)
        return CONVOLVE[dimensions](torch.nn.functional.leaky_relu(x, 0.01), kernels[1], arrays["bias2"], padding="same")

    maps: tuple[dict[str, torch.Tensor], ...] = ({}, {"roi_weight_map": arrays["importance"]})
    results = [sliding_window_inference(volumes, predictor=predict, **options, **each) for each in maps]
    np.savez(target, own=results[0].movedim(1, -1).numpy(), given=results[1].movedim(1, -1).numpy())


if __name__ == "__main__":
    main(*sys.argv[1:])
