"""The option of a model's precision."""

import click
import pytest

from hetero_mtf.commands.main import program
from hetero_mtf.commands.options.model import float_type


@pytest.mark.parametrize("name", ["train", "plan", "calibrate", "evaluate", "predict"])
def test_the_earlier_name_is_taken_and_not_shown(name):
    command = program.get_command(click.Context(program), name)
    needed = {"train": ["--data", "digits"], "evaluate": ["--data", "digits", "--checkpoint", "s"], "predict": ["--checkpoint", "s"]}
    for option in ("--precision", "--dtype"):
        with command.make_context(name, ["--model", "m:f", *needed.get(name, []), option, "float64"]) as context:
            assert context.params["precision"] == "float64"
            assert "--dtype" not in command.get_help(context) and "--precision" in command.get_help(context)
    with pytest.raises(click.BadParameter):
        command.make_context(name, ["--model", "m:f", *needed.get(name, []), "--dtype", "half"])


def test_only_float64_is_computed_in_float64():
    assert [float_type(name) for name in ("float64", "float32", "bfloat16", "mixed_float16", None)] == ["float64", *["float32"] * 4]
