"""The firewall of emulated workers: its rules, the tables that it sweeps, and what is told where it cannot be set."""

import logging
import os
import signal
import subprocess

import pytest

from hetero_mtf.errors import ClusterError
from hetero_mtf.runtime import firewall
from hetero_mtf.runtime.ports import free_ports
from hetero_mtf.runtime.processes.parent_death import start_time

OWNING = """
if [ "$1" = -i ]; then
    read -r add table family name rest
    echo "$add $table $family $name $rest" >> LOG
    while read -r line; do
        echo "$line" >> LOG
        [ "$line" = "list tables inet" ] && printf 'LISTED\\ntable inet %s\\n' "$name"
    done
    echo ended >> LOG
fi
"""
OLD = """
[ "$1" = -i ] && { echo "Error: syntax error, unexpected string"; exit 1; }
read -r line
echo "$line" >> LOG
[ "$line" = "list tables inet" ] && printf 'LISTED\\n'
exit 0
"""
REFUSED = 'echo "Error: Could not process rule: Operation not permitted" >&2; exit 1'
DEAD = "hetero_mtf_2147483647_5_{}"


@pytest.fixture
def dead_table():
    return DEAD.format(firewall._process_namespace())


@pytest.fixture
def nft(tmp_path, monkeypatch):
    """Puts a shell program in the place of nft, and returns what it is asked for."""
    log = tmp_path / "log"
    log.touch()

    def put(program, listed=""):
        command = tmp_path / "nft"
        command.write_text("#!/bin/sh\n" + program.replace("LOG", str(log)).replace("LISTED", listed))
        command.chmod(0o755)
        return lambda: log.read_text().splitlines()

    monkeypatch.setattr(firewall, "_COMMAND_FOLDERS", (str(tmp_path),))
    return put


def test_the_rules_name_the_ports_once_and_refuse_others_alone():
    line = firewall.rules("hetero_mtf_1_2_3", [61000, 61007], 1000, owned=True)
    assert "\n" not in line and line.startswith("add table inet hetero_mtf_1_2_3 { flags owner; ")
    assert "elements = { 61000, 61007 }" in line and line.count("61000") == 1
    opening = "tcp flags & (syn | ack) == syn tcp dport @ports reject with tcp reset"
    assert f'hook input priority -10; policy accept; iifname != "lo" {opening}' in line
    assert f'hook output priority -10; policy accept; oifname "lo" meta skuid != 1000 {opening}' in line
    assert firewall.rules("a", [61000, 61007], 1000, owned=False) == line.replace("flags owner; ", "").replace("hetero_mtf_1_2_3", "a")


def test_other_hosts_that_may_connect_are_named_by_family():
    opening = "tcp flags & (syn | ack) == syn tcp dport @ports reject with tcp reset"
    line = firewall.rules("a", [2222], 1000, False, ["192.0.2.1/32", "2001:db8::/64", "198.51.100.0/24"])
    assert "set from4 { type ipv4_addr; flags interval; auto-merge; elements = { 192.0.2.1/32, 198.51.100.0/24 }; }" in line
    assert "set from6 { type ipv6_addr; flags interval; auto-merge; elements = { 2001:db8::/64 }; }" in line
    assert f'iifname != "lo" ip saddr != @from4 {opening}; iifname != "lo" ip6 saddr != @from6 {opening}' in line
    only_four = firewall.rules("a", [2222], 1000, False, ["192.0.2.1/32"])
    assert f'iifname != "lo" ip saddr != @from4 {opening}; iifname != "lo" meta nfproto ipv6 {opening}' in only_four
    assert "from6" not in only_four


def test_what_may_connect_is_an_address_a_network_or_a_name():
    networks = firewall._networks
    assert networks("192.0.2.1") == networks("192.0.2.1:2222") == ["192.0.2.1/32"] and networks("192.0.2.7/24") == ["192.0.2.0/24"]
    assert networks("[2001:db8::1]:2222") == networks("2001:db8::1") == ["2001:db8::1/128"] and "127.0.0.1/32" in networks("localhost:1")
    for unknown in ("no-such-host.invalid", "192.0.2.1/99", ""):
        with pytest.raises(ClusterError, match="is no address, network or known name"):
            firewall.close_to_others([61000], [unknown])


def test_ports_that_cannot_be_closed_to_others_are_not_served(nft):
    nft(REFUSED)
    with pytest.raises(ClusterError, match="the ports 61000 cannot be closed to others .*Operation not permitted.*leave out --allow"):
        firewall.close_to_others([61000], ["192.0.2.1"])


