"""NeuSight's times: their reader, the profile of a drawn network, and the table, on small files of the same format."""

from __future__ import annotations

import pathlib

import pytest
from click.testing import CliRunner

from hetero_mtf.errors import DataError
from tools.bench.others.neusight import (
    BATCH,
    CONVOLUTIONS,
    FILES,
    TimedConvolution,
    drawn_network,
    main,
    profile_of,
    read_seconds,
    relative_steps,
)

HEAD = "OPName,Latency,Device,Kernels,B,Input_Channel,Output_Channel,Kernel_Szie,Input_Size,Stride,Padding"
ENTRIES = [TimedConvolution(BATCH, 16, 16 + 8 * at, 3, 16, 1, 1) for at in range(12)]
NEAR = (0.0, 1e15)  # a link that costs nothing


def _lines(factor: float, every: int = 1) -> str:
    rows = []
    for at, entry in enumerate(ENTRIES):
        sizes = (entry.batch, entry.inputs, entry.filters, entry.kernel, entry.size, entry.stride, entry.padding)
        rows.append(f'conv,{factor * (1 + at % every)},GPU,"a, b",{",".join(map(str, sizes))}')
    return "\n".join([HEAD, *rows, ""])


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """Return a clone in which a T4 takes twice, and every third layer's multiple, of the other GPUs' milliseconds."""
    (tmp_path / CONVOLUTIONS).mkdir(parents=True)
    for gpu, name in FILES.items():
        (tmp_path / CONVOLUTIONS / name).write_text(_lines(*((2.0, 3) if gpu == "T4" else (1.0, 1))))
    return tmp_path


def test_times_are_read_by_their_sizes(folder: pathlib.Path) -> None:
    seconds = read_seconds(folder, "T4")
    assert len(seconds) == 12 and seconds[ENTRIES[1]] == pytest.approx(4e-3)
    assert ENTRIES[0].side == 16 and TimedConvolution(1, 1, 1, 3, 7, 2, 0).side == 3


def test_a_network_is_drawn_by_its_seed_and_has_no_layer_twice() -> None:
    assert drawn_network(ENTRIES, 3) == drawn_network(ENTRIES, 3) != drawn_network(ENTRIES, 4)
    assert len(set(drawn_network(ENTRIES, 3))) == 10


def test_where_all_layers_differ_alike_one_speed_is_enough() -> None:
    both = [{entry: 0.1 for entry in ENTRIES}, {entry: 0.3 for entry in ENTRIES}]
    steps = relative_steps(profile_of(ENTRIES[:4], both, NEAR))
    assert steps["samples"] == steps["batch"] == pytest.approx(0.75, rel=1e-3)
    assert steps["ruled"] == pytest.approx(0.75, rel=0.05) and steps["equal"] == pytest.approx(1.5, rel=1e-3)
    assert steps["auto"] <= min(steps.values()) * (1 + 1e-9)


def test_where_layers_differ_otherwise_exact_sizes_gain() -> None:
    both = [{entry: 0.1 for entry in ENTRIES}, {entry: 0.1 * (1 + 9 * (at % 2)) for at, entry in enumerate(ENTRIES)}]
    steps = relative_steps(profile_of(ENTRIES[:4], both, NEAR))
    assert steps["filters"] < 0.95 * steps["ruled"]


def test_the_table_has_a_row_for_each_pair_and_link(folder: pathlib.Path) -> None:
    done = CliRunner().invoke(main, ["--folder", str(folder), "--networks", "2", "--results", "-"])
    assert done.exit_code == 0, done.output
    assert "| A100 and P4 | PCIe | 1.0 / 1.0 |" in done.output and "| P100 and T4 | 10 GbE | 2.0 / 6.0 |" in done.output


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (HEAD + "\n", "Tesla T4.csv has no convolutions"),
        (_lines(1.0).replace("Kernel_Szie", "Kernel"), "line 2 of Tesla T4.csv is no timed convolution"),
        (_lines(-1.0), "line 2 of Tesla T4.csv has sizes or a time that cannot be"),
        (_lines(float("nan")), "line 2 of Tesla T4.csv has sizes or a time that cannot be"),
    ],
)
def test_a_damaged_file_is_a_fault(folder: pathlib.Path, text: str, fault: str) -> None:
    (folder / CONVOLUTIONS / FILES["T4"]).write_text(text)
    with pytest.raises(DataError, match=fault):
        read_seconds(folder, "T4")


def test_a_missing_file_says_how_to_fetch_it(tmp_path: pathlib.Path) -> None:
    done = CliRunner().invoke(main, ["--folder", str(tmp_path), "--results", "-"])
    assert done.exit_code == 1 and "git clone https://github.com/sitar-lab/NeuSight" in done.output
