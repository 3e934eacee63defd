"""Device, Link, MemoryPool and ClusterRecord."""

import dataclasses
import json

import pytest

from hetero_mtf.devices import ClusterRecord, Device, Link, MemoryPool
from hetero_mtf.errors import ClusterError

FAST = Device("worker:0", "CPU", "a", "/job:worker/task:0/device:CPU:0", 2**30, "host", 1.0, "some model")
SLOW = dataclasses.replace(FAST, name="worker:1", tf_device="/job:worker/task:1/device:CPU:0", share=0.5)
RECORD = ClusterRecord((FAST, SLOW), (MemoryPool("host", 2**30),), (Link(0, 1, 1e-4, 1e9), Link(1, 0, 2e-4, 5e8)))


def test_a_record_comes_back_from_its_json_text():
    assert ClusterRecord.from_json(json.loads(json.dumps(RECORD.to_json()))) == RECORD


def test_the_process_of_a_device_is_its_tensorflow_device_without_the_device():
    assert SLOW.process == "/job:worker/task:1" and dataclasses.replace(FAST, tf_device="/device:GPU:1").process == ""


def test_links_share_and_model_may_be_left_out_and_whole_numbers_serve_as_floats():
    document = RECORD.to_json()
    del document["links"], document["devices"][0]["model"], document["devices"][1]["share"], document["devices"][0]["cores"]
    document["devices"][0]["share"] = 1
    record = ClusterRecord.from_json(document)
    assert record.links == () and (record.devices[0].model, record.devices[0].cores) == ("", 0) and record.devices[1].share == 1.0
    assert isinstance(record.devices[0].share, float)


def test_every_fault_of_a_document_is_named_at_once_with_its_path():
    document = json.loads(json.dumps(RECORD.to_json()))
    document["devices"][0]["memory_bytes"] = "much"
    del document["devices"][1]["name"]
    document["devices"][1]["colour"] = "red"
    document["pools"] = "host"
    document["links"][0] = 7
    document["links"][1]["latency_s"] = True
    with pytest.raises(ClusterError) as caught:
        ClusterRecord.from_json(document)
    assert str(caught.value) == (
        "the description of the cluster is damaged: devices[0].memory_bytes is 'much' and not int, devices[1].colour is unknown, "
        "devices[1].name is missing, pools is not a list, links[0] is not an object, links[1].latency_s is True and not float; "
        "look for the devices again"
    )


@pytest.mark.parametrize("value", [10**400, -(10**400)])
def test_a_number_that_no_float_holds_is_named_and_not_an_overflow(value):
    document = RECORD.to_json()
    document["links"][0]["latency_s"] = document["devices"][0]["memory_bytes"] = value
    faults = r"devices\[0\].memory_bytes is too large a number, links\[0\].latency_s is too large a number"
    with pytest.raises(ClusterError, match=f"damaged: {faults}; look for the devices again"):
        ClusterRecord.from_json(document)


def test_a_document_that_is_no_object_is_refused():
    with pytest.raises(ClusterError, match="the description of the cluster is not a JSON object; look for the devices again"):
        ClusterRecord.from_json([])


def test_every_contradiction_is_named_at_once():
    bad = dataclasses.replace(FAST, kind="TPU", pool="attic", memory_bytes=-1, share=0.0, cores=-2, limit="all")
    with pytest.raises(ClusterError) as caught:
        ClusterRecord((bad,), (MemoryPool("host", -5), MemoryPool("host", 1)), (Link(0, 1, -1.0, 0.0),))
    for part in (
        "pool host is listed 2 times",
        "pools[0].free_bytes is -5, below 0",
        "devices[0].kind is 'TPU', neither CPU nor GPU",
        "devices[0].pool is 'attic', which is no pool",
        "devices[0].memory_bytes is -1, below 0",
        "devices[0].share is 0.0, outside (0, 1]",
        "devices[0].limit is 'all', neither process nor compute",
        "devices[0].cores is -2, below 0",
        "links[0].destination is 1, and there are 1 devices",
        "links[0].latency_s is -1.0, not a time",
        "links[0].bandwidth_bytes_per_s is 0.0, not a number above 0",
    ):
        assert part in str(caught.value)


def test_a_cluster_without_devices_is_refused():
    with pytest.raises(ClusterError, match="the description of the cluster is wrong: there is no device; correct it or look for"):
        ClusterRecord((), ())


def test_a_spread_below_zero_is_refused_and_may_be_left_out():
    document = RECORD.to_json()
    del document["links"][0]["spread"], document["links"][0]["message_s"]
    assert ClusterRecord.from_json(document) == RECORD
    with pytest.raises(ClusterError, match=r"links\[0\].spread is -1.0, not a number from 0; correct it"):
        dataclasses.replace(RECORD, links=(dataclasses.replace(RECORD.links[0], spread=-1.0),))
