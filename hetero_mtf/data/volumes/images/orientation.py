"""Where the voxels of a NIfTI file lie: the usable one of its two forms, sform before qform, in mm."""

from __future__ import annotations

import dataclasses
import math
import pathlib

import numpy as np
from nibabel.quaternions import fillpositive, quat2mat

from hetero_mtf.data.array import Array
from hetero_mtf.data.volumes.images.header import NiftiHeader, by
from hetero_mtf.errors import DataError

FORM_TOLERANCE_MM = 0.1
# (b, c, d) of a rotation by half a turn have length 1, rounded to float32 up to 1.0000003, written with four decimals up to 1.00009.
# They are taken as 1, a as 0, as by NIfTI's own library, which knows no limit. Where the true length is as far below 1 as the stored one
# is above, a was up to sqrt(2 (length - 1)), and the volume is turned by 2 asin of that: at the limit 1.6 degrees. What is longer by more
# is no rounded rotation, and its direction a guess.
LONGEST_QUATERNION = 1.0001
_MM = {1: 1000.0, 3: 0.001}  # of units in the header's code
_UNITS = {0: "unknown", 1: "meter", 2: "mm", 3: "micron"}
_TRUSTED_MM = (1e-3, 1e3)
_PIXDIM = "the voxel sizes in its header (pixdim)"


@dataclasses.dataclass(frozen=True)
class _Form:
    """A position that a header states: its affine in mm, or what makes it unusable and what to do."""

    name: str
    affine: Array
    fault: str = ""
    remedy: str = ""
    notes: tuple[str, ...] = ()


@np.errstate(all="ignore")  # what is too large or NaN is refused by its value
def affine_of(path: pathlib.Path, header: NiftiHeader) -> tuple[Array, list[str]]:
    """Return where voxels lie, and what had to be assumed for it; the code of a form that cannot be used becomes 0 in the header.

    Returns
    -------
    (4, 4) array of float64, voxel indices to mm, and notes.

    Raises
    ------
    DataError
        If the header states a position, and no form of it can be used.
    """
    forms = [form for form in (_sform(header), _qform(header)) if int(header.fields[f"{form.name}_code"]) > 0]
    usable = [form for form in forms if not form.fault]
    if not forms:
        form = _base(header)
        usable = [] if form.fault else [form]
        forms = [form]
    if not usable:
        faults = [f"{form.fault} in its {form.name}" if len(forms) > 1 else form.fault for form in forms]
        remedies = [form.remedy for form in forms]
        raise DataError(f"{path} has {' and '.join(faults)}", f"{' or '.join(remedies)}")
    notes = list(usable[0].notes)
    for form in forms:
        if form.fault:
            header.fields[f"{form.name}_code"] = 0
            notes.append(f"unusable {form.name} ({form.fault}): {usable[0].name} taken")
    if len(usable) == 2:
        apart_mm = _apart_mm(usable[0].affine, usable[1].affine, header.shape[:3])
        notes += [f"sform and qform differ by up to {apart_mm:.3g} mm: sform taken"] if apart_mm > FORM_TOLERANCE_MM else []
    return usable[0].affine, [*notes, *_unit_notes(header)]


def _sform(header: NiftiHeader) -> _Form:
    fields = header.fields
    rows = np.array([fields["srow_x"], fields["srow_y"], fields["srow_z"]], np.float64)
    if not np.isfinite(rows).all():
        return _Form("sform", rows, "an affine with NaN or infinite entries", "correct its sform")
    return _checked("sform", rows, header, "the voxel sizes in its sform")


def _base(header: NiftiHeader) -> _Form:
    """Return the position of a header without one, nibabel's for such: voxel sizes alone, centred, the first axis to the left."""
    rows = np.array(header.fields.get_base_affine(), np.float64)[:3]
    rows[:, :3] *= header.pixdim[1:4] != 0  # which nibabel has set to 1
    note = "the header has no orientation (sform and qform codes are 0): taken as nibabel does, left and right may be swapped"
    return dataclasses.replace(_checked("header", rows, header, _PIXDIM), notes=(note,))


