from __future__ import annotations

import email
import pathlib
import shutil
import subprocess
import sys
import zipfile

import pytest

ROOT = pathlib.Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    ignored = shutil.ignore_patterns(".venv", ".git", "build", "dist", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis")
    shutil.copytree(ROOT, folder / "source", ignore=ignored)
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder]
    built = subprocess.run([sys.executable, "-m", "pip", "wheel", *options, folder / "source"], capture_output=True, text=True, timeout=200)
    assert built.returncode == 0, built.stderr
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


@pytest.mark.slow
def test_only_the_package_is_installed_and_all_of_it(wheel: zipfile.ZipFile) -> None:
    names = [name for name in wheel.namelist() if ".dist-info/" not in name]
    assert {name.split("/")[0] for name in names} == {"hetero_mtf"}
    sources = {path.relative_to(ROOT).as_posix() for path in (ROOT / "hetero_mtf").rglob("*.py")}
    assert sources <= set(names)


@pytest.mark.slow
def test_the_command_the_licence_and_the_versions_are_declared(wheel: zipfile.ZipFile) -> None:
    texts = {name.split("/", 1)[1]: wheel.read(name).decode() for name in wheel.namelist() if ".dist-info/" in name}
    assert "hetero-mtf = hetero_mtf.commands.main:main" in texts["entry_points.txt"]
    assert any(name.endswith("LICENSE") for name in texts)
    metadata = email.message_from_string(texts["METADATA"])
    assert (metadata["Name"].replace("-", "_"), metadata["Version"]) == ("hetero_mtf", "0.1.0")
    assert sorted(metadata["Requires-Python"].split(",")) == ["<3.14", ">=3.10"]
    assert set(metadata.get_all("Provides-Extra")) == {"gpu", "dev"}
