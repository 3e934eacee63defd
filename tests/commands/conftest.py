"""A small model file, data and profile for the commands, and ways to run them."""

import dataclasses
import os
import pathlib
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest

from hetero_mtf.commands import main
from hetero_mtf.commands.process.quiet import load_tensorflow
from hetero_mtf.report import progress
from hetero_mtf.runtime.limits import cgroup

MODEL = """
import keras

def net(classes=10, filters=6, kind="plain"):
    layers = keras.layers
    inputs = x = keras.Input((8, 8, 1))
    x = layers.Conv2D(filters, 3, padding="same", activation="relu", name="first")(x)
    x = layers.Conv2D(4, 3, strides=2, padding="same", activation="relu", name="second")(x)
    x = layers.Dropout(0.25, name="drop")(layers.Flatten(name="flatten")(x))
    return keras.Model(inputs, layers.Dense(classes, name="head")(x))

def pair():
    a, b = keras.Input((3,), name="a"), keras.Input((2,), name="b")
    x = keras.layers.Concatenate()([a, b])
    return keras.Model([a, b], [keras.layers.Dense(4, name="u")(x), keras.layers.Dense(1, name="v")(x)])

def _hidden():
    return None

def broken():
    raise KeyError("no such width")

def ended():
    raise SystemExit(3)

def number():
    return 7
"""


@dataclasses.dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str

    @property
    def sentence(self):
        """The one line on the error stream of a failed command."""
        lines = self.err.strip().splitlines()
        assert self.code in (1, 138) and len(lines) == 1 and lines[0].startswith("hetero-mtf: ") and "Traceback" not in self.err, self
        return lines[0].removeprefix("hetero-mtf: ")


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A folder with net.py and data.npz."""
    place = tmp_path_factory.mktemp("commands")
    (place / "net.py").write_text(MODEL)
    rng = np.random.default_rng(3)
    arrays = {"x_train": rng.normal(size=(44, 8, 8, 1)), "x_test": rng.normal(size=(20, 8, 8, 1))}
    arrays |= {"y_train": np.arange(44) % 10, "y_test": np.arange(20) % 10}
    np.savez(place / "data.npz", **arrays)
    return place


@pytest.fixture(scope="session")
def model(folder):
    """--model and its value."""
    return ["--model", f"{folder / 'net.py'}:net"]


@pytest.fixture(scope="session")
def subject(folder, model):
    """--model and --data with their values, on two processors of this process."""
    return [*model, "--data", f"npz:{folder / 'data.npz'}", "--cluster", "local:cpu:0,cpu:0"]


@pytest.fixture(scope="session")
def profile(folder, model):
    """A profile that was measured for net on two processors of this process, at batch size 8 in float32."""
    path = folder / "profile.json"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = ["--cluster", "local:cpu:0,cpu:0", "--batch-size", "8", "--budget", "2"]
        assert main.run(["calibrate", *model, *options, "-o", str(path)]) == 0
    return path


@pytest.fixture(scope="session")
def plan(folder, model):
    """A plan of typed shares for net on two processors of this process, at batch size 8 in float32."""
    path = folder / "plan.json"
    options = ["--shares", "2,1", "--cluster", "local:cpu:0,cpu:0", "--batch-size", "8"]
    assert main.run(["plan", *model, *options, "-o", str(path)]) == 0
    return path


@pytest.fixture(scope="session")
def tensorflow_loaded():
    """TensorFlow is loaded, so that a command has nothing to say about loading it."""
    load_tensorflow()


@pytest.fixture
def cli(capsys, monkeypatch, tensorflow_loaded):
    """Runs a command in this process; what it writes does not depend on how long it takes."""
    monkeypatch.setattr(progress, "FIRST_EVERY_S", float("inf"))
    monkeypatch.setattr(progress, "EVERY_S", float("inf"))

    def call(*arguments):
        capsys.readouterr()
        code = main.run([str(argument) for argument in arguments])
        return Said(code, *capsys.readouterr())

    return call


@pytest.fixture
def start():
    """Starts a command as a process of its own group, and kills the group in the end."""
    started = []

    def launch(*arguments, file_bytes=None, **variables):
        hidden = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
        # a shell may ignore SIGINT for what it starts in the background
        command = ["env", "--default-signal=INT", sys.executable, "-m", "hetero_mtf.commands.main", *map(str, arguments)]
        if file_bytes is not None:
            command = ["prlimit", f"--fsize={file_bytes}", *command]
            variables["PYTHONDONTWRITEBYTECODE"] = "1"  # Python puts a compiled module in place although it is cut short
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**hidden, "PYTHONPATH": os.getcwd(), "CUDA_VISIBLE_DEVICES": "", "PYTHONUNBUFFERED": "1", **variables},
        )
        started.append(process)
        return process

    yield launch
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _status(process):
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def descendants(process):
    """Return the ids of a process's living children, their children and so on."""
    parents = {int(entry.name): _status(entry.name) for entry in pathlib.Path("/proc").iterdir() if entry.name.isdigit()}
    found, fresh = set(), {process}
    while fresh:
        fresh = {child for child, fields in parents.items() if fields and int(fields[1]) in fresh} - found
        found |= fresh
    return found


def alive(process):
    """Return whether a process is there and no zombie."""
    fields = _status(process)
    return bool(fields) and fields[0] != "Z"


def workers_of(process):
    """Return the ids of the emulated workers below a process."""
    return sorted(child for child in descendants(process) if _is_supervisor(child) and _is_supervisor(_parent(child)))


def _is_supervisor(process):
    """Return whether a process has the command of a supervisor, as the workers that it forks have too."""
    try:
        return b"hetero_mtf.runtime.supervisor" in pathlib.Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return False


def _parent(process):
    try:
        return int(pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def until(condition, limit_s=150.0):
    """Wait for a condition and return what it gave; the limit is for a broken program, not a measure."""
    end_s = time.monotonic() + limit_s
    while not (found := condition()) and time.monotonic() < end_s:
        time.sleep(0.05)
    return found


def control_groups():
    """Return the names of all control groups of ours."""
    parent = cgroup.parent_folder()
    return {entry.name for entry in parent[0].glob("hetero_mtf-*")} if parent else set()


@pytest.fixture
def processes():
    """What there is to know of processes: descendants, alive, workers_of, until, control_groups."""
    return sys.modules[__name__]
