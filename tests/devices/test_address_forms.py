"""What is an address of a server, what is none and why, and which spellings are one address."""

import pytest

from hetero_mtf.devices.addresses import parse_hosts
from hetero_mtf.errors import ClusterError

LONGEST = ".".join(["a" * 63] * 3 + ["b" * 61])


@pytest.mark.parametrize(
    "host",
    [
        "gpu_1.example:2222",
        "fast.example.:2222",
        "Fast-2:1",
        "node.1:65535",
        "10.0.0.30:2222",
        "[::1]:2222",
        "[2001:DB8:0::1]:2222",
        "[fe80::1%eth0]:2222",
        "[fe80::1%enp0s31f6.7]:2222",
        "[fe80::1%2]:2222",
        f"{LONGEST}:1",
    ],
)
def test_names_and_addresses_are_taken_as_they_are_written(host):
    assert parse_hosts([host]).hosts == (host,)


@pytest.mark.parametrize(
    ("host", "fault"),
    [
        ("a", "it has no port"),
        ("[::1]", "it has no port"),
        ("a:0", "there is no port 0"),
        ("a:65536", "there is no port 65536"),
        (f"a:1{'0' * 5000}", "there is no port 1"),
        ("a:+80", "the port '.80' is no number"),
        ("a:\N{SUPERSCRIPT TWO}", "the port '\N{SUPERSCRIPT TWO}' is no number"),
        ("a:00080", "the port 00080 has leading zeros"),
        (":1", "it has no host"),
        ("10.0.0.300:2222", "10.0.0.300 is no IPv4 address"),
        ("10.0.0.010:2222", "10.0.0.010 is no IPv4 address"),
        ("127.1:2222", "127.1 is no IPv4 address"),
        ("0x7f.1:2222", "0x7f.1 is no IPv4 address"),
        ("1234:2222", "1234 is no IPv4 address"),
        ("[:::::]:1", "::::: is no IPv6 address"),
        ("[10.0.0.1]:1", "10.0.0.1 is no IPv6 address"),
        ("[fe80::1%]:1", "fe80::1% is no IPv6 address"),
        ("[]:1", " is no IPv6 address"),
        ("::1:2222", "an IPv6 address is written in brackets"),
        ("[::1:2222", "an IPv6 address is written in brackets"),
        ("a:1:2", "an IPv6 address is written in brackets"),
        ("http://a:1", "leave out http://"),
        ("grpc://a:1", "leave out grpc://"),
        ("user@a:1", "leave out user@"),
        ("a:1/path", "leave out /path"),
        ("a b:1", "it has a space"),
        ("a..b:1", "the name a..b has an empty part"),
        (".a:1", "the name .a has an empty part"),
        ("a+b:1", "no name of a host has '.'"),
        (f"{'a' * 64}:1", "at most 253 letters, 63 between dots, this one 64 and 64"),
        (f"{LONGEST}c:1", "at most 253 letters, 63 between dots, this one 254 and 63"),
        ("münchen.example:1", "letters beyond ASCII, in ASCII it is xn--mnchen-3ya.example"),
        (7, "no text"),
    ],
)
def test_what_is_no_address_is_named_with_the_reason(host, fault):
    with pytest.raises(ClusterError, match=rf"{fault}.*\) is no HOST:PORT; write hosts as HOST:PORT,HOST:PORT"):
        parse_hosts(["fine:1", host])


@pytest.mark.parametrize(
    ("host", "what"),
    [
        ("*:2222", "every address of a machine, to listen on"),
        ("0.0.0.0:2222", "an address to listen on"),
        ("[::]:2222", "an address to listen on"),
        ("[0:0::0]:2222", "an address to listen on"),
        ("224.0.0.1:2222", "the address of a group of hosts"),
        ("255.255.255.255:2222", "the address of a group of hosts"),
        ("[ff02::1%eth0]:2222", "the address of a group of hosts"),
        ("[::ffff:1.2.3.4]:1", "the IPv4 address 1.2.3.4, written as IPv6"),
        ("[fe80::1]:2222", r"link-local and has no zone, such as \[fe80::1%eth0\]"),
    ],
)
def test_what_no_other_host_reaches_is_refused_as_such(host, what):
    with pytest.raises(ClusterError, match=f"is {what}.*; write the name or address by which other hosts reach the server"):
        parse_hosts(["fine:1", host])


def test_all_faults_of_a_list_are_named_at_once():
    with pytest.raises(
        ClusterError, match=r"'a' \(.*\), 'b:0' \(.*\) is no HOST:PORT, 0.0.0.0:1 is .*; write hosts as .* and write the name"
    ):
        parse_hosts(["a", "b:0", "fine:1", "0.0.0.0:1"])


@pytest.mark.parametrize(
    "hosts", [["A.example:1", "a.Example:1"], ["a:1", "a.:1"], ["[::1]:1", "[0:0:0:0:0:0:0:1]:1"], ["[FE80::1%eth0]:1", "[fe80::1%eth0]:1"]]
)
def test_one_address_in_two_spellings_is_refused(hosts):
    with pytest.raises(ClusterError, match="also written .* is listed more than once; give every server its own port"):
        parse_hosts(hosts)
    with pytest.raises(ClusterError, match="grants its lease on .*; choose a port with other last digits"):
        parse_hosts([hosts[0].removesuffix("1") + "61000", hosts[1].removesuffix("1") + "51000"])
