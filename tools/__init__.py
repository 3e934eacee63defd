"""The commands of a clone, each run from its root as `python -m tools.NAME`.

In all of them TensorFlow's log is quiet, and Keras computes with the kernels that workers compute with.
"""

import os

from hetero_mtf.devices.environment import FAST_KERNELS

# before a module imports TensorFlow, which reads it then
for _name, _value in {"TF_CPP_MIN_LOG_LEVEL": "3", **FAST_KERNELS}.items():
    os.environ.setdefault(_name, _value)
