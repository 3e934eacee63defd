"""The commands of a clone, each run from its root as `python -m tools.NAME`; TensorFlow's log is quiet in all of them."""

import os

# before a module imports TensorFlow, which reads it then
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
