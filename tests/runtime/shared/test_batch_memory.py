"""Memory that workers read batches in; a worker is this process itself where not said otherwise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetero_mtf.runtime.shared import mapped_memory
from hetero_mtf.runtime.shared.batch_memory import BatchMemory, read_part

EXTENTS = st.lists(st.integers(1, 5), min_size=1, max_size=4)


def _memory(arrays: list[np.ndarray], slots: int = 2) -> BatchMemory:
    return BatchMemory([(array.shape, str(array.dtype)) for array in arrays], slots)


@settings(deadline=None)
@given(st.data(), st.lists(st.tuples(EXTENTS, st.sampled_from(["float32", "float64", "uint8", "int32", "bool"])), min_size=1, max_size=4))
def test_every_part_of_every_array_is_read_as_it_was_written(data: st.DataObject, forms: list[tuple[list[int], str]]) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.integers(0, 2, shape).astype(dtype) for shape, dtype in forms]
    memory = _memory(arrays)
    slot = data.draw(st.integers(0, 1))
    memory.write(slot, arrays)
    memory.select(slot)
    for number, array in enumerate(arrays):
        begins = [data.draw(st.integers(0, n - 1)) for n in array.shape]
        extents = [data.draw(st.integers(1, n - begin)) for n, begin in zip(array.shape, begins)]
        part = read_part(memory.order(number, begins, extents))
        expected = array[tuple(slice(b, b + n) for b, n in zip(begins, extents))]
        assert part.dtype == array.dtype and np.array_equal(part, expected)
    memory.close()


def test_a_slot_is_written_while_the_selected_one_is_read_without_a_copy() -> None:
    first, second = np.full((4, 16), 1.0), np.full((4, 16), 2.0)
    memory = _memory([first])
    memory.write(0, [first])
    memory.select(0)
    order = memory.order(0, [1, 0], [3, 16])
    part = read_part(order)
    memory.write(1, [second])
    assert not part.flags.owndata and part.ctypes.data % 64 == 0 and (part == 1).all() and (read_part(order) == 1).all()
    memory.select(1)
    assert (read_part(order) == 2).all()


def test_an_array_of_another_form_is_refused() -> None:
    memory = _memory([np.zeros((2, 3), "float32")])
    with pytest.raises(TypeError):
        memory.write(0, [np.zeros((2, 3), "float64")])
    with pytest.raises(ValueError):
        memory.write(0, [np.zeros((3, 3), "float32")])
    with pytest.raises(ValueError):
        memory.write(0, [])


def test_memory_that_was_given_back_is_unmapped_when_other_memory_is_read() -> None:
    old, new = _memory([np.zeros(3)]), _memory([np.zeros(3)])
    read_part(old.order(0, [0], [3]))
    place = old._memory.place
    assert place in mapped_memory._MAPPED
    old.close()
    old.close()
    read_part(new.order(0, [0], [3]))
    assert place not in mapped_memory._MAPPED
