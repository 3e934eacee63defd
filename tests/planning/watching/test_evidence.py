"""Changes of devices in words."""

from __future__ import annotations

from hetero_mtf.planning.watching.evidence import DeviceChange, change_text


def test_changes_are_told_in_words() -> None:
    assert change_text([DeviceChange("gpu:0", 0.25)]) == "gpu:0 became 4.00 times as fast" and change_text([]) == ""
