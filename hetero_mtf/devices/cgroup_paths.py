"""Where this process's control groups are in the file system, read from the kernel's text."""

from __future__ import annotations

import pathlib
import re


def cgroup_folder(controller: str, mountinfo: str, membership: str) -> tuple[pathlib.Path, int] | None:
    """Return the folder of a process's group for a controller and the version (1 or 2) of its hierarchy.

    Version 1 is preferred where the controller is mounted there: a controller belongs to one hierarchy at a time.

    Parameters
    ----------
    controller : such as "cpu" or "memory".
    mountinfo : text of /proc/self/mountinfo.
    membership : text of /proc/self/cgroup.

    Returns
    -------
    folder and version, or None where no hierarchy is mounted for it.
    """
    groups = [line.split(":", 2) for line in membership.splitlines() if line.count(":") >= 2]
    old = next((path for _, names, path in groups if controller in names.split(",")), None)
    new = next((path for number, names, path in groups if number == "0" and not names), None)
    for version, group in ((1, old), (2, new)):
        for root, folder, kind, options in _mounts(mountinfo):
            fits = kind == "cgroup2" if version == 2 else kind == "cgroup" and controller in options.split(",")
            if fits and group is not None:
                return _below(root, folder, group), version
    return None


def _mounts(mountinfo: str) -> list[tuple[str, str, str, str]]:
    mounts = []
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        fields, filesystem = left.split(), right.split()
        if len(fields) >= 5 and len(filesystem) >= 3:
            mounts.append((_plain(fields[3]), _plain(fields[4]), filesystem[0], filesystem[2]))
    return mounts


def _plain(path: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)


def _below(root: str, folder: str, group: str) -> pathlib.Path:
    inside = group[len(root) :] if root != "/" and (group + "/").startswith(root + "/") else group
    group_folder = pathlib.Path(folder + "/" + inside.lstrip("/"))
    return group_folder if group_folder.is_dir() else pathlib.Path(folder)
