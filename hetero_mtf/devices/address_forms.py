"""The forms of a server's address: what is none, what no other host reaches, and which spellings are one address."""

from __future__ import annotations

import ipaddress
import re
from typing import Any

# Parts that resolvers read as numbers, in decimal or hexadecimal: 127.1 and 0x7f.1 are addresses for some and names for others.
_NUMBERS = re.compile(r"(0[xX][0-9A-Fa-f]*|[0-9]+)(\.(0[xX][0-9A-Fa-f]*|[0-9]+))*")
_MOST_LABEL, _MOST_NAME, _MOST_PORT = 63, 253, 65535


def split(text: str) -> tuple[str, str]:
    """Return the host, an IPv6 address with its brackets, and the port of an address, "" for what is missing."""
    match = re.fullmatch(r"(\[[^\[\]]*\]|[^:\[\]]*):(.*)", text)
    return (match[1], match[2]) if match else (text, "")


def canonical(text: str) -> str:
    """Return the one spelling that all spellings of an address share."""
    host, port = split(text)
    if host.startswith("["):
        return f"[{ipaddress.IPv6Address(host[1:-1])}]:{port}"
    return f"{host.lower().removesuffix('.')}:{port}"


def fault_of_form(text: object) -> str:
    """Return why a text is no HOST:PORT, "" where it is one."""
    if not isinstance(text, str):
        return "no text"
    scheme = text.rpartition("://")[0]
    if scheme:
        return f"leave out {scheme}://"
    if "@" in text or "/" in text:
        return f"leave out {text.partition('@')[0]}@" if "@" in text else f"leave out /{text.partition('/')[2]}"
    if re.search(r"\s", text):
        return "it has a space"
    bracketed = re.fullmatch(r"\[[^\[\]]*\](:[^:]*)?", text)
    if bracketed is None and (text.count(":") > 1 or "[" in text or "]" in text):
        return "an IPv6 address is written in brackets, as [::1]:2222, and no other part has a colon"
    host, port = split(text)
    return _fault_of_name(host) or _fault_of_port(port)


def _fault_of_port(port: str) -> str:
    if not port:
        return "it has no port"
    if not (port.isascii() and port.isdecimal()):
        return f"the port {port!r} is no number"
    if port[0] == "0" and port != "0":
        return f"the port {port} has leading zeros"
    return "" if len(port) <= 5 and 1 <= int(port) <= _MOST_PORT else f"there is no port {port}"


def _fault_of_name(host: str) -> str:
    """Return why a host is neither a name nor an address, "" where it is one."""
    if not host:
        return "it has no host"
    if host.startswith("["):
        return "" if is_ip(host[1:-1], ipaddress.IPv6Address) else f"{host[1:-1]} is no IPv6 address"
    if _NUMBERS.fullmatch(host):
        return "" if is_ip(host, ipaddress.IPv4Address) else f"{host} is no IPv4 address"
    if host == "*":
        return ""
    labels = host.removesuffix(".").split(".")
    if not all(labels):
        return f"the name {host} has an empty part between its dots"
    if not host.isascii():
        return f"the name {host} has letters beyond ASCII{_in_ascii(host)}"
    other = re.sub(r"[A-Za-z0-9_.-]", "", host)
    if other:
        return f"no name of a host has {other[0]!r}"
    longest = max(len(label) for label in labels)
    if longest > _MOST_LABEL or len(host) > _MOST_NAME:
        return f"a name has at most {_MOST_NAME} letters, {_MOST_LABEL} between dots, this one {len(host)} and {longest}"
    return ""


def _in_ascii(host: str) -> str:
    """Return how a name in another script is written in ASCII, to be appended to a sentence, "" where it cannot be."""
    try:
        return f", in ASCII it is {host.encode('idna').decode()}"
    except UnicodeError:
        return ""


def fault_of_host(host: str) -> str:
    """Return why no other host reaches a well-formed host, "" where it may."""
    if host == "*":
        return "every address of a machine, to listen on"
    bare = host.strip("[]")
    if not is_ip(bare):
        return ""
    address = ipaddress.ip_address(bare)
    if address.is_unspecified:
        return "an address to listen on, which stands for all of a machine's"
    if address.is_multicast or bare == "255.255.255.255":
        return "the address of a group of hosts"
    if not isinstance(address, ipaddress.IPv6Address):
        return ""
    if address.ipv4_mapped is not None:
        return f"the IPv4 address {address.ipv4_mapped}, written as IPv6"
    zoneless = address.is_link_local and address.scope_id is None
    return f"link-local and has no zone, such as [{bare}%eth0]" if zoneless else ""


def is_ip(text: str, kind: Any = ipaddress.ip_address) -> bool:
    """Return whether a text is an IP address, or one of a version."""
    try:
        kind(text)
    except ValueError:
        return False
    return True
