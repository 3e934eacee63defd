"""The program: lazy, quiet, and one sentence for whatever goes wrong."""

import logging
import signal
import subprocess
import sys
import warnings

import click
import pytest

from hetero_mtf import __version__
from hetero_mtf.commands import explain, main
from tests.commands.error_lines import messages

LAZY = """
import sys
from hetero_mtf.commands.main import NAMES, run
profile, plan = sys.argv[1:]
assert run(["--help"]) == 0
for name in NAMES:
    assert run([name, "--help"]) == 0
assert run(["plan", profile, "-o", plan]) == 0
assert run(["explain", plan]) == 0
print("loaded:", sorted(name for name in ("tensorflow", "keras", "mesh_tensorflow") if name in sys.modules))
"""


@pytest.mark.slow
def test_help_and_planning_from_a_profile_load_neither_tensorflow_nor_keras(profile, tmp_path):
    done = subprocess.run([sys.executable, "-c", LAZY, profile, tmp_path / "plan.json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("loaded: []")
    assert done.stderr == f"hetero-mtf {__version__}: planning from {profile}\n"


def test_help_lists_every_command_and_each_shows_its_defaults(cli):
    said = cli("--help")
    assert said.code == 0
    assert all(f"\n  {name} " in said.out for name in main.NAMES)
    assert "[default: local]" in " ".join(cli("train", "--help").out.split())


@pytest.mark.parametrize("arguments", [["nonsense"], ["train"], ["plan", "p.json", "--strategy", "best"], ["devices", "--colour"], []])
def test_wrong_usage_ends_with_2(cli, arguments):
    said = cli(*arguments)
    assert said.code == 2
    assert "Usage: hetero-mtf" in said.err


@pytest.mark.parametrize("word, meant", [("trian", "train"), ("calibrat", "calibrate"), ("expalin", "explain"), ("Plan", "plan")])
def test_a_misspelt_command_is_answered_with_the_one_that_may_be_meant(cli, word, meant):
    said = cli(word, "--epochs", "2")
    assert said.code == 2 and f"no command {word!r}" in said.err and f"did you mean {meant}" in said.err


def test_a_command_like_no_other_is_answered_with_all_of_them(cli):
    said = cli("xyz")
    assert said.code == 2 and "use one of doctor, devices, calibrate, plan" in said.err


def test_an_error_is_one_sentence_and_its_traceback_is_shown_on_request_only(cli, tmp_path):
    missing = tmp_path / "plan.json"
    assert cli("explain", missing).sentence == f"cannot read {missing}: No such file or directory; check the path"
    said = cli("--traceback", "explain", missing)
    assert said.code == 1
    assert "Traceback" in said.err and said.err.strip().splitlines()[-1].startswith("hetero-mtf: cannot read")


def _raising(fault):
    def raise_it(**options):
        raise fault

    return raise_it


@pytest.mark.parametrize("fault, said", [(KeyError("width"), "KeyError ('width')"), (EOFError("too short"), "EOFError (too short)")])
def test_an_unforeseen_exception_is_called_a_bug(cli, monkeypatch, fault, said):
    monkeypatch.setattr(explain.command, "callback", _raising(fault))
    bug = "this is a bug in hetero-mtf; report it with the output of hetero-mtf --traceback and the same command"
    assert cli("explain", "plan.json").sentence == f"{said}: {bug}"


@pytest.mark.parametrize("fault", [KeyboardInterrupt(), click.Abort()])
def test_an_interruption_ends_with_130(cli, monkeypatch, fault):
    monkeypatch.setattr(explain.command, "callback", _raising(fault))
    said = cli("explain", "plan.json")
    assert said.code == 130
    assert said.err.split("\n")[-2] == "hetero-mtf: interrupted"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_end_ends_like_an_interruption(cli, monkeypatch, number):
    undone = []

    def work(**options):
        try:
            signal.raise_signal(number)
        finally:
            undone.append(True)

    monkeypatch.setattr(explain.command, "callback", work)
    before = signal.signal(number, signal.SIG_DFL)  # tests that run under nohup ignore SIGHUP
    try:
        said = cli("explain", "plan.json")
        assert signal.getsignal(number) == signal.SIG_DFL
    finally:
        signal.signal(number, before)
    assert said.code == 128 + number and undone
    assert said.err.split("\n")[-2] == "hetero-mtf: interrupted"


def test_memory_that_ran_out_is_no_bug(cli, monkeypatch):
    monkeypatch.setattr(explain.command, "callback", _raising(MemoryError("9 TiB")))
    assert cli("explain", "plan.json").sentence == "memory ran out (9 TiB); use a smaller batch, network or data set"


def test_a_warning_is_one_line(cli, monkeypatch):
    def warn(**options):
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.warn("the spread\nis wide", UserWarning, stacklevel=1)

    monkeypatch.setattr(explain.command, "callback", warn)
    assert cli("explain", "plan.json").err == "hetero-mtf: warning: the spread is wide\n"


def test_what_the_package_logs_is_one_line_and_nothing_of_it_stays_in_force(cli, monkeypatch):
    logger = logging.getLogger("hetero_mtf")

    def warn(**options):
        logger.info("nothing of this")
        logger.warning("the ports\nare open")

    before = (list(logger.handlers), logger.propagate)
    monkeypatch.setattr(explain.command, "callback", warn)
    assert cli("explain", "plan.json").err == "hetero-mtf: warning: the ports are open\n"
    assert (logger.handlers, logger.propagate) == before


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_error_to_speak_of(plan, start):
    process = start("explain", plan)
    process.stdout.close()
    process.stdout = None
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert messages(err) == []


@pytest.mark.parametrize("code", [130, 143])
def test_a_command_that_a_signal_ended_does_not_wait_for_what_a_worker_keeps(code):
    program = f"""
import atexit, threading
from hetero_mtf.commands import main
main.run = lambda: {code}
atexit.register(print, "closed")
threading.Thread(target=threading.Event().wait).start()
main.main()
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (code, "closed\n", "")