def _qform(header: NiftiHeader) -> _Form:
    """Return the position by a quaternion of length one, of which (b, c, d) are stored, by voxel sizes, and by the first voxel's place.

    The rotation R of (a, b, c, d), a = sqrt(1 - b^2 - c^2 - d^2), times the sizes, the third negative for a negative qfac.
    """
    fields = header.fields
    bcd = np.array([fields[f"quatern_{axis}"] for axis in "bcd"], np.float64)
    offsets = np.array([fields[f"qoffset_{axis}"] for axis in "xyz"], np.float64)
    rows = np.full((3, 4), np.nan)
    if not np.isfinite(bcd).all():
        return _Form("qform", rows, "a quaternion with NaN or infinite entries", "correct its qform (quatern_b, quatern_c, quatern_d)")
    if not np.isfinite(offsets).all():
        return _Form("qform", rows, "an offset with NaN or infinite entries", "correct its qform (qoffset_x, qoffset_y, qoffset_z)")
    if not np.isfinite(header.pixdim[1:4]).all():
        return _Form("qform", rows, f"voxels of {by(header.pixdim[1:4])} mm", f"correct {_PIXDIM}")
    length = math.hypot(*bcd)
    if length > LONGEST_QUATERNION:
        fault = f"a quaternion of the length {length:.6g}, longer than {LONGEST_QUATERNION}"
        return _Form("qform", rows, fault, "correct its qform (quatern_b, quatern_c, quatern_d)")
    limit = abs(fields.quaternion_threshold)  # nibabel's, below which a is 0
    longer = 1.0 - (exact := bcd.astype(np.longdouble)) @ exact <= -limit
    quaternion = (0.0, *bcd) if longer else fillpositive(bcd, limit)  # quat2mat divides by the length
    qfac = -1 if header.pixdim[0] < 0 else 1  # NIfTI takes 0 as 1
    rows = np.column_stack([quat2mat(quaternion) * np.abs(header.pixdim[1:4]) * (1, 1, qfac), offsets])
    notes = []
    if f"{length:.8g}" != "1" and longer:  # what is too small to print is the rounding of float64
        notes.append(f"quaternion of the header has the length {length:.8g}: taken as 1")
    if header.pixdim[0] not in (-1, 0, 1):
        notes.append(f"qfac (pixdim[0]) of the header is {header.pixdim[0]:g}: taken as {qfac}")
    return dataclasses.replace(_checked("qform", rows, header, _PIXDIM), notes=tuple(notes))


def _checked(name: str, rows: Array, header: NiftiHeader, sizes_at: str) -> _Form:
    """Return a form of (3, 4) rows, in mm, with what is wrong with it; `sizes_at` is where voxel sizes are to be corrected."""
    affine = np.vstack([rows.astype(np.float64) * _MM.get(_unit(header), 1.0), [[0.0, 0.0, 0.0, 1.0]]])
    sizes_mm = np.sqrt((affine[:3, :3] ** 2).sum(axis=0))
    if not ((sizes_mm >= _TRUSTED_MM[0]) & (sizes_mm <= _TRUSTED_MM[1])).all():  # NaN is not trusted either
        unit = f", its unit is {_UNITS[_unit(header)]}" if _unit(header) in _MM else ""
        remedy = f"correct {'the unit (xyzt_units) or ' if unit else ''}{sizes_at}"
        return _Form(name, affine, f"voxels of {by(sizes_mm)} mm{unit}", remedy)
    if abs(np.linalg.det(affine[:3, :3] / sizes_mm)) < 1e-3:
        return _Form(name, affine, "an affine whose axes lie in one plane", f"correct its {name}")
    return _Form(name, affine)


def _unit(header: NiftiHeader) -> int:
    return int(header.fields["xyzt_units"]) & 7  # the higher bits are of time


def _unit_notes(header: NiftiHeader) -> list[str]:
    unit = _unit(header)
    if unit not in _UNITS:
        return ["the header's unit is none of NIfTI: taken as mm"]
    return [f"the header's unit is {_UNITS[unit]}: turned into mm"] if unit in _MM else []


def _apart_mm(one: Array, other: Array, shape: tuple[int, ...]) -> float:
    corners = np.array([[*corner, 1.0] for corner in np.ndindex(2, 2, 2)]).T
    corners[:3] *= np.array(shape)[:, None] - 1
    return float(np.linalg.norm(((one - other) @ corners)[:3], axis=0).max())
