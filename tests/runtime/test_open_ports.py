"""The ports of emulated workers against other users and other hosts: what they can do with the rules and without, and that no rule is left.

Everything is in two network namespaces, "this machine" and "another host", so that the machine's own network and rules are not touched.
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest

from hetero_mtf.runtime import firewall

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOBODY = 65534
CAP_NET_ADMIN = 12
HERE, HERE_6, THERE, THERE_6 = "198.18.7.1", "fd13:7::1", "198.18.7.2", "fd13:7::2"

FOLDERS = "/usr/sbin:/sbin:/usr/bin:/bin"
IN_PLACE = 'mount --bind "$1" "$2"; shift 2; exec "$@"'

pytestmark = pytest.mark.slow

CLUSTER = """
import json, os, sys
import hetero_mtf as hm
cluster = hm.Cluster.emulate([0.4])
def tell():
    print(json.dumps([int(cluster.target.rpartition(":")[2]), list(cluster.open_ports)]), flush=True)
tell()
for line in sys.stdin:
    if line == "fork\\n" and os.fork() == 0:
        sys.exit(0)
    if line == "close\\n":
        cluster.close()
    tell()
"""
REACH = """
import json, os, socket, sys
def connected(address, port):
    try:
        socket.create_connection((address, port), 5.0).close()
        return True
    except OSError:
        return False
def reached(addresses, port):
    return [address for address in addresses if connected(address, port)]
"""
# first as root: the interpreter and TensorFlow may be where nobody else may read
ATTACKER = f"""{REACH}
import tensorflow as tf
user = int(sys.argv[1])
os.setgroups([])
os.setresgid(user, user, user)
os.setresuid(user, user, user)

def stolen(address, port, secret, target):
    with tf.Graph().as_default():
        read, write = tf.io.read_file(secret), tf.io.write_file(target, "written by another")
        try:
            config = tf.compat.v1.ConfigProto(operation_timeout_in_ms=10000)
            with tf.compat.v1.Session(f"grpc://{{address}}:{{port}}", config=config) as session:
                return session.run([read, write])[0].decode()
        except tf.errors.OpError:
            return None

print("ready", flush=True)
for line in sys.stdin:
    addresses, port, secret, target = json.loads(line)
    print(json.dumps([reached(addresses, port), stolen(addresses[0], port, secret, target)]), flush=True)
"""


def _run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=30, **options)


def _drop_right_to_write_rules():
    import ctypes

    ctypes.CDLL(None).prctl(24, CAP_NET_ADMIN, 0, 0, 0)  # PR_CAPBSET_DROP; root has the others after the next exec


class Machine:
    """A network namespace with loopback and a link to another, and what may be in the place of nft for some of its processes."""

    def __init__(self, name):
        self.name = name
        self.started = []

    def command(self, *words):
        return ["nsenter", f"--net=/run/netns/{self.name}", *map(str, words)]

    def start(self, text, *arguments, nft=None, **options):
        variables = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
        pipe = subprocess.PIPE
        in_place = ["unshare", "--mount", "sh", "-ec", IN_PLACE, "sh", nft, shutil.which("nft", path=FOLDERS)] if nft else []
        command = self.command(*in_place, sys.executable, "-c", text, *arguments)
        options = {"stderr": subprocess.DEVNULL, **options}
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=variables, **options)
        self.started.append(process)
        return process

    def nft(self, *words):
        done = _run(*self.command("nft", *words))
        assert done.returncode == 0, done.stderr
        return done.stdout

    def tables(self):
        return [line.split()[2] for line in self.nft("list", "tables", "inet").splitlines() if "hetero_mtf_" in line]

    def end(self):
        for process in self.started:
            process.kill()
            process.wait()
            for line in (process.stdin, process.stdout, process.stderr):
                if line is not None:
                    with contextlib.suppress(BrokenPipeError):  # of what it has not read
                        line.close()
        self.started.clear()


@pytest.fixture(scope="module")
def machines():
    """Two machines with a link between them, as network namespaces; the first has a table of its own user's."""
    missing = [name for name in ("nft", "ip", "nsenter", "unshare") if shutil.which(name, path=FOLDERS) is None]
    if os.geteuid() or missing:
        pytest.skip(f"what other users and hosts can do is tried as root, with nft, ip, nsenter, unshare; {missing or 'root'} is missing")
    names = [f"hetero-mtf-{os.getpid()}-{which}" for which in ("here", "there")]
    here, there = (Machine(name) for name in names)
    try:
        if any(_run("ip", "netns", "add", name).returncode for name in names):
            pytest.skip("no network namespace can be made here")
        link = ["ip", "link", "add", "eth0", "netns", names[0], "type", "veth", "peer", "name", "eth0", "netns", names[1]]
        if _run(*link).returncode or _run(*here.command("nft", "add table inet mine { chain c { tcp dport 22 accept; }; }")).returncode:
            pytest.skip("no link of network namespaces, or no rule in one, can be made here")
        for name, address, address_6 in zip(names, (HERE, THERE), (HERE_6, THERE_6)):
            addresses = (f"addr add {address}/24 dev eth0", f"-6 addr add {address_6}/64 dev eth0 nodad")
            for words in (*addresses, "link set eth0 up", "link set lo up"):
                assert _run("ip", "-n", name, *words.split()).returncode == 0
        yield here, there
    finally:
        for name in names:
            _run("ip", "netns", "del", name)


