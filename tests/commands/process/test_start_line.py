"""The first line of a command: before TensorFlow is loaded, on the error stream, and only where it is loaded now."""

import subprocess
import sys

import pytest

from hetero_mtf import __version__
from hetero_mtf.commands.process.start_line import cluster_task, print_start_line

BEFORE_TENSORFLOW = """
import os, sys
import click
from hetero_mtf.commands.main import run

heavy = ("tensorflow", "keras", "scipy", "matplotlib", "sklearn", "nibabel")
echo = click.echo
def stop(text, *arguments, **options):
    echo(text, *arguments, **options)
    if text.startswith("hetero-mtf "):
        print("loaded:", sorted(set(heavy) & set(sys.modules)))
        sys.stdout.flush()
        os._exit(0)
click.echo = stop
run(sys.argv[1:])
"""


@pytest.fixture
def unloaded(monkeypatch):
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)


@pytest.mark.fast("devices")
@pytest.mark.parametrize(
    "arguments",
    [
        ["calibrate", "--model", "net.py:net"],
        ["train", "--model", "net.py:net", "--data", "digits"],
        ["evaluate", "--model", "net.py:net", "--data", "digits", "--checkpoint", "state.npz"],
        ["predict", "--model", "net.py:net", "--input", "npz:x.npz", "--checkpoint", "state.npz"],
        ["plan", "--model", "net.py:net", "--shares", "2,1"],
        ["plan", "profile.json"],
        ["explain", "plan.json"],
        ["devices"],
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_a_command_prints_its_first_line_before_it_loads_anything_slow(arguments, tmp_path):
    ended = subprocess.run([sys.executable, "-c", BEFORE_TENSORFLOW, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    tasks = {"plan profile.json": "planning from profile.json", "explain plan.json": "reading plan.json"}
    first = tasks.get(" ".join(arguments), "loading TensorFlow")
    assert ended.stderr.startswith(f"hetero-mtf {__version__}: {first}"), ended
    assert ended.stdout == "loaded: []\n"


def test_the_first_line_names_the_workers_that_are_started(capsys, unloaded):
    print_start_line("emulate:1.0,0.5")
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == f"hetero-mtf {__version__}: loading TensorFlow, then starting 2 emulated workers\n"


def test_a_program_that_has_loaded_tensorflow_prints_no_first_line(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow", sys)
    print_start_line("emulate:1.0,0.5")
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    "cluster, words",
    [
        ("local", "the devices of this machine"),
        ("emulate:1.0", "starting 1 emulated worker"),
        ("hosts:a:1,b:2", "connecting to 2 workers"),
        ("slurm", "Slurm"),
        ("tf_config", "TF_CONFIG"),
    ],
)
def test_each_form_of_a_cluster_has_a_task_of_its_own(cluster, words):
    assert cluster_task(cluster).endswith(words) or words in cluster_task(cluster)


def test_jobs_of_tf_config_that_are_no_devices_are_named():
    text = '{"cluster": {"worker": ["a:1"], "chief": ["c:1"], "ps": ["d:1"]}}'
    assert cluster_task("tf_config", text) == "connecting to the workers of TF_CONFIG (not to its chief, ps)"
    assert cluster_task("tf_config", "{") == "connecting to the workers of TF_CONFIG" and "chief" not in cluster_task("slurm", text)


@pytest.mark.parametrize("cluster", ["emulate:", "nonsense", "", "hosts"])
def test_a_text_that_names_no_cluster_has_no_task(cluster, capsys, unloaded):
    assert cluster_task(cluster) == ""
    print_start_line(cluster)
    assert capsys.readouterr().err == f"hetero-mtf {__version__}: loading TensorFlow\n"
