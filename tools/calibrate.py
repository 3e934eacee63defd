"""Measure devices: the same as `hetero-mtf calibrate`."""

import sys

from hetero_mtf.commands.main import run

if __name__ == "__main__":
    sys.exit(run(["calibrate", *sys.argv[1:]]))
