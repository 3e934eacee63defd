"""Plan from a profile: the same as `hetero-mtf plan`."""

import sys

from hetero_mtf.commands.main import run

if __name__ == "__main__":
    sys.exit(run(["plan", *sys.argv[1:]]))
