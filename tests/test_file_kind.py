"""A file that was given in the place of another is named for what it is."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import pathlib
import struct
import tarfile
import zipfile
from typing import Any

import nibabel
import numpy as np
import pytest

from hetero_mtf.file_kind import absent, content_kind, file_kind, in_place_of, known_kind


def _npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def _zip(*names: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, "{}")
    return file.getvalue()


def _tar() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("a.nii"))
    return file.getvalue()


def _header(kind: type, magic: bytes | None = None) -> bytes:
    header = kind()
    if magic is not None:
        header["magic"] = magic
    return header.binaryblock + bytes(4)


MGH = struct.pack(">7i", 1, 2, 2, 2, 1, 3, 0) + bytes(256)
DICOM = bytes(128) + b"DICM" + bytes(300)
ANNEX_LINK = b"../../.git/annex/objects/Xx/Yy/MD5E-s1--0.nii.gz/MD5E-s1--0.nii.gz"
S3_ERROR = b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>'
INSTEAD_OF_SCANS = {  # content, words of its kind, words of what to do
    "lfs": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n", "a Git LFS pointer", "git lfs pull"),
    "annex": (b"/annex/objects/MD5E-s5--0.nii.gz\n", "a pointer of git-annex", "git annex get"),
    "annex-windows": (ANNEX_LINK.replace(b"/", b"\\"), "a pointer of git-annex", "datalad get"),
    "annex-link": (ANNEX_LINK, "a pointer of git-annex", "datalad get"),
    "link": (b"../other/sub-01_T1w.nii.gz", "a text with the path ../other/sub-01_T1w.nii.gz", "copy the file that it names"),
    "html": (b"\xef\xbb\xbf\n <!doctype HTML>\n<html>", "an HTML page", "download the file again"),
    "xhtml": (b"<?xml version='1.0'?>\n<!DOCTYPE html>\n<html xmlns='x'/>", "an HTML page", "download the file again"),
    "storage": (S3_ERROR, "the error message of a server (AccessDenied)", "download the file again"),
    "not-found": (b"404: Not Found", "the error message of a server (404: Not Found)", "download the file again"),
    "api": (b'{"message": "Not Found", "status": "404"}', "the error message of a server (JSON)", "download the file again"),
    "sidecar": (b'{"RepetitionTime": 2.3, "EchoTime": 0.03}', "the JSON sidecar of a scan", ".nii or .nii.gz file beside it"),
    "apple": (b"\0\5\x16\7\0\2\0\0Mac OS X        ", "AppleDouble", "no ._ before it"),
    "zeros": (bytes(600), "begins with zeros", "download or copy it again"),
    "zip": (_zip("a.nii"), "a zip file", "unpack it"),
    "tar": (_tar(), "a tar archive", "unpack it"),
    "bzip2": (bz2.compress(b"a"), "a bzip2 file", "bunzip2"),
    "xz": (lzma.compress(b"a"), "an xz file", "unxz"),
    "zstd": (b"\x28\xb5\x2f\xfd" + bytes(9), "a zstd file", "unzstd"),
    "gzip": (gzip.compress(b"hello"), "a gzip file", "gunzip"),
    "twice": (gzip.compress(gzip.compress(b"a")), "a gzip file within a gzip file", "unpack it once"),
    "dicom": (DICOM, "a DICOM file", "dcm2niix"),
    "dicom-bare": (b"\x08\x00\x05\x00\x0a\x00\x00\x00ISO_IR 100", "a DICOM file", "dcm2niix"),
    "dicom-packed": (gzip.compress(DICOM), "a gzip file that holds a DICOM file", "dcm2niix"),
    "mgh": (MGH, "a FreeSurfer volume", "mri_convert"),
    "mgz": (gzip.compress(MGH), "a gzip file that holds a FreeSurfer volume", "mri_convert"),
    "nrrd": (b"NRRD0004\ntype: short\n", "an NRRD file", "convert it to NIfTI"),
    "minc": (b"CDF\x01" + bytes(40), "a netCDF file", "mnc2nii"),
    "hdf5": (b"\x89HDF\r\n\x1a\n", "an HDF5 file", "mnc2nii"),
    "nifti1": (_header(nibabel.Nifti1Header), "a NIfTI file", "rename it to end in .nii"),
    "nifti2": (_header(nibabel.Nifti2Header), "a NIfTI file", "rename it to end in .nii"),
    "nifti-packed": (gzip.compress(_header(nibabel.Nifti1Header)), "a gzip file that holds a NIfTI file", "rename it to end in .nii.gz"),
    "pair": (_header(nibabel.Nifti1Header, b"ni1"), "the header of a NIfTI pair", "one .nii file"),
    "analyze": (_header(nibabel.AnalyzeHeader), "an Analyze header", "one .nii file"),
}
KINDS = {
    "plan": (json.dumps({"kind": "plan", "version": 2}).encode(), "a plan"),
    "profile": (b'{"kind": "profile"}', "a profile"),
    "measured": (b'{"kind": "measured"}', "measured times"),
    "checkpoint": (_npz(meta=np.zeros(2, np.uint8), a=np.zeros(3)), "a checkpoint"),
    "arrays": (_npz(x=np.zeros(2)), "an .npz file"),
    "keras": (_zip("config.json", "metadata.json", "model.weights.h5"), "a Keras model"),
    "zip": (_zip("a.txt"), "a zip file"),
    "hdf5": (b"\x89HDF\r\n\x1a\nmore", "HDF5"),
    "table": (b"participant_id\tage\nsub-01\t60\n", "a table with the columns participant_id, age"),
}


@pytest.mark.parametrize("content, words", KINDS.values(), ids=KINDS)
def test_a_file_is_known_by_its_content(content: bytes, words: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "any.name"
    path.write_bytes(content)
    assert words in file_kind(path)
    assert in_place_of(path, "a thing") == f"{path} is {file_kind(path)} and not a thing"


@pytest.mark.parametrize("content, words, remedy", INSTEAD_OF_SCANS.values(), ids=INSTEAD_OF_SCANS)
def test_what_stands_in_for_a_scan_is_known_with_what_to_do(content: bytes, words: str, remedy: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "sub-01_T1w.nii.gz"
    path.write_bytes(content)
    kind = known_kind(path)
    assert words in kind.text == file_kind(path) and remedy in kind.remedy


def test_the_beginning_tells_a_kind_where_a_file_is_cut_off() -> None:
    assert content_kind(_zip("a.nii")[:20]).text == "a zip file"
    assert content_kind(gzip.compress(DICOM)[:20]).text == "a gzip file"
    assert content_kind(DICOM[:140]).text == "a DICOM file"


def test_what_is_absent_is_told_from_a_link_without_its_target(tmp_path: pathlib.Path) -> None:
    assert absent(tmp_path / "gone", "check the path") == f"{tmp_path}/gone does not exist; check the path"
    (tmp_path / "link").symlink_to("elsewhere")
    assert f"is a link to {tmp_path}/elsewhere, which does not exist; correct the link, or check the path" in absent(
        tmp_path / "link", "check the path"
    )
    (tmp_path / "annexed").symlink_to(".git/annex/objects/0.nii.gz")
    (tmp_path / "alias").symlink_to("annexed")
    for name in ("annexed", "alias"):
        assert absent(tmp_path / name, "check the path").endswith(
            "is a link of git-annex whose content is not here; get the content with datalad get or git annex get"
        )


@pytest.mark.parametrize(
    "content",
    [b"", b"hello", b"[1]", b'{"kind": "pl', b'{"kind": []}', b"\xff\xfe", b"PK\x03\x04cut", b"{" * 100_000]
    + [b"4040 scans", b'{"message": "hello"}', b"<svg/>", b"a path.nii\nand more", bytes(100), b"\0\0\0\1" + bytes(60)],
)
def test_a_file_of_no_known_kind_is_only_not_what_is_wanted(content: bytes, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "any.name"
    path.write_bytes(content)
    assert file_kind(path) == "" and in_place_of(path, "a plan file") == f"{path} is not a plan file"


def test_what_is_no_file_has_no_kind(tmp_path: pathlib.Path) -> None:
    assert file_kind(tmp_path) == "" == file_kind(tmp_path / "gone")
