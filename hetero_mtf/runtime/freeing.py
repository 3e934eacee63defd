"""Frees containers on workers, by the service that TensorFlow's master itself calls for it.

`Session.reset` frees them, too, but closes all sessions of the master that it goes through, whoever opened them. The workers' own service
(`CleanupAll` of tensorflow/core/protobuf/worker_service.proto) drops what is named and leaves sessions alone.
"""

from __future__ import annotations

from collections.abc import Sequence

_METHOD = "/tensorflow.WorkerService/CleanupAll"
LIMIT_S = 10.0


def free_containers(hosts: Sequence[str], names: Sequence[str]) -> bool:
    """Free the variables in containers on every worker, and return whether all workers have answered.

    Parameters
    ----------
    hosts : "host:port" of each worker.
    names : names of the containers, at least one: without any, TensorFlow frees its default one.
    """
    import grpc  # these take a tenth of a second, and most processes end without
    import tensorflow as tf

    assert names
    # a message of repeated strings in field 1, as CleanupAllRequest, which the package does not have
    request = tf.train.BytesList(value=[name.encode() for name in names]).SerializeToString()
    channels = [grpc.insecure_channel(host, options=[("grpc.enable_http_proxy", 0)]) for host in hosts]
    try:
        calls = [channel.unary_unary(_METHOD).future(request, timeout=LIMIT_S) for channel in channels]
        return all(call.exception() is None for call in calls)
    finally:
        for channel in channels:
            channel.close()
