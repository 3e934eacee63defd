"""Which way batches take."""

import types

import pytest
import tensorflow as tf

from hetero_mtf.program.feeding.feed_choice import staged_batches
from hetero_mtf.program.feeding.sent_batches import SentBatches
from hetero_mtf.program.feeding.shared_batches import SharedBatches
from hetero_mtf.runtime.shared import mapped_memory

HERE = types.SimpleNamespace(shares_memory=True, target="grpc://127.0.0.1:1")
ELSEWHERE = types.SimpleNamespace(shares_memory=False, target="grpc://127.0.0.1:1")
INSIDE = types.SimpleNamespace(shares_memory=False, target="")
LARGE, SMALL = ((2**17,), "float32"), ((16,), "float32")


def test_workers_of_this_host_share_memory_and_servers_elsewhere_are_sent_large_batches() -> None:
    for cluster, kind in ((HERE, SharedBatches), (ELSEWHERE, SentBatches)):
        staged = staged_batches(cluster, "c", [LARGE, SMALL], [tf.float32] * 2)
        assert isinstance(staged, kind) and [array is not None for array in staged.arrays] == [True, False]
        assert staged_batches(cluster, "c", [SMALL], [tf.float32]) is None
    assert staged_batches(INSIDE, "c", [LARGE], [tf.float32]) is None


def test_text_is_fed() -> None:
    assert staged_batches(HERE, "c", [((2**17,), "object")], [tf.string]) is None
    assert staged_batches(HERE, "c", [((2**17,), "<U3")], [tf.string]) is None


def test_without_anonymous_files_workers_of_this_host_are_as_servers_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(mapped_memory.os, "memfd_create")
    assert isinstance(staged_batches(HERE, "c", [LARGE], [tf.float32]), SentBatches)