def test_only_tables_whose_process_is_gone_are_orphans():
    listing = "\n".join(
        ["table inet filter", "table inet hetero_mtf_7_70_9", "table inet hetero_mtf_8_80_9", "table inet hetero_mtf_8_80_10"]
        + ["table inet hetero_mtf_8", "table inet my_hetero_mtf_8_80_9", "table ip hetero_mtf_8_80_9"]
    )
    assert firewall.orphans(listing, lambda process, start: (process, start) == (8, 80), 9) == ["hetero_mtf_8_80_9"]


def test_a_process_has_ended_when_its_number_has_another_start_or_none():
    own = os.getpid()
    assert not firewall.has_ended(own, start_time(own))
    assert firewall.has_ended(own, start_time(own) - 1)
    child = subprocess.Popen(["sleep", "60"])
    start = start_time(child.pid)
    assert not firewall.has_ended(child.pid, start)
    child.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert firewall.has_ended(child.pid, start)  # though nobody has waited for it
    child.wait()
    assert firewall.has_ended(child.pid, start)


def test_a_process_that_is_hidden_may_be_alive(monkeypatch):
    def refuse(process, number):
        raise PermissionError

    monkeypatch.setattr(firewall, "start_time", lambda process: None)
    monkeypatch.setattr(os, "kill", refuse)
    assert not firewall.has_ended(1, 5)


def test_the_table_belongs_to_a_process_of_nft_and_orphans_are_swept(nft, dead_table, monkeypatch):
    asked = nft(OWNING, f"table inet {dead_table}\\ntable inet mine")
    closed = firewall.close_ports(free_ports(2))
    assert closed.table == firewall.table_name() and closed.line is not None
    closed.remove()
    closed.remove()
    first, *others = asked()
    assert first.startswith(f"add table inet {closed.table} {{ flags owner; ")
    assert others == ["list tables inet", f"delete table inet {dead_table}", "ended"]


def test_where_no_table_can_be_owned_it_is_removed_by_name(nft, dead_table):
    asked = nft(OLD, f"table inet {dead_table}\\ntable inet mine")
    closed = firewall.close_ports(free_ports(1))
    assert closed.line is None
    closed.remove()
    listed, swept, added, removed = asked()
    assert (listed, swept, removed) == ("list tables inet", f"delete table inet {dead_table}", f"delete table inet {closed.table}")
    assert added.startswith(f"add table inet {closed.table} {{ set ports ")
    assert firewall.sweep() == [dead_table]


def test_without_nft_or_the_right_to_use_it_the_reason_is_told(nft, monkeypatch):
    nft(REFUSED)
    with pytest.raises(firewall.RulesError, match="^nft: Operation not permitted$"):
        firewall.close_ports([61000])
    assert firewall.sweep() == []
    monkeypatch.setattr(firewall, "_COMMAND_FOLDERS", ())
    monkeypatch.setenv("PATH", "")
    with pytest.raises(firewall.RulesError, match="nft is not installed"):
        firewall.close_ports([61000])
    assert firewall.sweep() == []


def test_an_nft_that_hangs_is_left(nft, monkeypatch):
    nft("exec sleep 60")
    monkeypatch.setattr(firewall, "LIMIT_S", 0.05)
    with pytest.raises(firewall.RulesError, match="nft did not answer in 0.05 s"):
        firewall.close_ports([61000])


def test_no_command_of_the_current_folder_is_nft(nft, tmp_path, monkeypatch):
    nft(OWNING)
    monkeypatch.setattr(firewall, "_COMMAND_FOLDERS", ())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", ":.:")
    assert firewall._nft() is None


def test_rules_that_refuse_this_process_too_are_removed(nft, monkeypatch):
    asked = nft(OWNING)
    monkeypatch.setattr(firewall, "_reaches_itself", lambda port: False)
    with pytest.raises(firewall.RulesError, match="the rules refuse this user too"):
        firewall.close_ports([61000])
    assert asked()[-1] == "ended"


def test_open_ports_are_told_once_in_a_process(caplog, monkeypatch):
    monkeypatch.setattr(firewall, "_SAID", set())
    for _ in range(2):
        firewall.tell_once(firewall.open_text("nft is not installed"))
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("hetero_mtf", logging.WARNING)
    assert "can connect to the emulated workers" in record.getMessage() and "; let the program write nftables rules" in record.getMessage()
