"""Who may connect to a worker: a plain session of another host, or of another user, reads and writes files where ports are open."""

import os
import pathlib
import subprocess
import sys
import time

import pytest

from tests.hosts.conftest import COMMAND, ROOT, START_S
from tests.hosts.recipes import recipe
from tools.lab.namespaces import HERE, await_text

NOBODY = ["setpriv", "--reuid=65534", "--clear-groups"]
EMULATED_PORTS = range(61000, 65500)
ATTACK = """
import sys
import tensorflow as tf
target, secret, written = sys.argv[1:]
graph = tf.Graph()
with graph.as_default(), tf.device("/job:worker/task:0/device:CPU:0"):
    read, write = tf.io.read_file(secret), tf.io.write_file(written, "owned")
config = tf.compat.v1.ConfigProto(operation_timeout_in_ms=8000)
try:
    with tf.compat.v1.Session(target, graph=graph, config=config) as session:
        print(session.run(read).decode(), flush=True)
        session.run(write)
    tf.compat.v1.Session.reset(target, config=config)
except tf.errors.OpError as fault:
    print("refused:", type(fault).__name__)
"""


@pytest.fixture
def attacked(lab, tmp_path):
    """Starts a worker on alpha with options; returns what attacks from beta and by a user of alpha read, and whether they wrote."""
    tmp_path.chmod(0o777)
    secret = tmp_path / "secret"
    secret.write_text("a file of the worker's user")
    variables = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}

    def attack(*options):
        host, out = f"{lab.address('alpha')}:2222", tmp_path / "alpha.out"
        command = [*COMMAND, "worker", "--hosts", host, "--index", "0", "--allow-root", *options]
        with out.open("wb") as file:
            lab.start("alpha", command, stdout=file, stderr=subprocess.STDOUT, env=variables, cwd=ROOT)
        await_text(out, "serves on", START_S)
        said = {}
        for name, place, user in (("another host", "beta", []), ("another user", "alpha", NOBODY)):
            script = [*user, sys.executable, "-c", ATTACK, f"grpc://{host}", str(secret), str(tmp_path / name.replace(" ", "_"))]
            attacker = lab.start(place, script, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=variables)
            said[name] = attacker.communicate(timeout=START_S)[0].strip(), (tmp_path / name.replace(" ", "_")).exists()
        return said

    return attack


def test_with_everything_off_others_read_and_write_the_files_of_the_user(attacked):
    assert attacked() == {"another host": ("a file of the worker's user", True), "another user": ("a file of the worker's user", True)}


def test_a_worker_that_allows_one_host_is_closed_to_others(attacked, lab):
    said = attacked("--allow", lab.address(HERE))
    assert {name: (text.startswith("refused"), written) for name, (text, written) in said.items()} == {
        "another host": (True, False),
        "another user": (True, False),
    }, said


def test_a_worker_that_allows_a_host_is_open_to_it(attacked, lab):
    assert attacked("--allow", lab.address("beta"))["another host"] == ("a file of the worker's user", True)


def test_rules_go_with_the_worker(attacked, lab):
    attacked("--allow", lab.address(HERE))
    assert "hetero_mtf_" in _tables(lab)
    lab.end_processes()
    assert "hetero_mtf_" not in _tables(lab)


def test_emulated_workers_in_a_network_of_the_programs_own_are_reached_by_nobody(tmp_path):
    if subprocess.run(["unshare", "--map-root-user", "--net", "true"], capture_output=True).returncode:
        pytest.skip("users may make no namespaces here")
    (tmp_path / "models").symlink_to(ROOT / "models")
    variables = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = ["bash", "-c", recipe("unshare", epochs="1")]
    out, open_here = tmp_path / "said", set()
    with out.open("wb") as file, subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=variables, cwd=tmp_path) as training:
        while training.poll() is None:
            open_here |= _listening() & set(EMULATED_PORTS)
            time.sleep(0.1)
    said = out.read_text()
    assert training.returncode == 0 and "test accuracy" in said and "can connect" not in said, said
    assert open_here == set()


def _listening():
    """Return the TCP ports of this network on which something listens."""
    texts = [pathlib.Path("/proc/net", name).read_text() for name in ("tcp", "tcp6")]
    lines = [line.split() for text in texts for line in text.splitlines()[1:]]
    return {int(line[1].rpartition(":")[2], 16) for line in lines if line[3] == "0A"}


def _tables(lab):
    """Return what nftables has on alpha."""
    return lab.start("alpha", ["nft", "list", "tables"], stdout=subprocess.PIPE, text=True).communicate(timeout=START_S)[0]