@pytest.fixture
def here(machines):
    yield machines[0]
    machines[0].end()


@pytest.fixture
def there(machines):
    yield machines[1]
    machines[1].end()


def _asked(process, line=None):
    if line is not None:
        process.stdin.write(line + "\n")
        process.stdin.flush()
    return json.loads(process.stdout.readline())


def _children(process):
    return [int(child) for child in pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def _attack(attackers, port, folder):
    """Return for each attacker the addresses that it reaches and what it reads; what it writes is in files of their names."""
    answers = {}
    for name, (process, addresses) in attackers.items():
        answers[name] = _asked(process, json.dumps([addresses, port, str(folder / "secret"), str(folder / name)]))
    return answers


def test_others_read_and_write_files_through_an_open_port_and_not_through_a_closed_one(here, there, tmp_path, eventually):
    (tmp_path / "secret").write_text("only for its owner")
    (tmp_path / "secret").chmod(0o600)
    own, remote = ["127.0.0.1", "::1", HERE, HERE_6], [HERE, HERE_6]
    attackers = {"user": (here.start(ATTACKER, NOBODY), own), "host": (there.start(ATTACKER, 0), remote)}
    cluster = here.start(CLUSTER)
    port, open_ports = _asked(cluster)
    assert open_ports == []
    for process, _ in attackers.values():
        assert process.stdout.readline() == "ready\n"
    by_owner = _run(*here.command(sys.executable, "-c", f"{REACH}\nprint(json.dumps(reached({own}, {port})))"))
    assert json.loads(by_owner.stdout) == own
    assert _attack(attackers, port, tmp_path) == {"user": [[], None], "host": [[], None]}
    assert not (tmp_path / "user").exists() and not (tmp_path / "host").exists()
    (supervisor,) = (int(name.split("_")[2]) for name in here.tables())
    (holder,) = (child for child in _children(supervisor) if pathlib.Path(f"/proc/{child}/comm").read_text() == "nft\n")
    os.kill(holder, signal.SIGKILL)
    assert eventually(lambda: here.tables() == [])
    assert _attack(attackers, port, tmp_path) == {"user": [own, "only for its owner"], "host": [remote, "only for its owner"]}
    assert (tmp_path / "user").read_text() == (tmp_path / "host").read_text() == "written by another"
    assert (tmp_path / "user").stat().st_uid == 0
    assert _asked(cluster, "open ports?")[1] == [port]


def test_one_line_tells_that_the_ports_are_open_where_no_rule_can_be_written(here):
    once = "with hm.Cluster.emulate([0.4]) as cluster:\n    print(len(cluster.open_ports))\n"
    process = here.start(f"import hetero_mtf as hm\n{once}{once}", preexec_fn=_drop_right_to_write_rules, stderr=subprocess.PIPE)
    out, err = process.communicate()
    assert out == "1\n1\n"
    (line,) = (line for line in err.splitlines() if "can connect to the emulated workers" in line)
    assert "(nft: Operation not permitted); let the program write nftables rules" in line


# a process without TensorFlow or workers that closes a port
CLOSER = """
import sys
from hetero_mtf.runtime import firewall
from hetero_mtf.runtime.ports import free_ports
if "other user" in sys.argv:
    firewall.os.geteuid = lambda: 1000
try:
    closed = firewall.close_ports(free_ports(1))
    print(closed.table, flush=True)
except firewall.RulesError as fault:
    print(fault, flush=True)
sys.stdin.read()
closed.remove()
"""


@pytest.fixture
def old_nft(tmp_path):
    """An nft that knows no tables that belong to a process."""
    real = shutil.copy(shutil.which("nft", path=FOLDERS), tmp_path / "real")
    old = tmp_path / "old"
    old.write_text(f'#!/bin/sh\nif [ "$1" = -i ]; then echo "Error: syntax error"; else exec {real} "$@"; fi\n')
    old.chmod(0o755)
    return old


def _started_cluster(here, eventually, nft=None):
    """Start a program that opens a cluster; return it, its table and its supervisor, once the table is there."""
    before = {*here.tables()}
    process = here.start(CLUSTER, nft=nft)
    assert eventually(lambda: len(here.tables()) > len(before))
    (table,) = {*here.tables()} - before
    return process, table, int(table.split("_")[2])


@pytest.mark.parametrize("killed", [("program",), ("supervisor",), ("program", "supervisor"), ("supervisor", "program")])
@pytest.mark.parametrize("owned", [True, False])
def test_no_table_is_left_and_no_other_is_touched_whatever_is_killed(owned, killed, here, old_nft, eventually, process_state):
    other = here.start(CLOSER)
    others = other.stdout.readline().strip()
    before = here.nft("list", "ruleset")
    process, table, supervisor = _started_cluster(here, eventually, None if owned else old_nft)
    for which in killed:
        os.kill(process.pid if which == "program" else supervisor, signal.SIGKILL)
    assert eventually(lambda: process_state(supervisor) in ("", "Z"))
    if not owned and len(killed) == 2:  # then the next start of a cluster removes it
        assert here.start(CLOSER).stdout.readline().startswith("hetero_mtf_")
        here.started[-1].communicate()
    assert eventually(lambda: here.tables() == [others])
    assert here.nft("list", "ruleset") == before


@pytest.mark.parametrize("owned", [True, False])
def test_of_two_clusters_at_once_each_has_its_table_until_it_is_closed(owned, here, old_nft, eventually):
    before = here.nft("list", "ruleset")
    first, second = (_started_cluster(here, eventually, None if owned else old_nft)[:2] for _ in range(2))
    for process, table in (first, second):
        port, open_ports = _asked(process)
        assert open_ports == [] and str(port) in here.nft("list", "table", "inet", table)
    assert here.nft("list", "table", "inet", "mine") == before
    _asked(first[0], "fork")
    assert {*here.tables()} == {first[1], second[1]}
    _asked(first[0], "close")
    assert here.tables() == [second[1]]
    _asked(second[0], "close")
    assert here.nft("list", "ruleset") == before


def test_the_next_start_sweeps_the_tables_of_killed_processes_alone(here, old_nft):
    dead, living = here.start(CLOSER, nft=old_nft), here.start(CLOSER, nft=old_nft)
    names = [process.stdout.readline().strip() for process in (dead, living)]
    dead.kill()
    dead.wait()
    assert {*here.tables()} == {*names}
    third = here.start(CLOSER, nft=old_nft).stdout.readline().strip()
    assert {*here.tables()} == {names[1], third}
    for process in here.started[1:]:
        process.communicate()
    assert here.tables() == []


def test_a_machine_without_nft_is_told_of(here, tmp_path):
    (tmp_path / "nothing").touch()
    assert here.start(CLOSER, nft=tmp_path / "nothing").stdout.readline() == "nft is not installed\n"


def test_rules_that_would_refuse_the_program_itself_are_not_left(here):
    process = here.start(CLOSER, "other user")
    assert "refuse this user too" in process.stdout.readline()
    assert here.tables() == []


def test_a_table_of_many_ports_is_accepted(here):
    name = "hetero_mtf_1_2_3"
    for owned in (True, False):
        done = _run(*here.command("nft", "-f", "-"), input=firewall.rules(name, range(61000, 65500), 0, owned) + "\n")
        assert done.returncode == 0, done.stderr
    here.nft("delete", "table", "inet", name)
