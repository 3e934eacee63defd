"""Finding a process's control group in the kernel's text."""

import pathlib

from hetero_mtf.devices.cgroup_paths import cgroup_folder


def _mount(root, folder, kind, options):
    return f"30 25 0:26 {root} {folder} rw,nosuid - {kind} {kind} {options}"


def test_version_1_is_found_where_the_controller_is_mounted(tmp_path):
    (tmp_path / "job").mkdir()
    mounts = "\n".join([_mount("/", tmp_path, "cgroup", "rw,cpu,cpuacct"), _mount("/", "/sys/fs/cgroup/unified", "cgroup2", "rw")])
    assert cgroup_folder("cpu", mounts, "4:cpu,cpuacct:/job\n0::/elsewhere") == (tmp_path / "job", 1)


def test_version_2_is_found_where_there_is_no_older_one(tmp_path):
    (tmp_path / "user.slice").mkdir()
    assert cgroup_folder("cpu", _mount("/", tmp_path, "cgroup2", "rw"), "0::/user.slice") == (tmp_path / "user.slice", 2)


def test_in_a_container_the_mount_shows_the_group_as_its_root(tmp_path):
    mounts = _mount("/docker/5f", tmp_path, "cgroup", "rw,cpu")
    (tmp_path / "inner").mkdir()
    assert cgroup_folder("cpu", mounts, "1:cpu:/docker/5f") == (tmp_path, 1)
    assert cgroup_folder("cpu", mounts, "1:cpu:/docker/5f/inner") == (tmp_path / "inner", 1)
    assert cgroup_folder("cpu", mounts, "1:cpu:/not/shown") == (tmp_path, 1)


def test_a_space_in_a_path_is_read(tmp_path):
    spaced = tmp_path / "a b"
    spaced.mkdir()
    assert cgroup_folder("cpu", _mount("/", str(spaced).replace(" ", "\\040"), "cgroup2", "rw"), "0::/") == (pathlib.Path(spaced), 2)


def test_nothing_is_found_where_nothing_is_mounted():
    assert cgroup_folder("cpu", "", "") is None
    assert cgroup_folder("cpu", "nonsense", "nonsense") is None
    assert cgroup_folder("cpu", _mount("/", "/", "cgroup", "rw,cpuset"), "1:cpuset:/") is None
