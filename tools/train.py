"""What `make train` runs: measure two unequal devices, plan, train the digits network on them, and compare step times.

It is `hetero-mtf train --compare` with the arguments below; others on the command line come after them and win, so
`python -m tools.train --epochs 2 --cluster local:cpu:0,cpu:0` works. Where there is a GPU, it and the CPU are the two devices.
"""

import os
import pathlib
import sys

from hetero_mtf.commands.main import run
from hetero_mtf.commands.process.two_devices import unequal_pair

ROOT = pathlib.Path(__file__).resolve().parents[1]
RUNS = pathlib.Path(os.path.relpath(ROOT / "runs"))


def arguments(given: list[str]) -> list[str]:
    """Return the command's arguments: ours, then those given."""
    named = any(word == "--cluster" or word.startswith("--cluster=") for word in given)
    cluster = [] if named else ["--cluster", unequal_pair()]
    subject = ["--model", f"{os.path.relpath(ROOT / 'models' / 'digits.py')}:wide_digits", "--data", "digits"]
    measuring = ["--budget", "30", "--refine-time", "30", "--compare"]  # half a minute: steps of the plans correct what is measured
    training = ["--epochs", "3", "--optimizer", "adam", "--save", str(RUNS / "digits.npz")]
    return ["train", *subject, *cluster, *measuring, *training, *given]


if __name__ == "__main__":
    RUNS.mkdir(exist_ok=True)
    sys.exit(run(arguments(sys.argv[1:])))
