"""The `hetero-mtf` program: runs a command, and reports an error as one sentence and an exit code."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import difflib
import importlib
import logging
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import click

from hetero_mtf import __version__
from hetero_mtf.commands import bench
from hetero_mtf.commands.process.interruption import Interrupted, terminable
from hetero_mtf.devices import environment
from hetero_mtf.errors import ConfigError, HeteroError, ReportError, UnsupportedModelError, WorkerError

NAMES = ("doctor", "devices", "calibrate", "plan", "train", "evaluate", "predict", "explain", "bench", "worker")
FAILED, INTERRUPTED, LOST = 1, 130, 138
_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": "tensorflow"}


@dataclasses.dataclass
class Options:
    """Options of the program itself, not of a command.

    Parameters
    ----------
    traceback : whether the traceback of an error is shown.
    """

    traceback: bool = False


class Commands(click.Group):
    """A group whose commands are imported when they are looked up; none of their modules imports TensorFlow when it is loaded."""

    def list_commands(self, context: click.Context) -> list[str]:
        """Return the names of all commands, in the order in which they are used; bench only where its benchmarks are."""
        return [name for name in NAMES if name != "bench" or bench.benchmark_names(bench.ROOT)]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Return a command by name, or None."""
        if name not in NAMES:
            return None
        command: click.Command = importlib.import_module(f"hetero_mtf.commands.{name}").command
        return command

    def resolve_command(self, context: click.Context, words: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first word names, and the other words; of another word, the commands it may stand for are named."""
        if words and words[0] not in NAMES and not words[0].startswith("-"):
            alike = difflib.get_close_matches(words[0], self.list_commands(context), n=2, cutoff=0.5)
            remedy = f"did you mean {' or '.join(alike)}?" if alike else f"use one of {', '.join(self.list_commands(context))}"
            context.fail(f"there is no command {words[0]!r}; {remedy}")
        return super().resolve_command(context, words)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--traceback", "show", is_flag=True, help="Show where an error came from.")
@click.version_option(__version__, prog_name="hetero-mtf")
@click.pass_obj
def program(options: Options, show: bool) -> None:
    """Train a Keras model over unequal devices, numerically equivalent to one device.

    The usual order is calibrate, plan, train; train alone does all three.
    """
    options.traceback = show


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    That is 0, 1 for an error, 2 for wrong usage, 130 if interrupted, 143 if terminated, and 138 where a worker was lost or cut off: the
    same command may do better, and Kubeflow's ExitCode policy starts such a pod again.

    Parameters
    ----------
    arguments : what follows the program's name; None for this process's arguments.
    """
    with terminable() as heard:
        code = _run(arguments)
    return 128 + heard[0] if heard and code == INTERRUPTED else code


def _run(arguments: Sequence[str] | None) -> int:
    for name, value in {**_QUIET, **environment.FAST_KERNELS}.items():
        environment.set_default(name, value)
    options = Options()
    try:
        with warnings.catch_warnings(), _log_shown():
            warnings.showwarning = _show_warning
            code = program.main(arguments, prog_name="hetero-mtf", standalone_mode=False, obj=options)
            sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except (click.Abort, KeyboardInterrupt) as stop:  # click makes the one of the other
        cause = stop.__cause__ if isinstance(stop, click.Abort) else stop
        if isinstance(cause, EOFError):  # which click takes for the end of the terminal's input; no command reads any
            return _report_bug(cause, options)
        return _say(str(cause), 128 + cause.number) if isinstance(cause, Interrupted) else _say("interrupted", INTERRUPTED)
    except click.ClickException as fault:
        fault.show()
        return fault.exit_code
    except BrokenPipeError:
        return _discard_output()
    except (ConfigError, ReportError, UnsupportedModelError) as fault:
        first, *more = str(fault).splitlines()
        return _report(first, options, more)
    except WorkerError as fault:
        return _report(str(fault), options, code=LOST)
    except HeteroError as fault:
        return _report(str(fault), options)
    except MemoryError as fault:
        said = f" ({fault})" if str(fault) else ""
        return _report(f"memory ran out{said}; use a smaller batch, network or data set", options)
    except Exception as fault:
        return _report_bug(fault, options)


def main() -> None:
    """Run the command in this process's arguments and end the process.

    A command that a signal has ended is closed by then. Python would spend seconds on taking TensorFlow's modules apart, and wait for
    threads that a worker keeps; so the process ends without that.
    """
    code = run()
    if code > INTERRUPTED - signal.SIGINT:
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)
    sys.exit(code)


def _report_bug(fault: BaseException, options: Options) -> int:
    said = f" ({fault})" if str(fault) else ""
    remedy = "report it with the output of hetero-mtf --traceback and the same command"
    return _report(f"{type(fault).__name__}{said}: this is a bug in hetero-mtf; {remedy}", options)


def _report(text: str, options: Options, more: Sequence[str] = (), code: int = FAILED) -> int:
    """Print what went wrong: one sentence, and more lines below it if there are any."""
    if options.traceback:
        traceback.print_exc()
    _say(text, code)
    with contextlib.suppress(OSError):
        for line in more:
            click.echo(f"  {' '.join(line.split())}", err=True)
    return code


def _say(text: str, code: int) -> int:
    with contextlib.suppress(OSError):
        click.echo(f"hetero-mtf: {' '.join(text.split())}", err=True)
    return code


def _show_warning(message: Warning | str, *place: Any, **more: Any) -> None:
    _say(f"warning: {message}", 0)


class _Lines(logging.Handler):
    """Prints what the package logs as it prints warnings."""

    def emit(self, record: logging.LogRecord) -> None:
        _show_warning(record.getMessage())


@contextlib.contextmanager
def _log_shown() -> Iterator[None]:
    logger, handler = logging.getLogger("hetero_mtf"), _Lines(logging.WARNING)
    propagated = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False  # a handler of the root, such as absl's, would print the line a second time
    try:
        yield
    finally:
        logger.propagate = propagated
        logger.removeHandler(handler)


def _discard_output() -> int:
    """Standard output is closed at its other end; nothing must be written to it as the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return FAILED


if __name__ == "__main__":
    main()
