"""Entries that contradict each other, and options that would have no effect: refused with their values, before anything is loaded."""

import click
import pytest

from hetero_mtf.commands.main import program
from hetero_mtf.commands.options.volume_options import VolumeOptions
from hetero_mtf.commands.train import command as train

NEEDED = ["--model", "net.py:net", "--data", "digits"]
WITH_PLAN = [*NEEDED, "--plan", "plan.json"]


@pytest.mark.parametrize(
    "command",
    [["calibrate"], ["plan", "--shares", "1,1"], ["train", "--data", "digits"], ["evaluate", "--data", "digits", "--checkpoint", "s.npz"]],
    ids=lambda words: words[0],
)
def test_an_argument_of_the_model_with_two_values_is_refused_with_both(cli, command):
    said = cli(*command, "--model", "net.py:net", "--model-arg", "filters=4", "--model-arg", "filters=8", "--model-arg", "size=3")
    assert said.code == 2 and "--model-arg gives filters as 4 and 8; give each once" in said.err


def test_an_argument_of_the_model_with_two_values_is_refused_in_a_file_and_one_on_the_command_line_wins(tmp_path):
    (tmp_path / "c.yaml").write_text("model: net.py:net\ndata: digits\nmodel-arg: [filters=4, filters=8]\n")
    with pytest.raises(click.UsageError, match="--model-arg gives filters as 4 and 8; give each once"):
        train.make_context("train", ["--config", str(tmp_path / "c.yaml")])
    context = train.make_context("train", ["--config", str(tmp_path / "c.yaml"), "--model-arg", "filters=2"])
    assert context.params["model_arguments"] == (("filters", 2),)


def test_a_class_with_two_weights_is_refused_with_both():
    with pytest.raises(click.UsageError, match="--class-weight gives AD as 2.0 and 3.0; give each once"):
        VolumeOptions(class_weight=(("AD", 2.0), ("NC", 1.0), ("AD", 3.0)))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["plan", "p.json", "--model", "net.py:net"], "--model would have no effect: a profile is planned from without .* or add --refine"),
        (["plan", "p.json", "--cluster", "local", "--worker-timeout", "9"], "--cluster and --worker-timeout would have no effect"),
        (["plan", "p.json", "--model-arg", "a=1", "--dtype", "float64"], "--model-arg and --precision would have no effect"),
        (["plan", "p.json", "--extrapolate"], "--extrapolate goes with --batch-size"),
        (["train", *WITH_PLAN, "--strategy", "batch"], "--strategy would have no effect: training is by the plan plan.json; leave out one"),
        (["train", *WITH_PLAN, "--refine"], "--refine would have no effect: it goes with --strategy auto, without --plan"),
        (["train", *NEEDED, "--collective", "ring", "--refine"], "--refine would have no effect"),
        (["train", *NEEDED, "--strategy", "batch", "--refine"], "--refine would have no effect"),
        (["explain", "p.json", "--json", "--html", "p.html"], "--json and --html exclude each other"),
        (["worker", "--port", "61000"], "--port goes with --hosts"),
        (["worker", "--hosts", "a:1,[::1]:2", "--port", "61000"], r"--port 61000 is for hosts without a port, and each of a:1,.* has one"),
    ],
)
def test_an_option_that_would_have_no_effect_is_wrong_usage(words, said):
    with pytest.raises(click.UsageError, match=said):
        program.main(words, prog_name="hetero-mtf", standalone_mode=False, obj=click.Context(program))


def test_options_of_a_file_give_way_in_silence(tmp_path):
    (tmp_path / "c.yaml").write_text("strategy: batch\nrefine: true\nplan: none.json\n")
    with pytest.raises(Exception, match="net.py"):  # it goes on to the files
        program.main(["train", "--config", str(tmp_path / "c.yaml"), *NEEDED], standalone_mode=False, obj=click.Context(program))
