"""Control groups: what is written in version 1 and 2, and the sweeping of those whose owner is gone."""

import os

import pytest

from hetero_mtf.runtime.limits import cgroup
from hetero_mtf.runtime.limits.cgroup import CpuGroup
from hetero_mtf.runtime.processes.parent_death import start_time


def _files(folder, *names):
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_text("")
    return folder


@pytest.mark.parametrize(
    ("share", "quota_us", "period_us"),
    [(0.5, "5000", "10000"), (0.33, "3300", "10000"), (0.05, "1000", "20000"), (1.0, "-1", "10000")],
)
def test_version_1_gets_quota_and_period(tmp_path, share, quota_us, period_us):
    group = CpuGroup(_files(tmp_path / "group", "cpu.cfs_quota_us", "cpu.cfs_period_us"), 1)
    written = []
    group.folder.joinpath("cpu.cfs_quota_us").unlink()
    os.mkfifo(group.folder / "cpu.cfs_quota_us")
    reader = os.open(group.folder / "cpu.cfs_quota_us", os.O_RDONLY | os.O_NONBLOCK)
    group.set_share(share)
    written = os.read(reader, 64).decode()
    os.close(reader)
    assert written == ("-1" if share == 1 else f"-1{quota_us}")
    assert (group.folder / "cpu.cfs_period_us").read_text() == period_us


@pytest.mark.parametrize(("share", "text"), [(0.5, "5000 10000"), (0.05, "1000 20000"), (1.0, "max 10000")])
def test_version_2_gets_both_in_one_line(tmp_path, share, text):
    group = CpuGroup(_files(tmp_path / "group", "cpu.max"), 2)
    group.set_share(share)
    assert (group.folder / "cpu.max").read_text() == text


def test_version_2_asks_for_the_cpu_controller_below_where_it_is_not_on(tmp_path):
    (tmp_path / "cgroup.subtree_control").write_text("memory")
    with pytest.raises(OSError):
        CpuGroup.make(tmp_path, 2, 0)
    assert (tmp_path / "cgroup.subtree_control").read_text().startswith("+cpu")


def test_a_group_that_has_no_quota_is_not_left_behind(tmp_path):
    with pytest.raises(OSError):
        CpuGroup.make(tmp_path, 1, 0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("share", "period_us", "quota_us"), [(0.5, "5000", "2500"), (0.33, "5000", "1650"), (0.05, "20000", "1000"), (0.2, "5000", "1000")]
)
def test_where_the_rest_of_a_quota_can_be_carried_over_the_period_is_shorter(tmp_path, share, period_us, quota_us):
    names = ("cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.cfs_burst_us")
    old = CpuGroup(_files(tmp_path / "old", *names), 1)
    old.set_share(share)
    assert [(old.folder / name).read_text() for name in names] == [quota_us, period_us, quota_us]
    new = CpuGroup(_files(tmp_path / "new", "cpu.max", "cpu.max.burst"), 2)
    new.set_share(share)
    assert (new.folder / "cpu.max").read_text() == f"{quota_us} {period_us}"
    assert (new.folder / "cpu.max.burst").read_text() == quota_us


def test_a_period_that_is_refused_gives_way_to_the_next(tmp_path, monkeypatch):
    group = CpuGroup(_files(tmp_path / "group", "cpu.max", "cpu.max.burst"), 2)
    write = cgroup._write

    def refusing(path, text):
        if text == "2500 5000":
            raise OSError(22, "Invalid argument", str(path))
        write(path, text)

    monkeypatch.setattr(cgroup, "_write", refusing)
    group.set_share(0.5)
    assert (group.folder / "cpu.max").read_text() == "5000 10000"
    assert (group.folder / "cpu.max.burst").read_text() == "0"


def test_single_threads_are_limited_in_a_group_below_that_of_their_process(tmp_path):
    for version, name in ((1, "tasks"), (2, "cgroup.threads")):
        folder = _files(tmp_path / str(version), "cgroup.procs", name)
        _files(folder / "compute", "cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us", name)
        group = CpuGroup(folder, version, threaded=True)
        group.add(4711)
        group.limit_thread(4712)
        group.free_thread(4713)
        group.set_share(0.5)
        assert (folder / "cgroup.procs").read_text() == "4711"
        assert [(inner / name).read_text() for inner in (folder / "compute", folder)] == ["4712", "4713"]
    assert (tmp_path / "2" / "compute" / "cpu.max").read_text() == "5000 10000"


def test_a_group_for_threads_that_cannot_be_made_is_not_left_behind(tmp_path):
    (tmp_path / "cgroup.subtree_control").write_text("cpu")
    for version in (1, 2):
        with pytest.raises(OSError):
            CpuGroup.make(tmp_path, version, 0, threaded=True)
    assert [path.name for path in tmp_path.iterdir()] == ["cgroup.subtree_control"]


def test_groups_for_threads_of_dead_owners_are_swept_with_what_is_below_them(tmp_path):
    (tmp_path / "hetero_mtf-4194305-77-1" / "compute").mkdir(parents=True)
    assert cgroup.sweep(tmp_path) == ["hetero_mtf-4194305-77-1"] and list(tmp_path.iterdir()) == []


def test_a_process_is_added_by_its_number(tmp_path):
    group = CpuGroup(_files(tmp_path / "group", "cgroup.procs"), 1)
    group.add(4711)
    assert (group.folder / "cgroup.procs").read_text() == "4711"


def test_groups_of_dead_owners_are_swept_and_others_stay(tmp_path):
    alive = f"hetero_mtf-{os.getpid()}-{start_time(os.getpid())}-0"
    reused = f"hetero_mtf-{os.getpid()}-1-0"
    for name in (alive, reused, "hetero_mtf-4194305-77-1", "hetero_mtf-notes", "other"):
        (tmp_path / name).mkdir()
    assert sorted(cgroup.sweep(tmp_path)) == sorted([reused, "hetero_mtf-4194305-77-1"])
    assert sorted(folder.name for folder in tmp_path.iterdir()) == sorted([alive, "hetero_mtf-notes", "other"])


def test_a_stale_group_that_is_not_empty_stays(tmp_path):
    _files(tmp_path / "hetero_mtf-4194305-77-1", "occupied")
    assert cgroup.sweep(tmp_path) == [] and cgroup.sweep(tmp_path / "missing") == []


def test_the_groups_of_one_owner_are_removed(tmp_path):
    for name in ("hetero_mtf-5-77-0", "hetero_mtf-5-77-1", "hetero_mtf-55-77-0"):
        (tmp_path / name).mkdir()
    cgroup.remove_groups(tmp_path, 5)
    assert [folder.name for folder in tmp_path.iterdir()] == ["hetero_mtf-55-77-0"]


@pytest.mark.parametrize("threaded", [False, True])
def test_a_real_group_can_be_made_limited_and_removed_where_the_kernel_lets_us(threaded):
    parent = cgroup.parent_folder()
    try:
        group = CpuGroup.make(*parent, 12345, threaded)
    except (OSError, TypeError):
        pytest.skip("no control group can be made here")
    group.set_share(0.25)
    group.remove()
    assert not group.folder.exists()
