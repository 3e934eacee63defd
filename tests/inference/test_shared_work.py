"""Pieces of work are shared out by measured seconds, and the last one is done as early as possible."""

import heapq

import pytest

from hetero_mtf.inference.shared_work import SharedWork


def simulate(pieces, needs_s, changes=None):
    """Return when all pieces were done, and how many each device did, on devices that need these seconds for one.

    Parameters
    ----------
    changes : device -> seconds of its second piece and all that follow.
    """
    now = [0.0]
    work = SharedWork(pieces, len(needs_s), clock=lambda: now[0])
    work._changed.wait = lambda timeout: (_ for _ in ()).throw(StopIteration)  # a device that would wait is asked again later
    events, begun, done = [], [0] * len(needs_s), set()
    waiting = list(range(len(needs_s)))
    while True:
        for device in [*waiting]:
            try:
                piece = work.take(device)
            except (StopIteration, RuntimeError):
                continue
            waiting.remove(device)
            if piece is None:
                return now[0], work.taken
            seconds = (changes or {}).get(device, needs_s[device]) if begun[device] else needs_s[device]
            begun[device] += 1
            heapq.heappush(events, (now[0] + seconds, device, seconds, piece))
        now[0], device, seconds, piece = heapq.heappop(events)
        work.note(device, seconds)
        assert work.finish(device) == (piece not in done)
        done.add(piece)
        waiting.append(device)


@pytest.mark.parametrize(
    "pieces, needs_s, at_most_s",
    [
        (30, [1.0, 2.0], 20.0),
        (31, [1.0, 2.0], 21.0),
        (12, [1.0, 1.0, 1.0], 4.0),
        (20, [1.0, 50.0], 20.0),  # the slow device's first piece is done again
        (1, [1.0, 3.0], 1.0),
        (100, [0.5, 0.7, 9.0], 30.5),
    ],
)
def test_the_last_piece_is_done_as_early_as_whole_pieces_allow(pieces, needs_s, at_most_s):
    end_s, taken = simulate(pieces, needs_s)
    assert end_s <= at_most_s + 1e-9 and sum(taken) == pieces


def test_a_device_that_hangs_does_not_hold_up_the_others():
    end_s, taken = simulate(20, [1.0, 1.0], changes={1: 1e6})
    assert end_s <= 20.0 and taken == [19, 1]


def test_what_fails_first_ends_the_work():
    work = SharedWork(3, 2)
    assert work.take(0) == 0
    work.fail(ValueError("first"))
    work.fail(ValueError("second"))
    assert work.take(1) is None
    with pytest.raises(ValueError, match="first"):
        work.wait()
