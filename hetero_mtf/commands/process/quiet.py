"""Loading TensorFlow without the lines it writes while it loads."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import tempfile
from collections.abc import Iterator

from hetero_mtf.devices import environment

LEVEL = "TF_CPP_MIN_LOG_LEVEL"


def load_tensorflow() -> None:
    """Import TensorFlow and Keras quietly, unless the user asked for TensorFlow's log with TF_CPP_MIN_LOG_LEVEL=0.

    TensorFlow writes some lines before it looks at that variable, so they are caught at the file descriptor. If it cannot be
    imported they are shown.
    """
    if "tensorflow" in sys.modules:
        return
    with _caught(2) if environment.variables().get(LEVEL, "0") != "0" else contextlib.nullcontext():
        for name in ("tensorflow", "keras"):
            importlib.import_module(name)


@contextlib.contextmanager
def _caught(descriptor: int) -> Iterator[None]:
    """Keep what is written to a file descriptor to ourselves, unless the block fails."""
    sys.stderr.flush()
    kept = os.dup(descriptor)
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), descriptor)
        try:
            yield
        except Exception:
            os.dup2(kept, descriptor)
            log.seek(0)
            os.write(descriptor, log.read())
            raise
        finally:
            os.dup2(kept, descriptor)
            os.close(kept)
