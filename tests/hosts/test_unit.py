"""The unit of docs/hosts.md for systemd: nothing in it is unknown to systemd, and a worker that is stopped ends as the unit expects."""

import os
import re
import shutil
import signal
import subprocess
import sys

import pytest

from hetero_mtf.runtime.ports import free_ports
from tests.hosts.recipes import PAGE, ROOT


@pytest.fixture
def unit():
    """The unit, of this installation and as this user."""
    (text,) = [block.partition("```")[0] for block in PAGE.read_text().split("```ini\n")[1:] if "[Unit]" in block]
    command = f"{sys.executable} -m hetero_mtf worker --allow-root"
    return text.replace("/opt/hetero/bin/hetero-mtf worker", command).replace("User=hetero", "User=root")


def test_systemd_knows_all_of_it(unit, tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    file = tmp_path / "worker.service"
    for text, wanted in ((unit, ""), (unit.replace("SuccessExitStatus", "ExitStatus"), "Unknown key")):
        file.write_text(text)
        run = subprocess.run(["systemd-analyze", "verify", str(file)], capture_output=True, text=True, timeout=60)
        said = run.stdout + run.stderr
        assert said == wanted if not wanted else wanted in said


def test_a_worker_that_is_stopped_ends_with_the_status_that_counts_as_success(unit):
    address = f"127.0.0.1:{free_ports(1)[0]}"
    command = re.search(r"^ExecStart=(.*)$", unit, re.MULTILINE)[1]
    words = re.sub(r"--hosts \S+", f"--hosts {address}", command).split()
    worker = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=ROOT, env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"})
    try:
        assert "serves on" in worker.stdout.readline()
        worker.send_signal(signal.SIGTERM)
        assert str(worker.wait(30)) == re.search(r"^SuccessExitStatus=(.*)$", unit, re.MULTILINE)[1]
    finally:
        worker.kill()
        worker.communicate()
