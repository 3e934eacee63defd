"""The versions that are supported: the fast tests on the lowest, on ones between and on the newest releases, for each Python.

    nox                        all sessions that must pass
    nox -s lowest-3.10         one of them; `nox --list` lists all
    nox -s next                the pre-releases of TensorFlow and Keras, which may fail
    nox -s lowest-3.10 -- smoke             a part of the fast tests, of a minute or two
    nox -s lowest-3.10 -- tests/graph -x    other arguments of pytest
    python -m tools.versions   write the table of docs/versions.md from what the sessions left below runs/versions

Each session installs into an environment of its own (2.7 GB), and removes it at its end unless KEEP=1 is set.
"""

from __future__ import annotations

import configparser
import json
import os
import pathlib
import re
import shutil
import time

import nox

PYTHONS = ("3.10", "3.11", "3.12", "3.13")
# For TensorFlow 2.16 to 2.19 there are no wheels for Python 3.13, and Keras 3.13 and later need Python 3.11.
BETWEEN = {
    "3.10": ("tensorflow==2.18.1", "keras==3.10.0"),
    "3.11": ("tensorflow==2.19.1", "keras==3.12.4"),
    "3.12": ("tensorflow==2.18.1", "keras==3.13.2"),
    "3.13": ("tensorflow==2.20.0", "keras==3.14.1"),
}
# No requirement of ours: keras-nightly, which TensorFlow's pre-releases need, is another distribution. TensorFlow 2.20 needs Keras 3.10.
OLDEST_KERAS = {**dict.fromkeys(PYTHONS, "keras==3.8.0"), "3.13": "keras==3.10.0"}
TOOLS = ("coverage", "pytest", "pytest-timeout", "pytest-xdist", "hypothesis", "nilearn", "markdown-it-py", "tensorboard")
FAST = ("-n", "2", "--dist", "worksteal", "-m", "not slow")
SMOKE = (  # what reads Keras models and trains by Keras's arithmetic, planning on that Python, and a training by command
    *("tests/program/test_transparency.py", "tests/program/test_every_optimizer.py", "tests/training/test_trainer.py"),
    "tests/training/distribution",
    *("tests/graph", "tests/planning/solvers", "tests/mesh/test_framework_versions.py", "tests/commands/test_train.py"),
)
LEFT = pathlib.Path("runs/versions")

nox.options.sessions = ["lowest", "between", "default", "package"]
nox.options.reuse_existing_virtualenvs = False


@nox.session(python=PYTHONS)
def lowest(session: nox.Session) -> None:
    """The lowest versions that setup.cfg and the check of Keras's version allow."""
    _install(session, ".", OLDEST_KERAS[str(session.python)], *lower_bounds(str(session.python)))
    _test(session)


@nox.session(python=PYTHONS)
def between(session: nox.Session) -> None:
    """Versions between the lowest and the newest."""
    _install(session, ".", *BETWEEN[str(session.python)])
    _test(session)


@nox.session(python=PYTHONS)
def default(session: nox.Session) -> None:
    """What `pip install` takes."""
    _install(session, ".")
    _test(session)


@nox.session(python="3.12")
def next(session: nox.Session) -> None:
    """The pre-releases of TensorFlow and Keras, whose numbers may differ."""
    _install(session, "--pre", ".")
    _test(session, "-W", "ignore::hetero_mtf.mesh.framework_versions.UntestedVersionWarning", may_fail=True)


@nox.session(python="3.12")
def package(session: nox.Session) -> None:
    """Wheel and sdist: built, checked, installed without the clone, and tried."""
    session.install("build", "twine")
    shutil.rmtree("dist", ignore_errors=True)
    session.run("python", "-m", "build", silent=True)
    files = [str(path.resolve()) for path in pathlib.Path("dist").iterdir()]
    session.run("twine", "check", "--strict", *files)
    for file in sorted(files):
        session.install("--force-reinstall", "--no-deps", file) if file.endswith(".gz") else session.install(file)
        session.run("pip", "check", external=False)
        with session.chdir(session.create_tmp()):
            session.run("hetero-mtf", "--version")
            session.run("hetero-mtf", "devices", "--cluster", "local")
            session.run("python", "-c", "import hetero_mtf as hm, hetero_mtf.models.digits; print(hm.__file__)")
    _remove(session)


def _install(session: nox.Session, *arguments: str) -> None:
    session.install(*arguments, *TOOLS)  # in one, or a tool takes a newer NumPy than the lowest TensorFlow works with
    session.run("pip", "check", success_codes=[0, 1])


def _test(session: nox.Session, *options: str, may_fail: bool = False) -> None:
    """Run the fast tests, or what the command line names, and leave what came out in a file."""
    named = SMOKE if session.posargs == ["smoke"] else ()
    arguments = session.posargs if session.posargs and not named else ["-q", *FAST, *named]
    began_s = time.monotonic()
    output = session.run(
        # warnings that old releases of others give about newer releases of others are not ours
        *("python", "-m", "pytest", "-p", "no:cacheprovider", "-W", "ignore::DeprecationWarning", *options, *arguments),
        env={"TF_CPP_MIN_LOG_LEVEL": "3"},
        success_codes=[0, 1],
        silent=True,
    )
    text = str(output)
    LEFT.mkdir(parents=True, exist_ok=True)
    (LEFT / f"{session.name}.log").write_text(text)
    session.log(text[-3000:])
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|skipped|errors?)\b", text.strip().splitlines()[-1])}
    versions = session.run("python", "-c", _VERSIONS, silent=True, log=False, env={"TF_CPP_MIN_LOG_LEVEL": "3"})
    row = {
        "session": session.name,
        "seconds": round(time.monotonic() - began_s),
        **json.loads(str(versions).strip().splitlines()[-1]),
        **{name: counts.get(name, 0) for name in ("passed", "failed", "skipped")},
        "failed_tests": re.findall(r"^(?:FAILED|ERROR) (\S+)", text, re.MULTILINE),
    }
    if not session.posargs:
        (LEFT / f"{session.name}.json").write_text(json.dumps(row, indent=1))
    _remove(session)
    if (row["failed"] or counts.get("error") or counts.get("errors")) and not may_fail:
        session.error(f"{row['failed']} tests failed")


_VERSIONS = """
import json, platform
import keras, numpy, scipy, tensorflow
print(json.dumps({"python": platform.python_version(), "tensorflow": tensorflow.__version__, "keras": keras.__version__,
                  "numpy": numpy.__version__, "scipy": scipy.__version__}))
"""


def _remove(session: nox.Session) -> None:
    if not os.environ.get("KEEP"):
        shutil.rmtree(session.virtualenv.location, ignore_errors=True)


def lower_bounds(python: str) -> list[str]:
    """Return what setup.cfg requires, each at its lower bound, for a Python."""
    setup = configparser.ConfigParser()
    setup.read("setup.cfg")
    bounds = []
    for line in setup["options"]["install_requires"].split("\n"):
        requirement, _, marker = line.partition(";")
        if requirement.strip() and _holds(marker, python):
            bounds.append(requirement.strip().replace(">=", "=="))
    return bounds


def _holds(marker: str, python: str) -> bool:
    """Return whether a marker such as `python_version < "3.13"` is true, or there is none."""
    match = re.fullmatch(r'\s*python_version (<|>=) "3\.(\d+)"\s*', marker)
    minor = int(python.partition(".")[2])
    return match is None or (minor < int(match[2]) if match[1] == "<" else minor >= int(match[2]))
