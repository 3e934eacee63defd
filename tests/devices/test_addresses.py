"""Host lists and TF_CONFIG."""

import json

import pytest

from hetero_mtf.devices.addresses import Addresses, jobs_without_devices, lease_port, parse_hosts, parse_tf_config
from hetero_mtf.errors import ClusterError


def test_hosts_are_taken_in_order():
    addresses = parse_hosts([" a:2222", "b.example:2223", "[::1]:2224"])
    assert addresses == Addresses(("a:2222", "b.example:2223", "[::1]:2224")) and addresses.port(2) == 2224


@pytest.mark.parametrize("host", ["a", "a:", ":1", "a:0", "a:65536", "a b:1", "http://a:1"])
def test_what_is_no_address_is_named(host):
    with pytest.raises(ClusterError, match="is no HOST:PORT; write hosts as HOST:PORT,HOST:PORT with ports from 1 to 65535"):
        parse_hosts(["fine:1", host])


def test_an_empty_list_and_a_repeated_host_are_refused():
    with pytest.raises(ClusterError, match="the list of hosts is empty; write hosts as"):
        parse_hosts([])
    with pytest.raises(ClusterError, match="a:1 is listed more than once; give every server its own port"):
        parse_hosts(["a:1", "b:1", "a:1"])


def _tf_config(**entries):
    return json.dumps({"cluster": {"worker": ["a:1", "b:1"], "chief": ["c:1"]}, **entries})


@pytest.mark.parametrize(
    ("task", "number"), [({"type": "worker", "index": 1}, 1), ({"type": "worker", "index": "0"}, 0), ({"type": "chief", "index": 0}, None)]
)
def test_tf_config_gives_the_workers_and_the_own_task(task, number):
    assert parse_tf_config(_tf_config(task=task)) == Addresses(("a:1", "b:1"), number)
    assert parse_tf_config(_tf_config()).task is None


@pytest.mark.parametrize("kind", ["chief", "master", "ps", "evaluator", "wroker", None])
def test_a_process_of_another_job_does_not_serve_and_may_train(kind):
    text = _tf_config(task={"type": kind, "index": 0})
    with pytest.raises(
        ClusterError, match=r"TF_CONFIG has the task .*, and only cluster.worker serves: a:1, b:1; start the training program"
    ):
        parse_tf_config(text, worker=True)
    assert parse_tf_config(text) == Addresses(("a:1", "b:1")) and parse_tf_config(_tf_config(), worker=True).task is None


def test_the_jobs_of_tf_config_that_are_no_devices_are_named():
    assert jobs_without_devices(json.dumps({"cluster": {"worker": ["a:1"], "chief": ["c:1"], "ps": ["d:1"], "evaluator": []}})) == (
        "chief",
        "ps",
    )
    assert jobs_without_devices('{"cluster": {"worker": ["a:1"]}}') == jobs_without_devices("{") == jobs_without_devices("") == ()


@pytest.mark.parametrize(
    "task",
    [
        {"type": "worker", "index": 2},
        {"type": "worker", "index": "\N{SUPERSCRIPT TWO}"},
        {"type": "worker"},
        {"type": "worker", "index": True},
        "worker",
    ],
)
def test_a_task_that_is_no_worker_of_tf_config_is_refused(task):
    with pytest.raises(ClusterError, match="TF_CONFIG has task .* for 2 workers; set it to"):
        parse_tf_config(_tf_config(task=task))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "TF_CONFIG is not set; set it to"),
        ("  ", "TF_CONFIG is not set; set it to"),
        ("{", "TF_CONFIG is not JSON"),
        ("[]", r"TF_CONFIG names no workers \(cluster.worker is None\); set it to"),
        ('{"cluster": []}', "TF_CONFIG names no workers"),
        ('{"cluster": {"worker": []}}', r"TF_CONFIG names no workers \(cluster.worker is \[\]\)"),
        ('{"cluster": {"worker": [1]}}', "TF_CONFIG names no workers"),
        ('{"cluster": {"worker": ["a"]}}', "'a' .* is no HOST:PORT"),
    ],
)
def test_a_tf_config_that_cannot_be_used_is_refused(text, sentence):
    with pytest.raises(ClusterError, match=sentence):
        parse_tf_config(text)


def test_one_text_in_place_of_a_list_of_hosts_is_refused_as_such():
    with pytest.raises(ClusterError, match="the hosts are the text 'a:2222'; write a list of HOST:PORT, such as"):
        parse_hosts("a:2222")


@pytest.mark.parametrize("port", [1, 2222, 12221, 20000, 29999, 30000, 61000, 65535])
def test_a_lease_has_a_port_of_its_own_that_is_neither_privileged_nor_of_an_outgoing_connection(port):
    assert 10_000 <= lease_port(port) < 32_768 and lease_port(port) != port


@pytest.mark.parametrize("hosts", [["a:61000", "a:51000"], ["a:61000", "a:21000"]])
def test_servers_of_one_host_whose_leases_share_a_port_are_refused(hosts):
    with pytest.raises(ClusterError, match="grants its lease on a:.*; choose a port with other last digits"):
        parse_hosts(hosts)
    assert parse_hosts([hosts[0], hosts[1].replace("a", "b")]).hosts
