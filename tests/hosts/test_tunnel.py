"""The files of docs/hosts.md for stunnel and nftables, on two hosts: workers reach each other through the tunnel alone."""

import os
import re
import shutil
import subprocess

import pytest

from tests.hosts.conftest import COMMAND, ROOT, START_S
from tests.hosts.recipes import PAGE
from tools.lab.namespaces import await_text

HOSTS = "fast.example:2222,slow.example:2223"
NAMES = {"alpha": "fast", "beta": "slow"}


def _files():
    """Return the page's files of fast.example: path -> text."""
    blocks = re.findall(r"```(?:ini|text)\n[#;] (/etc/\S+)\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    return dict(blocks)


def _other(text):
    """Return a file of fast.example as it is on slow.example."""
    text = re.sub(r"192\.0\.2\.([12])", lambda found: f"192.0.2.{3 - int(found[1])}", text)
    text = re.sub(r"\b(\d?222)([23])\b", lambda found: f"{found[1]}{5 - int(found[2])}", text)
    return re.sub(r"fast|slow", lambda found: "slow" if found[0] == "fast" else "fast", text)


def _certificates(folder):
    """Make the lab's authority, and a certificate with its key for each host."""

    def openssl(*words):
        subprocess.run(["openssl", *words], check=True, capture_output=True, cwd=folder)

    key = ["-newkey", "rsa:2048", "-nodes", "-keyout"]
    openssl("req", "-x509", *key, "authority.key", "-out", "authority.pem", "-subj", "/CN=lab", "-days", "2")
    for name in NAMES.values():
        openssl("req", *key, f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}.example")
        signed = ["x509", "-req", "-in", f"{name}.csr", "-CA", "authority.pem", "-CAkey", "authority.key", "-CAcreateserial", "-days", "2"]
        openssl(*signed, "-out", f"{name}.crt")
        (folder / f"{name}.pem").write_text((folder / f"{name}.crt").read_text() + (folder / f"{name}.key").read_text())


@pytest.fixture
def tunnelled(lab, tmp_path):
    """Starts a program on a host, whose other host is behind the tunnel."""
    missing = [program for program in ("stunnel", "openssl") if shutil.which(program) is None]
    if missing:
        pytest.skip(f"there can be no tunnel here: {', '.join(missing)} is missing")
    _certificates(tmp_path)
    (tmp_path / "models").symlink_to(ROOT / "models")
    variables = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": str(ROOT)}

    def start(name, command, said):
        with (tmp_path / said).open("wb") as out:
            mounted = ["sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', str(tmp_path / f"{name}.hosts"), *command]
            return lab.start(name, mounted, stdout=out, stderr=subprocess.STDOUT, env=variables, cwd=tmp_path)

    for name in lab.names:
        files = {path: text if name == "alpha" else _other(text) for path, text in _files().items()}
        settings = files["/etc/stunnel/hetero.conf"].replace("/etc/stunnel", str(tmp_path))
        for number, host in (("192.0.2.1", "alpha"), ("192.0.2.2", "beta")):
            settings = settings.replace(number, lab.address(host))
        (tmp_path / f"{name}.conf").write_text(f"foreground = yes\npid =\n{settings}")
        (tmp_path / f"{name}.hosts").write_text(files["/etc/hosts"])
        (tmp_path / f"{name}.nft").write_text(files["/etc/nftables.conf"])
        assert lab.start(name, ["nft", "-f", str(tmp_path / f"{name}.nft")]).wait(START_S) == 0
        start(name, ["stunnel", str(tmp_path / f"{name}.conf")], f"{name}.stunnel")
    for place, name in enumerate(lab.names):
        start(name, [*COMMAND, "worker", "--hosts", HOSTS, "--index", str(place), "--allow-root"], f"{name}.out")
    for name in lab.names:
        await_text(tmp_path / f"{name}.out", "serves on", START_S)
    return start


def test_workers_train_through_a_tunnel_and_are_closed_otherwise(tunnelled, lab, tmp_path):
    data = ["--model", "models/digits.py:wide_digits", "--data", "digits", "--epochs", "1"]
    command = [*COMMAND, "train", "--cluster", f"hosts:{HOSTS}", *data, "--strategy", "filters", "--budget", "5", "--no-refine"]
    training = tunnelled("alpha", command, "program.out")
    assert training.wait(2 * START_S) == 0, (tmp_path / "program.out").read_text()
    assert "test accuracy" in (tmp_path / "program.out").read_text()
    for port in (2223, 22223):
        probe = f"import socket; socket.create_connection(({lab.address('beta')!r}, {port}), 5)"
        refused = lab.start("alpha", [COMMAND[0], "-c", probe], stderr=subprocess.PIPE, text=True).communicate(timeout=START_S)[1]
        assert "ConnectionRefusedError" in refused


def test_without_a_certificate_of_the_lab_nobody_comes_through(tunnelled, lab, tmp_path):
    probe = f"openssl s_client -connect {lab.address('beta')}:12223 -CAfile {tmp_path}/authority.pem < /dev/null; sleep 1"
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    said = lab.start("alpha", ["sh", "-c", probe], **both).communicate(timeout=START_S)[0]
    assert "alert" in said or "peer did not return a certificate" in (tmp_path / "beta.stunnel").read_text()
