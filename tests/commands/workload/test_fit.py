"""When a training from the command line saves on the way."""

import types

import pytest

from hetero_mtf.commands.workload.fit import _save_times


def _plan(stale=None, gradient_sync="all_reduce"):
    return types.SimpleNamespace(execution=types.SimpleNamespace(stale=stale), gradient_sync=gradient_sync)


@pytest.mark.parametrize(
    ("save", "every", "has_servers", "plan", "saves"),
    [
        ("s.npz", 3, False, _plan(), 3),
        ("s.npz", 3, True, _plan(stale=object()), 3),
        ("s.npz", None, True, _plan(), "by time"),
        ("s.npz", None, False, _plan(), None),
        (None, None, True, _plan(), None),
        ("s.npz", None, True, _plan(stale=object()), None),
        ("s.npz", None, True, _plan(gradient_sync="butterfly"), None),
    ],
)
def test_with_workers_on_other_hosts_states_are_saved_by_time(save, every, has_servers, plan, saves):
    request = types.SimpleNamespace(save=save, save_every=every)
    times = _save_times(request, plan, types.SimpleNamespace(has_servers=has_servers))
    assert (None if times is None else times.every or "by time") == saves
