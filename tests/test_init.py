from __future__ import annotations

import subprocess
import sys

import pytest

import hetero_mtf


def in_fresh_interpreter(code: str) -> str:
    result = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_importing_the_package_loads_neither_tensorflow_nor_keras() -> None:
    code = "import sys, hetero_mtf; print(sorted({'tensorflow', 'keras', 'mesh_tensorflow', 'numpy'} & set(sys.modules)))"
    assert in_fresh_interpreter(code).strip() == "[]"


def test_the_errors_are_reachable_from_the_package() -> None:
    assert issubclass(hetero_mtf.errors.DataError, hetero_mtf.errors.HeteroError)


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'trainer'"):
        hetero_mtf.trainer  # noqa: B018


def test_dir_lists_the_public_names_before_they_are_loaded() -> None:
    assert set(hetero_mtf.__all__) <= set(dir(hetero_mtf))
