from __future__ import annotations

import email
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import zipfile

import pytest

ROOT = pathlib.Path(__file__).parent.parent
MODEL = "hetero_mtf.models.digits:wide_digits"
LOAD = f"""
import site, sys
site.addsitedir(sys.argv[1])
from hetero_mtf.commands.main import run
assert run(["devices", "--help"]) == 0
from hetero_mtf.commands.workload.model_file import load_model
from hetero_mtf.commands.workload.model_source import source_files
assert load_model("{MODEL}", {{"filters": (4, 4)}}, "float32").count_params() > 0
print(source_files("{MODEL}")[-1])
"""


def model_file(installed: pathlib.Path, elsewhere: pathlib.Path) -> pathlib.Path:
    """Return the file of an example network, loaded by its name with only what is installed and what it depends on in sight."""
    paths = sysconfig.get_paths()
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([str(installed), paths["purelib"], paths["platlib"]])}
    command = [sys.executable, "-S", "-W", "ignore", "-c", LOAD, installed]
    done = subprocess.run(command, cwd=elsewhere, env=variables, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    return pathlib.Path(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("source") / "clone"
    ignored = shutil.ignore_patterns(".venv", ".git", "build", "dist", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis")
    shutil.copytree(ROOT, folder, ignore=ignored)
    return folder


@pytest.fixture(scope="module")
def wheel(source: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder]
    built = subprocess.run([sys.executable, "-m", "pip", "wheel", *options, source], capture_output=True, text=True, timeout=200)
    assert built.returncode == 0, built.stderr
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


@pytest.mark.slow
def test_only_the_package_is_installed_and_all_of_it(wheel: zipfile.ZipFile) -> None:
    names = [name for name in wheel.namelist() if ".dist-info/" not in name]
    assert {name.split("/")[0] for name in names} == {"hetero_mtf"}
    sources = {path.relative_to(ROOT).as_posix() for path in (ROOT / "hetero_mtf").rglob("*.py")}
    networks = {f"hetero_mtf/models/{path.name}" for path in (ROOT / "models").glob("*.py")}
    assert len(networks) > 5 and sources | networks <= set(names)


@pytest.mark.slow
def test_the_example_networks_load_by_name_from_an_installed_wheel(wheel: zipfile.ZipFile, tmp_path: pathlib.Path) -> None:
    installed = tmp_path / "installed"
    wheel.extractall(installed)
    assert model_file(installed, tmp_path) == installed / "hetero_mtf" / "models" / "digits.py"


@pytest.mark.slow
def test_the_example_networks_load_by_name_from_an_editable_install(source: pathlib.Path, tmp_path: pathlib.Path) -> None:
    build = "import sys; from setuptools import build_meta; build_meta.build_editable(sys.argv[1])"
    built = subprocess.run([sys.executable, "-c", build, tmp_path], cwd=source, capture_output=True, text=True, timeout=200)
    assert built.returncode == 0, built.stderr
    (path,) = tmp_path.glob("*.whl")
    zipfile.ZipFile(path).extractall(tmp_path / "installed")
    assert model_file(tmp_path / "installed", tmp_path) == source / "models" / "digits.py"


def test_a_model_file_imports_no_other_one() -> None:
    for path in (ROOT / "models").glob("*.py"):
        lines = path.read_text().splitlines()
        assert [line for line in lines if line.startswith(("from models", "import models", "from .", "from hetero_mtf.models"))] == []


@pytest.mark.slow
def test_the_command_the_licence_and_the_versions_are_declared(wheel: zipfile.ZipFile) -> None:
    texts = {name.split("/", 1)[1]: wheel.read(name).decode() for name in wheel.namelist() if ".dist-info/" in name}
    assert "hetero-mtf = hetero_mtf.commands.main:main" in texts["entry_points.txt"]
    assert any(name.endswith("LICENSE") for name in texts)
    metadata = email.message_from_string(texts["METADATA"])
    assert (metadata["Name"].replace("-", "_"), metadata["Version"]) == ("hetero_mtf", "0.2.0")
    assert sorted(metadata["Requires-Python"].split(",")) == ["<3.14", ">=3.10"]
    assert {"Keras", "Mesh-TensorFlow", "heterogeneous devices"} <= set(metadata["Keywords"].split(","))
    assert set(metadata.get_all("Provides-Extra")) == {"gpu", "dev", "docs"}
