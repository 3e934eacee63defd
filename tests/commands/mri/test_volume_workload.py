"""Volumes as the command line says: every option comes to the preprocessing."""

import dataclasses

import numpy as np
import pytest

from hetero_mtf.commands.mri.volume_workload import preprocessing
from hetero_mtf.commands.options.volume_options import VolumeOptions
from hetero_mtf.data.volumes import Preprocessing, read_scan
from hetero_mtf.errors import DataError
from hetero_mtf.graph.records import Layer, LayerGraph
from tests.data.volumes.nifti_files import write_scan

GRAPH = LayerGraph((Layer("volume", "InputLayer", {}, (), (8, 8, 8, 1)),), "float32")
SAID = {"orientation": "LPS", "interpolation": 3, "normalisation": "minmax", "mask": "otsu", "volume": 1, "nan_share": 0.4}


def test_what_the_command_line_says_of_the_steps_is_what_is_done():
    assert preprocessing(VolumeOptions(spacing=(2.0, 3.0, 4.0), **SAID), GRAPH) == Preprocessing((8, 8, 8), (2.0, 3.0, 4.0), **SAID)
    assert preprocessing(VolumeOptions(), GRAPH) == Preprocessing((8, 8, 8))
    assert {field.name for field in dataclasses.fields(Preprocessing)} == {"shape", "spacing_mm", *SAID}


def test_nan_around_the_brain_is_allowed_as_the_refusal_says(tmp_path):
    values = np.random.default_rng(0).normal(100, 10, (8, 8, 8)).astype(np.float32)
    values[:, :, 6:] = np.nan
    path = write_scan(tmp_path / "a.nii", values)
    with pytest.raises(DataError, match=r"\(25.0%, allowed are 5.0%\); convert it again, or allow more with --nan-share"):
        read_scan(path, preprocessing(VolumeOptions(), GRAPH))
    assert "set 128 NaN or infinite voxels to 0 (25.00%)" in read_scan(path, preprocessing(VolumeOptions(nan_share=0.3), GRAPH)).notes
