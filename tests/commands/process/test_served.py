"""Where a worker may serve: addresses of the public internet and root are asked for."""

import os

import pytest

from hetero_mtf.commands.process import served
from hetero_mtf.commands.process.served import check_served, is_root, public_addresses
from hetero_mtf.errors import ClusterError


@pytest.mark.parametrize("name", ["127.0.0.1", "[::1]", "10.2.3.4", "192.168.0.9", "172.31.0.1", "[fe80::1]", "[fd00::1]", "100.64.1.1"])
def test_private_addresses_may_serve(name):
    host = f"{name}:2222"
    assert public_addresses(host) == []
    check_served(host, False, True)


@pytest.mark.parametrize("host", ["9.9.9.9:1", "[2620:fe::fe]:1"])
def test_public_addresses_are_served_where_that_is_asked_for(host):
    with pytest.raises(ClusterError, match="of the public internet, .*; name a private address, or add --open"):
        check_served(host, False, True)
    check_served(host, True, True)


def test_names_that_cannot_be_looked_up_are_left_to_others():
    assert public_addresses("no-such-host.invalid:1") == []


def test_root_serves_where_that_is_asked_for(monkeypatch):
    monkeypatch.setattr(served, "is_root", lambda: True)
    with pytest.raises(ClusterError, match="a worker of root .*; start it as another user, or add --allow-root"):
        check_served("127.0.0.1:1", False, False)
    check_served("127.0.0.1:1", False, True)


def test_the_user_0_of_a_user_namespace_is_not_root(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    whole, mapped = tmp_path / "whole", tmp_path / "mapped"
    whole.write_text("         0          0 4294967295\n")
    mapped.write_text("         0       1000          1\n")
    assert is_root(str(whole)) and not is_root(str(mapped)) and is_root(str(tmp_path / "none"))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert not is_root(str(whole))
