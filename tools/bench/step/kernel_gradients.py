"""Claim: the gradient of a 3-D convolution's kernel is computed in the form that takes least time.

Convolutions of windows of 3x3x3 over one volume, as a 3-D U-Net has them, in one process of one thread. Windows lie over the input or the
output's gradient, which TensorFlow's kernel pads or which is padded beforehand. The four forms take turns; a figure is the median over
rounds.

    python -m tools.bench.step.kernel_gradients [--rounds 5]
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Any

import click

from hetero_mtf.devices.environment import FAST_KERNELS, set_default
from tools.bench.comparison.options import rounds_option
from tools.results.output import Output, tables_option
from tools.results.publication import TableForm, table_row
from tools.results.records import Column, Row

CPU = "/device:CPU:0"
CASES = (((64, 96, 96), 1, 16), ((64, 96, 96), 16, 16), ((64, 96, 96), 48, 16), ((32, 48, 48), 16, 32), ((32, 48, 48), 32, 32))
CASES += (((32, 48, 48), 96, 32), ((16, 24, 24), 32, 64), ((16, 24, 24), 64, 64), ((48, 48, 48), 16, 2), ((64, 64, 64), 8, 8))
FORMS = {"input": (False, False), "padded_input": (False, True), "output": (True, False), "padded_output": (True, True)}
LEAST = 0.9  # of the faster form's speed that the form taken has
FORM = TableForm(
    "kernel_gradients",
    "Gradients of kernels of 3-D convolutions",
    (
        Column("extents", "volume"),
        Column("channels", "channels in : out"),
        Column("input_ms", "ms, windows over the input", ".1f"),
        Column("padded_input_ms", "padded beforehand", ".1f"),
        Column("output_ms", "over the output's gradient", ".1f"),
        Column("padded_output_ms", "padded beforehand", ".1f"),
        Column("taken", "taken"),
        Column("part", "speed of the faster one", ".2f", "at_least"),
    ),
)


def measured(extents: Sequence[int], channels_in: int, channels_out: int, rounds: int) -> dict[str, float]:
    """Return the median seconds of each form.

    Parameters
    ----------
    extents, channels_in, channels_out : of the convolution.
    rounds : number of measurements of each, by turns.
    """
    import tensorflow as tf

    from hetero_mtf.mesh.operations.convolution.turned_convolution import KERNELS, Turned

    shape, strides, sides = [3, 3, 3, channels_in, channels_out], [1] * 5, [(0, 0), (1, 1), (1, 1), (1, 1), (0, 0)]
    to_kernel = KERNELS[3][2]
    with tf.Graph().as_default(), tf.device(CPU):
        held = [
            tf.compat.v1.get_variable(f"held{channels}_{at}", initializer=tf.random.normal([1, *extents, channels]), use_resource=True)
            for at, channels in enumerate((channels_in, channels_out))
        ]
        x, dy = (variable.read_value() for variable in held)
        forms = {
            "input": to_kernel(input=x, filter_sizes=shape, out_backprop=dy, strides=strides, padding="SAME"),
            "padded_input": to_kernel(input=tf.pad(x, sides), filter_sizes=shape, out_backprop=dy, strides=strides, padding="VALID"),
            "output": Turned(3, "SAME").kernel_gradient(x, dy, shape),
            "padded_output": Turned(3).kernel_gradient(x, tf.pad(dy, sides), shape),
        }
        works = {name: tf.reshape(form, [-1])[0] for name, form in forms.items()}
        threads = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
        with tf.compat.v1.Session(config=threads) as session:
            session.run(tf.compat.v1.global_variables_initializer())
            return {name: statistics.median(each) for name, each in _by_turns(session, works, rounds).items()}


def _by_turns(session: Any, works: dict[str, Any], rounds: int) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for at in range(rounds + 1):
        for name, work in works.items():
            begun = time.perf_counter()
            session.run(work)
            if at:  # the first prepares the kernels
                seconds[name].append(time.perf_counter() - begun)
    return seconds


def row(extents: Sequence[int], channels_in: int, channels_out: int, seconds: dict[str, float]) -> Row:
    """Return the row of a convolution.

    Parameters
    ----------
    extents, channels_in, channels_out : of the convolution.
    seconds : of each form.
    """
    import tensorflow as tf

    from hetero_mtf.mesh.operations.convolution.turned_convolution import kernel_form

    form = kernel_form((3, 3, 3, channels_in, channels_out), CPU, tf.float32)
    taken = next(name for name, each in FORMS.items() if each == form)
    cells = {"extents": "x".join(map(str, extents)), "channels": f"{channels_in} : {channels_out}", "taken": taken.replace("_", " ")}
    figures = {f"{name}_ms": 1e3 * value for name, value in seconds.items()}
    return table_row({**cells, **figures, "part": min(seconds.values()) / seconds[taken]}, {"part": LEAST})


@click.command(help=__doc__)
@rounds_option(5)
@tables_option
def main(rounds: int, output: Output) -> None:
    """Measure, and print the table."""
    for name, value in FAST_KERNELS.items():  # before TensorFlow is loaded
        set_default(name, value)
    output.report(FORM, [row(*case, measured(*case, rounds)) for case in CASES])


if __name__ == "__main__":
    main()
