from __future__ import annotations

import subprocess
import sys

from hetero_mtf.data import volumes


def test_reading_scans_loads_neither_tensorflow_nor_keras() -> None:
    script = "import sys, hetero_mtf.data.volumes; print(sorted({'tensorflow', 'keras', 'sklearn'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_every_public_name_is_there() -> None:
    assert all(hasattr(volumes, name) for name in volumes.__all__)
