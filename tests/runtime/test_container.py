"""Containers."""

import pytest

from hetero_mtf.runtime.container import Container


def test_names_differ_and_a_container_is_released_once():
    released = []
    with Container("trainer", released.append) as one:
        two = Container("trainer", released.append)
        assert one.name != two.name and one.name.startswith("trainer-")
    one.release()
    assert released == [one.name]


def test_an_error_in_the_block_releases_too():
    released = []
    with pytest.raises(KeyError), Container("trainer", released.append):
        raise KeyError
    assert len(released) == 1
